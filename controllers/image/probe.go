// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/pxe/oci"
)

// HTTPDoer sends requests. *http.Client implements it.
type HTTPDoer interface {
	Do(*http.Request) (*http.Response, error)
}

// defaultTimeout is the time limit of one request. A check sends at most two.
const defaultTimeout = 5 * time.Second

type probeResult struct{ reason, message string }

func (p probeResult) status() metav1.ConditionStatus {
	if p.reason == infrav1.ReasonImageReachable {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// probe sends a HEAD request (RFC 9110 section 9.3.2). For servers that do not support HEAD or sign
// URLs for GET only, it gets the first byte (section 14.2). The message is stable, and contains no
// internal addresses from network errors.
func (r *Reconciler) probe(ctx context.Context, spec infrav1.IngotImageSpec) probeResult {
	response, err := r.request(ctx, http.MethodHead, spec.URL)
	if err == nil && response.status != http.StatusOK || err != nil && isTimeout(err) {
		if again, errAgain := r.request(ctx, http.MethodGet, spec.URL); errAgain == nil {
			response, err = again, nil
		}
	}
	switch {
	case errors.Is(err, httpd.ErrSourceNotAllowed):
		return probeResult{infrav1.ReasonImageSourceNotAllowed, "--image-sources does not allow spec.url or its redirect. Allow the source (INGOT_IMAGE_SOURCES), or serve the image elsewhere."}
	case err != nil:
		return probeResult{infrav1.ReasonImageUnreachable, "Cannot reach the image server: " + summarize(err) + "."}
	case response.status != http.StatusOK && response.status != http.StatusPartialContent:
		return probeResult{infrav1.ReasonImageUnreachable, fmt.Sprintf("The image server answers %d %s.", response.status, http.StatusText(response.status))}
	case spec.SizeBytes != nil && response.size >= 0 && response.size != *spec.SizeBytes:
		return probeResult{infrav1.ReasonImageSizeDiffers, fmt.Sprintf("The file at spec.url has %d bytes, but spec.sizeBytes is %d. Installs from it would fail. Correct spec.url or spec.sizeBytes.", response.size, *spec.SizeBytes)}
	}
	return probeResult{reason: infrav1.ReasonImageReachable}
}

type answer struct {
	status int
	size   int64
}

func (r *Reconciler) request(ctx context.Context, method, url string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, defaultTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return answer{}, errNoURL
	}
	if method == http.MethodGet {
		request.Header.Set("Range", "bytes=0-0")
	}
	response, err := r.HTTP.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // unread: a server that ignores Range would send the whole image
	got := answer{status: response.StatusCode, size: response.ContentLength}
	if response.StatusCode == http.StatusPartialContent {
		got.size = -1
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes 0-0/%d", &got.size); err != nil {
			got.size = -1
		}
	}
	return got, nil
}

var errNoURL = errors.New("spec.url is not a URL")

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// summarize returns the kind of an error, without addresses.
func summarize(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, errNoURL):
		return errNoURL.Error()
	case errors.Is(err, oci.ErrArtifact), errors.Is(err, oci.ErrReference):
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return err.Error() // about the contents of the registry
	case errors.As(err, &dns):
		return "unknown host name"
	case isTimeout(err):
		return "no answer in time"
	case errors.As(err, &op):
		return "connection failed"
	}
	return "connection failed or certificate not trusted"
}
