// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/httpd"
)

const (
	base     = "http://192.0.2.1:8880"
	token    = "the-boot-token"
	agentMAC = "52:54:00:12:34:56"
	diskMAC  = "52:54:00:12:34:57"
	noneMAC  = "52:54:00:12:34:58"
	badMAC   = "52:54:00:12:34:59"
)

func mustMAC(t *testing.T, s string) net.HardwareAddr {
	t.Helper()
	m, err := net.ParseMAC(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type events struct {
	mu   sync.Mutex
	list []pxe.BootEvent
}

func (e *events) Observe(ev pxe.BootEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ev)
}

func (e *events) text() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var s []string
	for _, ev := range e.list {
		s = append(s, strings.TrimSpace(ev.MAC.String()+" "+string(ev.Stage)+" "+ev.Detail))
	}
	return s
}

// newHandler serves a file "vmlinuz" with the text "kernel" to three hosts.
func newHandler(t *testing.T) (*httpd.Handler, pxe.File, *events, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(path, []byte("kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	var files pxe.Files
	kernel, err := files.Add(path)
	if err != nil {
		t.Fatal(err)
	}
	table := pxe.Table{}
	add := func(mac string, plan pxe.Plan) {
		table[mac] = pxe.Host{Namespace: "default", Name: "h", MAC: mustMAC(t, mac), Plan: plan,
			Address: netip.MustParsePrefix("192.0.2.17/24")}
	}
	boot := pxe.AgentBoot{Kernel: kernel, Server: "192.0.2.1:8843", Token: token}
	add(agentMAC, pxe.Plan{Kind: pxe.Agent, Agent: boot})
	add(diskMAC, pxe.Plan{Kind: pxe.LocalDisk})
	add(noneMAC, pxe.Plan{})
	boot.Arguments = []string{"two words"}
	add(badMAC, pxe.Plan{Kind: pxe.Agent, Agent: boot})
	ev := &events{}
	return &httpd.Handler{BaseURL: base, Directory: table, Files: &files, Observer: ev}, kernel, ev, path
}

func do(t *testing.T, h http.Handler, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "http://boot"+path, nil)
	r.RemoteAddr = "192.0.2.17:40000"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPaths(t *testing.T) {
	h, kernel, _, _ := newHandler(t)
	file := kernel.Path()
	for _, tc := range []struct {
		name, method, path string
		status             int
		contains           string
	}{
		{"agent's script", "GET", "/boot/" + agentMAC + "/script.ipxe", 200, "ingot.token=" + token},
		{"MAC in capitals", "GET", "/boot/" + strings.ToUpper(agentMAC) + "/script.ipxe", 200, "#!ipxe"},
		{"escaped colons", "GET", "/boot/" + strings.ReplaceAll(agentMAC, ":", "%3A") + "/script.ipxe", 200, "#!ipxe"},
		{"disk's script", "GET", "/boot/" + diskMAC + "/script.ipxe", 200, "sanboot"},
		{"nothing to boot", "GET", "/boot/" + noneMAC + "/script.ipxe", 404, ""},
		{"script that cannot be made", "GET", "/boot/" + badMAC + "/script.ipxe", 500, ""},
		{"unknown host", "GET", "/boot/52:54:00:00:00:00/script.ipxe", 404, ""},
		{"no MAC", "GET", "/boot/server-1/script.ipxe", 404, ""},
		{"EUI-64", "GET", "/boot/02:00:5e:10:00:00:00:01/script.ipxe", 404, ""},
		{"file", "GET", file, 200, "kernel"},
		{"file with two slashes, not redirected", "GET", "/" + file, 200, "kernel"},
		{"shim's question", "GET", "//grubx64.efi", 404, ""},
		{"file by another name", "GET", "/files/" + kernel.SHA256 + "/other", 404, ""},
		{"file by another digest", "GET", "/files/" + strings.Repeat("0", 64) + "/vmlinuz", 404, ""},
		{"path traversal", "GET", "/files/../../etc/passwd", 404, ""},
		{"no cache of images", "GET", "/images/" + strings.Repeat("0", 64), 404, ""},
		{"root", "GET", "/", 404, ""},
		{"write", "PUT", file, 405, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := do(t, h, tc.method, tc.path)
			text := body(t, r)
			if r.StatusCode != tc.status || !strings.Contains(text, tc.contains) {
				t.Errorf("status %d, body %q", r.StatusCode, text)
			}
			if tc.status == 200 && r.Header.Get("Content-Length") != strconv.Itoa(len(text)) {
				t.Errorf("Content-Length %q for %d bytes", r.Header.Get("Content-Length"), len(text))
			}
			if tc.status != 200 && strings.Contains(text, token) {
				t.Errorf("the token shows in %q", text)
			}
		})
	}
}

func TestFileSpeaksHTTP(t *testing.T) {
	h, kernel, _, _ := newHandler(t)
	etag := `"` + kernel.SHA256 + `"`
	for _, tc := range []struct {
		name, method string
		header       []string
		status       int
		body, length string
	}{
		{"HEAD", "HEAD", nil, 200, "", "6"},
		{"range", "GET", []string{"Range", "bytes=2-3"}, 206, "rn", "2"},
		{"rest", "GET", []string{"Range", "bytes=4-", "If-Range", etag}, 206, "el", "2"},
		{"range of another version", "GET", []string{"Range", "bytes=4-", "If-Range", `"old"`}, 200, "kernel", "6"},
		{"range beyond", "GET", []string{"Range", "bytes=9-"}, 416, "", ""},
		{"known already", "GET", []string{"If-None-Match", etag}, 304, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := do(t, h, tc.method, kernel.Path(), tc.header...)
			text := body(t, r)
			if r.StatusCode != tc.status || (tc.body != "" && text != tc.body) {
				t.Errorf("status %d, body %q", r.StatusCode, text)
			}
			if got := r.Header.Get("Content-Length"); tc.length != "" && got != tc.length {
				t.Errorf("Content-Length %q, want %q", got, tc.length)
			}
			if r.StatusCode < 400 && r.Header.Get("ETag") != etag {
				t.Errorf("ETag %q", r.Header.Get("ETag"))
			}
		})
	}
}

