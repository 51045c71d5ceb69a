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

const Scheme = "oci"

var (
	// ErrReference is returned for a URL without the digest of a manifest.
	ErrReference = errors.New("not oci://registry/repository@sha256:<digest of the manifest>")
	// ErrArtifact is returned for an artifact that is not one file.
	ErrArtifact = errors.New("the artifact is not one image file")
)

const (
	// maxManifest is the limit that registries use, in bytes (OCI distribution
	// specification 1.1, "Pushing Manifests").
	maxManifest  = 4 << 20
	maxRedirects = 5
)

// Transport handles URLs of Scheme, and passes all others to Base.
type Transport struct {
	Base http.RoundTripper // makes all requests; required
}

// RoundTrip implements http.RoundTripper. It answers GET and HEAD of an artifact, with Range if
// set, by the registry's answer for the layer.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != Scheme {
		return t.Base.RoundTrip(req)
	}
	ref, err := Parse(req.URL.String())
	if err != nil {
		return nil, err
	}
	// The library requests tokens through errorMarker. It is used for one request.
	authenticated, err := transport.NewWithContext(req.Context(), ref.Registry, authn.Anonymous, errorMarker{t.Base},
		[]string{ref.Scope(transport.PullScope)})
	if err != nil {
		return nil, fmt.Errorf("authenticate to registry %s: %w", ref.RegistryStr(), redact(err))
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
	if ref.RegistryStr() != host { // "images/node" would mean the library's default registry
		return name.Digest{}, fmt.Errorf("%w: name the registry, as in registry.example/images/node", ErrReference)
	}
	if ref.Name() != rest { // Name omits a tag next to the digest; admission refuses tags, too
		return name.Digest{}, fmt.Errorf("%w: remove the tag, which may name another manifest later", ErrReference)
	}
	return ref, nil
}

// layerOf reads and verifies the manifest and returns the digest of its only layer.
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
		return v1.Hash{}, fmt.Errorf("read manifest from %s: %w", ref.RegistryStr(), redact(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return v1.Hash{}, fmt.Errorf("read manifest from %s: status %d", ref.RegistryStr(), resp.StatusCode)
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read manifest from %s: %w", ref.RegistryStr(), err)
	}
	got, _, err := v1.SHA256(bytes.NewReader(content))
	switch {
	case err != nil:
		return v1.Hash{}, err
	case len(content) > maxManifest:
		return v1.Hash{}, fmt.Errorf("%w: its manifest is larger than %d MiB", ErrArtifact, maxManifest>>20)
	case got != want:
		return v1.Hash{}, fmt.Errorf("%w: the registry sent a manifest with digest %s", ErrArtifact, got)
	}
	return oneLayer(content)
}

func oneLayer(content []byte) (v1.Hash, error) {
	manifest, err := v1.ParseManifest(bytes.NewReader(content))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("%w: its manifest cannot be read", ErrArtifact)
	}
	if manifest.MediaType.IsIndex() {
		return v1.Hash{}, fmt.Errorf("%w: the digest names an index; use the digest of the manifest for one platform", ErrArtifact)
	}
	if len(manifest.Layers) != 1 {
		return v1.Hash{}, fmt.Errorf("%w: it has %d layers; push only the image file, as with oras push", ErrArtifact, len(manifest.Layers))
	}
	layer := manifest.Layers[0].Digest
	if layer.Algorithm != "sha256" {
		return v1.Hash{}, fmt.Errorf("%w: its layer has an unsupported digest algorithm %.20q", ErrArtifact, layer.Algorithm)
	}
	return layer, nil
}

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
		return nil, fmt.Errorf("read layer from %s: %w", ref.RegistryStr(), redact(err))
	}
	resp.Request = req
	return resp, nil
}

// address returns a URL in the registry (OCI distribution specification 1.1, "Pull"). The
// transport changes the scheme for a registry without TLS.
func address(ref name.Digest, kind, digest string) string {
	u := url.URL{Scheme: "https", Host: ref.RegistryStr(), Path: "/v2/" + ref.RepositoryStr() + "/" + kind + "/" + digest}
	return u.String()
}

// Errors that replace a server's answer.
var (
	errNoToken   = errors.New("the registry gave no token")
	errRedirects = fmt.Errorf("more than %d redirects", maxRedirects)
)

// transportError is a connection error, which contains nothing from a server.
type transportError struct{ error }

func (u transportError) Unwrap() error { return u.error }

// errorMarker wraps the errors of a round tripper in transportError.
type errorMarker struct{ http.RoundTripper }

func (m errorMarker) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := m.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, transportError{err}
	}
	return resp, nil
}

// redact removes the request and the answer from an error. The library's errors contain the URL,
// which may carry a signature after a redirect, and up to 64 KiB of the answer of the host that the
// registry named for its tokens. The boot server's log and its HTTP clients must not see these.
func redact(err error) error {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return fmt.Errorf("status %d", e.StatusCode)
	}
	if u, ok := errors.AsType[transportError](err); ok {
		return u.error
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded, errRedirects} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errNoToken
}
