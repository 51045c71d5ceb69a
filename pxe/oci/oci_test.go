// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/pxe/oci"
)

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// registry has a repository "images/node". It redirects to its blobs and requires an anonymous
// token.
type registry struct {
	manifest, layer []byte
	// sends replaces the manifest, if set.
	sends  []byte
	tokens bool
	status int
	asked  []string
}

func manifest(layers ...[]byte) []byte {
	var list []string
	for _, l := range layers {
		list = append(list, fmt.Sprintf(`{"mediaType":"application/octet-stream","size":%d,"digest":%q}`, len(l), digest(l)))
	}
	return []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.example.disk",` +
		`"config":{"mediaType":"application/vnd.oci.empty.v1+json","size":2,"digest":"` + digest([]byte("{}")) + `"},"layers":[` + strings.Join(list, ",") + `]}`)
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.asked = append(r.asked, req.Method+" "+req.URL.Path)
	if req.URL.Path == "/token" {
		_, _ = io.WriteString(w, `{"token":"for anybody"}`)
		return
	}
	if req.URL.Path == "/storage" {
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(r.layer))
		return
	}
	if r.tokens && req.Header.Get("Authorization") != "Bearer for anybody" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+req.Host+`/token",service="images"`)
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	switch req.URL.Path {
	case "/v2/":
	case "/v2/images/node/manifests/" + digest(r.manifest):
		if r.status != 0 {
			http.Error(w, "no", r.status)
			return
		}
		if r.sends != nil {
			_, _ = w.Write(r.sends)
			return
		}
		_, _ = w.Write(r.manifest)
	case "/v2/images/node/blobs/" + digest(r.layer):
		http.Redirect(w, req, "/storage?signature=secret", http.StatusTemporaryRedirect)
	default:
		http.NotFound(w, req)
	}
}

func (r *registry) start(t *testing.T) (client *http.Client, url string) {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: &oci.Transport{Base: base}},
		"oci://" + strings.TrimPrefix(server.URL, "http://") + "/images/node@" + digest(r.manifest)
}