func TestFileChangedOnDiskIsNotServed(t *testing.T) {
	h, kernel, ev, path := newHandler(t)
	if err := os.WriteFile(path, []byte("another kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := do(t, h, "GET", kernel.Path()); r.StatusCode != 404 {
		t.Errorf("status %d, body %q", r.StatusCode, body(t, r))
	}
	if got := ev.text(); len(got) != 1 || !strings.Contains(got[0], "changed on disk") {
		t.Errorf("events %q", got)
	}
}

func TestEventsOfABoot(t *testing.T) {
	h, kernel, ev, _ := newHandler(t)
	do(t, h, "HEAD", "/boot/"+agentMAC+"/script.ipxe")
	do(t, h, "GET", "/boot/"+agentMAC+"/script.ipxe")
	do(t, h, "GET", "/boot/"+badMAC+"/script.ipxe")
	do(t, h, "HEAD", kernel.Path())
	do(t, h, "GET", kernel.Path())
	got := ev.text()
	want := []string{agentMAC + " Script Agent",
		badMAC + ` Failed boot script: value is not allowed in a boot script: kernel argument "two words"`, "File vmlinuz"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, e := range ev.list {
		if e.Client != netip.MustParseAddr("192.0.2.17") || e.At.IsZero() {
			t.Errorf("event %+v", e)
		}
	}
	if strings.Contains(strings.Join(got, "\n"), token) {
		t.Errorf("an event shows the token: %q", got)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	h, kernel, _, _ := newHandler(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- httpd.Serve(ctx, l, h, httpd.Options{}) }()
	c := http.Client{Timeout: 30 * time.Second}
	r, err := c.Get("http://" + l.Addr().String() + kernel.Path())
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, r); got != "kernel" {
		t.Errorf("got %q", got)
	}
	_ = r.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}

	if l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := httpd.Serve(context.Background(), l, h, httpd.Options{}); err == nil {
		t.Error("a broken listener is no error")
	}
}
