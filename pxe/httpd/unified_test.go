// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/pxe/media"
)

// discs knows one ticket and returns a new token for each request.
type discs struct {
	host pxe.Host
	asks int
}

func (d *discs) HostByToken(ticket string) (pxe.Host, bool) {
	if ticket != "the-ticket" {
		return pxe.Host{}, false
	}
	d.asks++
	h := d.host
	h.Plan.Agent.Token = agentapi.Sensitive("token-" + strconv.Itoa(d.asks))
	return h, true
}

// withUnified gives the agent's host of newHandler a unified image and a CD image.
func withUnified(t *testing.T) (*httpd.Handler, *events, *discs) {
	t.Helper()
	h, _, ev, _ := newHandler(t)
	path := filepath.Join(t.TempDir(), "agent.efi")
	program := bytes.Repeat([]byte("unified "), 1000)
	if err := os.WriteFile(path, program, 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := h.Files.Add(path)
	if err != nil {
		t.Fatal(err)
	}
	table := h.Directory.(pxe.Table)
	host := table[agentMAC]
	host.Plan.Agent.Method, host.Plan.Agent.Unified = pxe.BootHTTP, file
	table[agentMAC] = host
	template, err := media.New(program)
	if err != nil {
		t.Fatal(err)
	}
	d := &discs{host: host}
	h.MediaDirectory, h.MediaTemplate = d, template
	return h, ev, d
}

func TestUnified(t *testing.T) {
	h, ev, _ := withUnified(t)
	for name, tc := range map[string]struct {
		method, path string
		status       int
		length       int64
	}{
		"the agent's host":             {http.MethodGet, "/boot/" + agentMAC + "/agent.efi", 200, 8000},
		"firmware asks its size":       {http.MethodHead, "/boot/" + agentMAC + "/agent.efi", 200, 8000},
		"two slashes":                  {http.MethodGet, "//boot/" + agentMAC + "//agent.efi", 200, 8000},
		"boots its disk":               {http.MethodGet, "/boot/" + diskMAC + "/agent.efi", 404, -1},
		"boots nothing":                {http.MethodGet, "/boot/" + noneMAC + "/agent.efi", 404, -1},
		"not given unified images":     {http.MethodGet, "/boot/" + badMAC + "/agent.efi", 404, -1},
		"unknown":                      {http.MethodGet, "/boot/52:54:00:00:00:99/agent.efi", 404, -1},
		"no address":                   {http.MethodGet, "/boot/x/agent.efi", 404, -1},
		"an InfiniBand address":        {http.MethodGet, "/boot/00:01:02:03:04:05:06:07/agent.efi", 404, -1},
		"the path that BMCs are given": {http.MethodGet, pxe.UnifiedPath(mustMAC(t, agentMAC)), 200, 8000},
	} {
		t.Run(name, func(t *testing.T) {
			r := do(t, h, tc.method, tc.path)
			if r.StatusCode != tc.status || tc.length >= 0 && r.ContentLength != tc.length {
				t.Errorf("status %d, %d bytes, want %d and %d", r.StatusCode, r.ContentLength, tc.status, tc.length)
			}
			if strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
				t.Error("the address is not its content's")
			}
		})
	}
	want := []string{agentMAC + " File agent.efi"}
	got := ev.text()
	for len(got) > 1 && got[0] == got[1] {
		got = got[1:]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// If the BMC sets the boot method, boot loaders get neither agent nor token. The unified image is
// only for hosts that boot by HTTP.
func TestBootMethods(t *testing.T) {
	for way, wantImage := range map[pxe.BootMethod]int{pxe.BootVirtualMedia: 404, pxe.BootHTTP: 200} {
		t.Run(way.String(), func(t *testing.T) {
			h, ev, _ := withUnified(t)
			table := h.Directory.(pxe.Table)
			host := table[agentMAC]
			host.Plan.Agent.Method = way
			table[agentMAC] = host
			r := do(t, h, http.MethodGet, "/boot/"+agentMAC+"/script.ipxe")
			if text := body(t, r); r.StatusCode != 200 || !strings.Contains(text, "sanboot") || strings.Contains(text, "ingot.") {
				t.Errorf("script: status %d, %q", r.StatusCode, text)
			}
			if diff := cmp.Diff([]string{agentMAC + " Script LocalDisk"}, ev.text()); diff != "" {
				t.Error(diff)
			}
			if r := do(t, h, http.MethodGet, "/boot/"+agentMAC+"/agent.efi"); r.StatusCode != wantImage {
				t.Errorf("unified image: status %d, want %d", r.StatusCode, wantImage)
			}
		})
	}
}

func TestVirtualMedia(t *testing.T) {
	h, ev, d := withUnified(t)
	r := do(t, h, http.MethodGet, pxe.MediaPath("the-ticket"))
	whole := body(t, r)
	if r.StatusCode != 200 || int64(len(whole)) != h.MediaTemplate.Size() || r.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("status %d, %d bytes of %d, %v", r.StatusCode, len(whole), h.MediaTemplate.Size(), r.Header)
	}
	if r.Header.Get("ETag") != "" || r.Header.Get("Last-Modified") != "" {
		t.Errorf("a generated image has a validator: %v", r.Header)
	}
	at := strings.Index(whole, "ingot.server=")
	want := "ingot.server=192.0.2.1:8843\ningot.files=" + base + "\ningot.mac=" + agentMAC + "\ningot.token=token-1\n\n"
	if at < 0 || !strings.HasPrefix(whole[at:], want) {
		t.Fatalf("the host's file is at %d", at)
	}
	t.Run("a range", func(t *testing.T) {
		r := do(t, h, http.MethodGet, pxe.MediaPath("the-ticket"), "Range", "bytes="+strconv.Itoa(at)+"-"+strconv.Itoa(at+2047))
		if got := body(t, r); r.StatusCode != 206 || len(got) != 2048 || !strings.Contains(got, "ingot.token=token-2\n") {
			t.Errorf("status %d, %d bytes", r.StatusCode, len(got))
		}
	})
	t.Run("its size", func(t *testing.T) {
		if r := do(t, h, http.MethodHead, pxe.MediaPath("the-ticket")); r.StatusCode != 200 || r.ContentLength != h.MediaTemplate.Size() {
			t.Errorf("status %d, %d bytes", r.StatusCode, r.ContentLength)
		}
	})
	t.Run("another ticket", func(t *testing.T) {
		if r := do(t, h, http.MethodGet, pxe.MediaPath("another")); r.StatusCode != 404 {
			t.Errorf("status %d", r.StatusCode)
		}
	})
	if diff := cmp.Diff([]string{agentMAC + " File agent.iso"}, ev.text()); diff != "" {
		t.Errorf("one event, however many pieces: %s", diff)
	}
	t.Run("unsafe values are not shown", func(t *testing.T) {
		d.host.Plan.Agent.Server = "two words"
		r := do(t, h, http.MethodGet, pxe.MediaPath("the-ticket"))
		if text := body(t, r); r.StatusCode != 500 || strings.Contains(text, "token-") {
			t.Errorf("status %d: %s", r.StatusCode, text)
		}
	})
	t.Run("none are served", func(t *testing.T) {
		h.MediaDirectory = nil
		if r := do(t, h, http.MethodGet, pxe.MediaPath("the-ticket")); r.StatusCode != 404 {
			t.Errorf("status %d", r.StatusCode)
		}
	})
}
