// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
)

// loopback is a NIC on the machine's own network.
type loopback struct{ unplugged }

func (loopback) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

// TestFetchLive shows which data a command line leads to, and that errors do not show the address.
func TestFetchLive(t *testing.T) {
	const secret = "address-canary-31d7"
	files := map[string]string{"user-data": "user", "meta-data": "instance-id: a", "vendor-data": "vendor"}
	for name, tc := range map[string]struct {
		line  string // %s is the server
		code  int
		want  diskSeed
		final bool
		fails bool
	}{
		"one file":       {line: "quiet data=%s/live/v1/" + secret + "/user-data", want: diskSeed{UserData: "user"}},
		"cloud-init":     {line: "ds=nocloud;s=%s/live/v1/" + secret + "/", want: diskSeed{UserData: "user", MetaData: "instance-id: a", VendorData: "vendor"}},
		"refused":        {line: "data=%s/live/v1/" + secret + "/user-data", code: http.StatusUnauthorized, fails: true, final: true},
		"not yet":        {line: "data=%s/live/v1/" + secret + "/user-data", code: http.StatusServiceUnavailable, fails: true},
		"no address":     {line: "quiet %s", fails: true, final: true},
		"an invalid pin": {line: "pin=sha1//x data=%s/live/v1/" + secret + "/user-data", fails: true, final: true},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, found := files[strings.TrimPrefix(r.URL.Path, "/live/v1/"+secret+"/")]
				switch {
				case tc.code != 0:
					w.WriteHeader(tc.code)
				case !found:
					http.NotFound(w, r)
				default:
					_, _ = io.WriteString(w, text)
				}
			}))
			defer web.Close()
			s := newServer(t, func(c *Config) { c.NIC = loopback{} })
			got, err := s.fetchLive(t.Context(), fmt.Sprintf(tc.line, web.URL))
			if (err != nil) != tc.fails || errors.Is(err, errFinal) != tc.final {
				t.Fatalf("error %v", err)
			}
			if shown := fmt.Sprint(err, s.Events()); strings.Contains(shown, secret) {
				t.Errorf("the address shows: %s", shown)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(diskSeed{}, "WrittenAt")); !tc.fails && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWriteLive shows that the written disk is bootable and has no Ingot marker.
func TestWriteLive(t *testing.T) {
	s := newServer(t, nil)
	d := s.disks[0]
	dev, err := d.open(t.Context())
	must(t, err)
	must(t, marker.Write(dev, agentapi.Marker{InstanceID: "i", Attempt: 1}))
	must(t, dev.Close())
	if err := d.bootable(t.Context()); err == nil {
		t.Fatal("an empty disk boots")
	}
	must(t, d.writeLive(t.Context(), diskSeed{UserData: "user"}))
	must(t, d.bootable(t.Context()))
	seed, err := d.readSeed(t.Context())
	must(t, err)
	if seed.UserData != "user" || d.describe().Marker != nil {
		t.Errorf("seed %+v, marker %+v", seed, d.describe().Marker)
	}
}

// TestLiveKernels shows that only a LiveKernel is loaded.
func TestLiveKernels(t *testing.T) {
	k := &liveKernels{server: newServer(t, nil)}
	load := func(kernel string) error {
		a, err := k.File("kernel")
		must(t, err)
		defer func() { _ = a.Close() }()
		b, err := k.File("initrd")
		must(t, err)
		defer func() { _ = b.Close() }()
		_, err = a.WriteString(kernel)
		must(t, err)
		return k.Load(a, b, "quiet secret")
	}
	if err := load("MZ"); !errors.Is(err, agent.ErrKernelRefused) || k.commandLine != "" {
		t.Errorf("loaded a file that is not a kernel: %v", err)
	}
	if err := load(LiveKernel + " and more"); err != nil || k.commandLine != "quiet secret" {
		t.Errorf("%v, command line %q", err, k.commandLine)
	}
}
