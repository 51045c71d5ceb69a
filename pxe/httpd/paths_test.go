// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/httpd"
)

// loaderHandler serves a directory of loaders next to a secret file.
func loaderHandler(t testing.TB) (*httpd.Handler, *events) {
	t.Helper()
	outside := t.TempDir()
	dir := filepath.Join(outside, "loaders")
	for path, text := range map[string]string{"loaders/grubx64.efi": "GRUB", "loaders/sub/x": "below", "secret": "SECRET"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(outside, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(outside, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	ev := &events{}
	return &httpd.Handler{Directory: pxe.Table{}, Files: &pxe.Files{}, Loaders: root.FS(), AutoExec: "#!ipxe\n", Observer: ev}, ev
}

// UEFI HTTP boot gets the same files as TFTP, with the paths that shim writes, and without
// redirects.
func TestLoaders(t *testing.T) {
	h, ev := loaderHandler(t)
	for _, tc := range []struct {
		path   string
		status int
		text   string
	}{
		{"/grubx64.efi", 200, "GRUB"}, {"//grubx64.efi", 200, "GRUB"}, {"///grubx64.efi", 200, "GRUB"},
		{"/autoexec.ipxe", 200, "#!ipxe\n"}, {"//autoexec.ipxe", 200, "#!ipxe\n"},
		{"/revocations_sbat.efi", 404, ""}, {"/boot-from-disk", 404, ""}, {"/sub", 404, ""}, {"/sub/x", 404, ""}, {"/.", 404, ""},
		{"/link", 404, ""}, {"/..", 404, ""}, {"/../secret", 404, ""}, {"/%2e%2e%2fsecret", 404, ""}, {"/..%2fsecret", 404, ""},
		{`/..\secret`, 404, ""}, {"/grubx64.efi&x", 404, ""}, {"/grubx64.efi%00", 404, ""},
	} {
		t.Run(tc.path, func(t *testing.T) {
			r := do(t, h, "GET", tc.path)
			if got := body(t, r); r.StatusCode != tc.status || tc.status == 200 && got != tc.text {
				t.Errorf("status %d, %q", r.StatusCode, got)
			}
		})
	}
	r := do(t, h, "GET", "/grubx64.efi")
	etag := r.Header.Get("ETag")
	if r := do(t, h, "GET", "/grubx64.efi", "Range", "bytes=2-", "If-Range", etag); r.StatusCode != 206 || body(t, r) != "UB" {
		t.Errorf("status %d to a range of %s", r.StatusCode, etag)
	}
	if got := ev.text(); len(got) == 0 || got[0] != "Loader grubx64.efi" {
		t.Errorf("events %q", got)
	}
}

// Only regular files are served, because others cannot be sent by sendfile.
func TestLoadersAreFiles(t *testing.T) {
	h := &httpd.Handler{Loaders: fstest.MapFS{"a": {Data: []byte("a")}}}
	if r := do(t, h, "GET", "/a"); r.StatusCode != 404 {
		t.Errorf("status %d", r.StatusCode)
	}
}

// FuzzPaths: no path or header causes a panic, a redirect, or access to other files.
func FuzzPaths(f *testing.F) {
	for _, path := range []string{"/", "//grubx64.efi", "/../secret", "/boot/52:54:00:00:00:01/script.ipxe", "/files/0/../../secret",
		"/images/" + strings.Repeat("0", 64), "/link", "/%2e%2e/secret", "http://x/y", "*", "/sub//../..//secret"} {
		f.Add("GET", path, "bytes=0-")
	}
	f.Add("HEAD", "/grubx64.efi", "bytes=1-,0-,-1")
	h, _ := loaderHandler(f)
	f.Fuzz(func(t *testing.T, method, path, ranges string) {
		for _, u := range []*url.URL{{Path: path}, parsed(path)} {
			if u == nil {
				continue
			}
			r := &http.Request{Method: method, URL: u, Header: http.Header{"Range": {ranges}}, RemoteAddr: "192.0.2.1:1"}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code >= 300 && w.Code < 400 && w.Code != 304 {
				t.Errorf("redirected: %d", w.Code)
			}
			if strings.Contains(w.Body.String(), "SECRET") {
				t.Error("served what is outside")
			}
		}
	})
}

func parsed(path string) *url.URL {
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return nil
	}
	return u
}