func TestFetch(t *testing.T) {
	layer := []byte("an operating system")
	for _, c := range []struct {
		name, method, ranges, want string
		tokens                     bool
		status                     int
	}{
		{name: "whole", method: http.MethodGet, want: string(layer), status: 200},
		{name: "with a token for anybody", method: http.MethodGet, tokens: true, want: string(layer), status: 200},
		{name: "a part", method: http.MethodGet, ranges: "bytes=3-11", want: "operating", status: 206},
		{name: "its head", method: http.MethodHead, status: 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &registry{manifest: manifest(layer), layer: layer, tokens: c.tokens}
			client, url := r.start(t)
			req, err := http.NewRequestWithContext(t.Context(), c.method, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.ranges != "" {
				req.Header.Set("Range", c.ranges)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			got, err := io.ReadAll(resp.Body)
			if diff := cmp.Diff(c.want, string(got)); diff != "" || err != nil || resp.StatusCode != c.status {
				t.Errorf("status %d, error %v, asked %q: %s", resp.StatusCode, err, r.asked, diff)
			}
			if c.method == http.MethodHead && resp.ContentLength != int64(len(layer)) {
				t.Errorf("a length of %d", resp.ContentLength)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	layer := []byte("an operating system")
	index := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`)
	for _, c := range []struct {
		name     string
		registry registry
		err      error
		says     string
	}{
		{"two layers", registry{manifest: manifest(layer, layer)}, oci.ErrArtifact, "2 layers"},
		{"no layer", registry{manifest: manifest()}, oci.ErrArtifact, "0 layers"},
		{"an index", registry{manifest: index}, oci.ErrArtifact, "one platform"},
		{"another manifest", registry{manifest: manifest(layer), sends: manifest(layer, layer)}, oci.ErrArtifact, "sent a manifest with digest"},
		{"no manifest", registry{manifest: []byte("no JSON")}, oci.ErrArtifact, "cannot be read"},
		{"a huge manifest", registry{manifest: bytes.Repeat([]byte(" "), 5<<20)}, oci.ErrArtifact, "4 MiB"},
		{"not there", registry{manifest: manifest(layer), status: 404}, nil, "status 404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.registry.layer = layer
			client, url := c.registry.start(t)
			resp, err := client.Get(url)
			if err == nil {
				_ = resp.Body.Close()
				t.Fatal("no error")
			}
			if c.err != nil && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %v with %q", err, c.err, c.says)
			}
		})
	}
}

// forbidden allows requests to one host only.
type forbidden struct{ allowed string }

var errForbidden = errors.New("forbidden")

func (f forbidden) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != f.allowed {
		return nil, errForbidden
	}
	return http.DefaultTransport.RoundTrip(req)
}

// Requests for tokens and for content on other servers go through Base, too.
func TestEveryRequestGoesThroughBase(t *testing.T) {
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	layer := []byte("an operating system")
	for _, c := range []struct {
		name string
		lead func(w http.ResponseWriter, req *http.Request, r *registry) bool
	}{
		{"for a token", func(w http.ResponseWriter, _ *http.Request, _ *registry) bool {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://tokens.example/token"`)
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return true
		}},
		{"for the layer", func(w http.ResponseWriter, req *http.Request, _ *registry) bool {
			if !strings.Contains(req.URL.Path, "/blobs/") {
				return false
			}
			http.Redirect(w, req, elsewhere.URL+"/storage?signature=secret", http.StatusTemporaryRedirect)
			return true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &registry{manifest: manifest(layer), layer: layer}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if !c.lead(w, req, r) {
					r.ServeHTTP(w, req)
				}
			}))
			t.Cleanup(server.Close)
			host := strings.TrimPrefix(server.URL, "http://")
			client := &http.Client{Transport: &oci.Transport{Base: forbidden{host}}}
			resp, err := client.Get("oci://" + host + "/images/node@" + digest(r.manifest))
			if err == nil {
				_ = resp.Body.Close()
			}
			if !errors.Is(err, errForbidden) || strings.Contains(fmt.Sprint(err), "signature") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestParse(t *testing.T) {
	sum := digest(nil)
	for _, c := range []struct {
		url  string
		want string
	}{
		{"oci://registry.example/images/node@" + sum, "registry.example/images/node@" + sum},
		{"oci://registry.example:5000/node@" + sum, "registry.example:5000/node@" + sum},
		{"oci://registry.example/images/node:v1", ""},
		{"oci://registry.example/images/node:v1@" + sum, ""},
		{"oci://registry.example/images/node", ""},
		{"oci://registry.example/images/node@sha256:12", ""},
		{"oci://registry.example@" + sum, ""},
		{"oci://images/node@" + sum, ""},
		{"oci:///images/node@" + sum, ""},
		{"oci://registry.example/Images/node@" + sum, ""},
		{"https://registry.example/images/node@" + sum, ""},
	} {
		got, err := oci.Parse(c.url)
		if c.want == "" {
			if !errors.Is(err, oci.ErrReference) {
				t.Errorf("%s: error %v", c.url, err)
			}
			continue
		}
		if err != nil || got.Name() != c.want {
			t.Errorf("%s: %s, %v", c.url, got.Name(), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("oci://registry.example/images/node@" + digest(nil))
	f.Add("oci://registry.example/images/node:v1")
	f.Add("oci://registry.example/images/node:v1@" + digest(nil))
	f.Fuzz(func(t *testing.T, url string) {
		ref, err := oci.Parse(url)
		if err == nil && "oci://"+ref.Name() != url {
			t.Errorf("%q is read as %q", url, ref.Name())
		}
	})
}

// Errors do not contain a server's answer: the registry chooses the token server and may name any
// service of its network.
func TestAnswersAreNotInErrors(t *testing.T) {
	const inside = "CANARY: what an internal service answers"
	for _, c := range []struct {
		name, says string
		answer     func(w http.ResponseWriter, req *http.Request)
	}{
		{name: "a realm that gives no token", says: "gave no token", answer: func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/token" {
				_, _ = io.WriteString(w, `{"internal": "`+inside+`"}`)
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+req.Host+`/token"`)
			http.Error(w, "unauthorized", http.StatusUnauthorized)
		}},
		{name: "a realm that refuses", says: "status 403", answer: func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/token" {
				http.Error(w, inside, http.StatusForbidden)
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+req.Host+`/token"`)
			http.Error(w, "unauthorized", http.StatusUnauthorized)
		}},
		{name: "no registry", says: "status 418", answer: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"errors":[{"code":"DENIED","message":"`+inside+`"}]}`, http.StatusTeapot)
		}},
		{name: "round in circles", says: "redirects", answer: func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/v2/" {
				return
			}
			http.Redirect(w, req, req.URL.Path+"?signature=CANARY", http.StatusTemporaryRedirect)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(c.answer))
			t.Cleanup(server.Close)
			client := &http.Client{Transport: &oci.Transport{Base: &http.Transport{}}}
			resp, err := client.Get("oci://" + strings.TrimPrefix(server.URL, "http://") + "/images/node@" + digest(nil))
			if err == nil {
				_ = resp.Body.Close()
			}
			if text := fmt.Sprint(err); !strings.Contains(text, c.says) || strings.Contains(text, "CANARY") {
				t.Errorf("error %s, want %q", text, c.says)
			}
		})
	}
}
