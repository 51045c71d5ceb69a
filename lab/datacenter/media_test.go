// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package datacenter

import (
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/lab/network"
)

// TestDrive shows that the drive has the inserted image at the next boot, and keeps it when the next
// image cannot be fetched. Errors do not show the URL, which holds a secret.
func TestDrive(t *testing.T) {
	sw := network.NewSwitch()
	t.Cleanup(func() { _ = sw.Close() })
	stack, err := network.NewStack(sw, network.StackConfig{Name: "boot", Address: netip.MustParsePrefix("10.77.0.2/24")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Close() })
	listener, err := stack.ListenTCP(80)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ticket/agent.iso" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("the image"))
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })

	d, err := newDrive(sw, ServerSpec{Name: "s", Media: netip.MustParsePrefix("10.77.0.250/24")}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.close() })
	for _, step := range []struct{ url, failure, want string }{
		{"", "", strings.Repeat("\x00", emptyDrive)},
		{"http://10.77.0.2/ticket/agent.iso", "", "the image"},
		{"http://10.77.0.2/secret/none.iso", "status 404", "the image"},
		{"http://10.77.0.2:81/secret/none.iso", "cannot be fetched", "the image"},
	} {
		d.inserted = func() string { return step.url }
		err := d.load(t.Context())
		if (err == nil) != (step.failure == "") || err != nil && (!strings.Contains(err.Error(), step.failure) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %q", step.url, err, step.failure)
		}
		if got, err := os.ReadFile(d.path); err != nil || string(got) != step.want {
			t.Errorf("%s: the drive holds %d bytes, %v", step.url, len(got), err)
		}
	}
}
