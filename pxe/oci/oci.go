// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Scheme of the URLs that this package is for.
const Scheme = "oci"

// What is wrong with an artefact.
var (
	// ErrReference: the URL names no manifest by its digest.
	ErrReference = errors.New("not oci://registry/repository@sha256:<digest of the manifest>")
	// ErrArtefact: what the digest names is not one file.
	ErrArtefact = errors.New("the artefact is not one image file")
)

const (
	// maxManifest is what registries accept as well (OCI distribution specification
	// 1.1, "Pushing Manifests").
	maxManifest  = 4 << 20
	maxRedirects = 5
)

// Transport is a round tripper for URLs of Scheme; others it gives to Base.
type Transport struct {
	// Base does every request. Required.
	Base http.RoundTripper
}

// RoundTrip implements http.RoundTripper. GET and HEAD of an artefact are answered as
// its registry answers for the layer, with Range where it was asked for.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != Scheme {
		return t.Base.RoundTrip(req)
	}
	ref, err := Parse(req.URL.String())
	if err != nil {
		return nil, err
	}
	// Tokens are asked for beneath it, and it is used once.
	authenticated, err := transport.NewWithContext(req.Context(), ref.Registry, authn.Anonymous, marked{t.Base},
		[]string{ref.Scope(transport.PullScope)})
	if err != nil {
		return nil, fmt.Errorf("ask registry %s: %w", ref.RegistryStr(), withoutAnswer(err))
	}
	client := &http.Client{Transport: authenticated, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errRedirects
		}
		next.Header.Del("Referer")
		return nil
	}}
	layer, err := layerOf(req.Context(), client, ref)
	if err != nil {
		return nil, err
	}
	return blob(client, req, ref, layer)
}

// Parse reads a URL of Scheme.
func Parse(from string) (name.Digest, error) {
	rest, ok := strings.CutPrefix(from, Scheme+"://")
	host, repository, _ := strings.Cut(rest, "/")
	if !ok || host == "" || !strings.Contains(repository, "@sha256:") {
		return name.Digest{}, ErrReference
	}
	ref, err := name.NewDigest(rest, name.StrictValidation)
	if err != nil {
		return name.Digest{}, fmt.Errorf("%w: %s", ErrReference, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if ref.RegistryStr() != host { // "images/node" would mean a registry that nobody wrote
		return name.Digest{}, fmt.Errorf("%w: name the registry, as in registry.example/images/node", ErrReference)
	}
	if ref.Name() != rest { // a tag beside the digest is left out of the name; admission lets in none
		return name.Digest{}, fmt.Errorf("%w: without a tag, which may name another manifest tomorrow", ErrReference)
	}
	return ref, nil
}

// layerOf reads and verifies the manifest, and returns the digest of its one layer.
func layerOf(ctx context.Context, client *http.Client, ref name.Digest) (v1.Hash, error) {
	want, err := v1.NewHash(ref.DigestStr())
	if err != nil {
		return v1.Hash{}, fmt.Errorf("%w: %w", ErrReference, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address(ref, "manifests", ref.DigestStr()), nil)
	if err != nil {
		return v1.Hash{}, ErrReference
	}
	req.Header.Set("Accept", string(types.OCIManifestSchema1)+", "+string(types.DockerManifestSchema2)+
		", "+string(types.OCIImageIndex)+", "+string(types.DockerManifestList))
	resp, err := client.Do(req)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read the manifest from %s: %w", ref.RegistryStr(), withoutAnswer(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return v1.Hash{}, fmt.Errorf("read the manifest from %s: status %d", ref.RegistryStr(), resp.StatusCode)
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read the manifest from %s: %w", ref.RegistryStr(), err)
	}
	got, _, err := v1.SHA256(bytes.NewReader(content))
	switch {
	case err != nil:
		return v1.Hash{}, err
	case len(content) > maxManifest:
		return v1.Hash{}, fmt.Errorf("%w: its manifest has more than %d MiB", ErrArtefact, maxManifest>>20)
	case got != want:
		return v1.Hash{}, fmt.Errorf("%w: the registry sent a manifest with digest %s", ErrArtefact, got)
	}
	return oneLayer(content)
}

// oneLayer reads a manifest.
func oneLayer(content []byte) (v1.Hash, error) {
	manifest, err := v1.ParseManifest(bytes.NewReader(content))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("%w: its manifest cannot be read", ErrArtefact)
	}
	if manifest.MediaType.IsIndex() {
		return v1.Hash{}, fmt.Errorf("%w: the digest is that of an index; name the manifest for one platform", ErrArtefact)
	}
	if len(manifest.Layers) != 1 {
		return v1.Hash{}, fmt.Errorf("%w: it has %d layers; push the image file alone, as with oras push", ErrArtefact, len(manifest.Layers))
	}
	layer := manifest.Layers[0].Digest
	if layer.Algorithm != "sha256" {
		return v1.Hash{}, fmt.Errorf("%w: its layer's digest is of kind %.20q", ErrArtefact, layer.Algorithm)
	}
	return layer, nil
}

// blob asks for the layer as req asks for the artefact.
func blob(client *http.Client, req *http.Request, ref name.Digest, layer v1.Hash) (*http.Response, error) {
	ask, err := http.NewRequestWithContext(req.Context(), req.Method, address(ref, "blobs", layer.String()), nil)
	if err != nil {
		return nil, ErrReference
	}
	for _, header := range []string{"Range", "Accept-Encoding", "User-Agent"} {
		if value := req.Header.Get(header); value != "" {
			ask.Header.Set(header, value)
		}
	}
	resp, err := client.Do(ask)
	if err != nil {
		return nil, fmt.Errorf("read the layer from %s: %w", ref.RegistryStr(), withoutAnswer(err))
	}
	resp.Request = req
	return resp, nil
}

// address of a thing in the registry (OCI distribution specification 1.1,
// "Pull"); the transport changes the scheme where the registry has no TLS.
func address(ref name.Digest, kind, digest string) string {
	u := url.URL{Scheme: "https", Host: ref.RegistryStr(), Path: "/v2/" + ref.RepositoryStr() + "/" + kind + "/" + digest}
	return u.String()
}

// What is told in place of what a server has answered.
var (
	errNoToken   = errors.New("the registry gave no token")
	errRedirects = fmt.Errorf("more than %d redirects", maxRedirects)
)

// unanswered is an error of the way to a server, with nothing in it that one has said.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// marked marks the errors of a round tripper.
type marked struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (m marked) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := m.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, unanswered{err}
	}
	return resp, nil
}

// withoutAnswer is an error without what was asked and answered. The library's have the
// URL, which after a redirect may carry a signature, and up to 64 KiB of the answer of
// whatever host a registry has named for its tokens, which is not for those who read the
// log of the boot server or ask it for images.
func withoutAnswer(err error) error {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return fmt.Errorf("status %d", e.StatusCode)
	}
	if u, ok := errors.AsType[unanswered](err); ok {
		return u.error
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded, errRedirects} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errNoToken
}
