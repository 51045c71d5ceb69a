// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/image"
)

func TestSourceGivesUpOnASilentServer(t *testing.T) {
	server := &agenttest.Images{Content: rawImage(3 * mib), Status: http.StatusBadGateway}
	req := request(server.Start(t))
	req.Patience = time.Nanosecond
	_, err := image.Open(t.Context(), req, image.Format{Checksum: server.Checksum()})
	if !errors.Is(err, image.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

// A boot server that fetches the image is waited for; one that has failed to, and tries
// again and again, is not for longer than a silent one, and nobody for ever.
func TestSourceAndABusyServer(t *testing.T) {
	for _, tc := range []struct {
		name     string
		server   *agenttest.Images
		patience time.Duration
		busy     time.Duration
		want     error
		says     string
	}{
		{name: "it fetches", server: &agenttest.Images{Busy: 3}},
		{name: "it has failed to", server: &agenttest.Images{Busy: 3, Problem: "image source § not allowed"}, patience: time.Nanosecond,
			want: image.ErrUnavailable, says: "answer 503: image source ? not allowed; nothing for"},
		{name: "it has failed to, and then comes", server: &agenttest.Images{Busy: 3, Problem: "status 500"}},
		{name: "it fetches for ever", server: &agenttest.Images{Busy: 1 << 30}, busy: time.Millisecond, want: image.ErrUnavailable, says: "answer 503; nothing for"},
		{name: "another failure", server: &agenttest.Images{Status: http.StatusBadGateway, Problem: strings.Repeat("x", 1000)}, patience: time.Nanosecond,
			want: image.ErrUnavailable, says: "answer 502: " + strings.Repeat("x", 300) + ";"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := tc.server
			server.Content = rawImage(3 * mib)
			req := request(server.Start(t))
			req.Patience, req.Busy = tc.patience, tc.busy
			told := 0
			req.OnBusy = func(time.Duration) { told++ }
			img, err := image.Open(t.Context(), req, image.Format{Checksum: server.Checksum()})
			if err == nil {
				_ = img.Close()
			}
			if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want %v with %q", err, tc.want, tc.says)
			}
			if server.Busy > 0 && told < min(server.Busy, 1) {
				t.Errorf("told %d times that the server is busy", told)
			}
		})
	}
}

func TestSourceGivesUpOnAServerThatIsGone(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	req := request(gone.URL)
	req.Patience = time.Nanosecond
	_, err := image.Open(t.Context(), req, image.Format{Checksum: fmt.Sprintf("sha256:%064d", 0)})
	if !errors.Is(err, image.ErrUnreachable) || errors.Is(err, image.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}
