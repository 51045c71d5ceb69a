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

// Doer sends requests: *http.Client does.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// patience is how long a server may take for one answer about a file: of two, ten seconds
// of a worker's time, of which there are few because nothing else needs them.
const patience = 5 * time.Second

// finding is what came of a look at an image.
type finding struct{ reason, message string }

func (f finding) status() metav1.ConditionStatus {
	if f.reason == infrav1.ReasonImageReachable {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// ask looks at the head of the file, with HEAD (RFC 9110, section 9.3.2); of servers
// that do not know it, or sign URLs for GET only, with a GET of the first byte
// (section 14.2). The message is the same for the same fault, and holds nothing of what
// an error of the network tells of addresses inside.
func (r *Reconciler) ask(ctx context.Context, spec infrav1.IngotImageSpec) finding {
	response, err := r.request(ctx, http.MethodHead, spec.URL)
	if err == nil && response.status != http.StatusOK || err != nil && slow(err) {
		if again, errAgain := r.request(ctx, http.MethodGet, spec.URL); errAgain == nil {
			response, err = again, nil
		}
	}
	switch {
	case errors.Is(err, httpd.ErrSourceNotAllowed):
		return finding{infrav1.ReasonImageNotAllowed, "--image-sources does not allow this URL, or where it leads to; allow it (INGOT_IMAGE_SOURCES), or serve the image elsewhere"}
	case err != nil:
		return finding{infrav1.ReasonImageUnreachable, "The server of the image could not be asked: " + plainly(err)}
	case response.status != http.StatusOK && response.status != http.StatusPartialContent:
		return finding{infrav1.ReasonImageUnreachable, fmt.Sprintf("The server of the image answers %d %s", response.status, http.StatusText(response.status))}
	case spec.SizeBytes != nil && response.size >= 0 && response.size != *spec.SizeBytes:
		return finding{infrav1.ReasonImageChanged, fmt.Sprintf("The file at the URL has %d bytes, and spec.sizeBytes says %d: it is another one, and no install from it would succeed", response.size, *spec.SizeBytes)}
	}
	return finding{reason: infrav1.ReasonImageReachable}
}

// answer is what matters of a response; size is -1 where the server does not tell it.
type answer struct {
	status int
	size   int64
}

func (r *Reconciler) request(ctx context.Context, method, url string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Patience, patience))
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
	defer func() { _ = response.Body.Close() }() // unread: a server that ignores Range sends gigabytes
	got := answer{status: response.StatusCode, size: response.ContentLength}
	if response.StatusCode == http.StatusPartialContent {
		got.size = -1
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes 0-0/%d", &got.size); err != nil {
			got.size = -1
		}
	}
	return got, nil
}

var errNoURL = errors.New("spec.url is no URL")

// slow says whether a server did not answer in time: some leave HEAD alone for ever.
func slow(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// plainly names the kind of a fault.
func plainly(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, errNoURL):
		return errNoURL.Error()
	case errors.Is(err, oci.ErrArtefact), errors.Is(err, oci.ErrReference):
		return withoutURL(err).Error() // of what the registry holds, and of no address
	case errors.As(err, &dns):
		return "its name is not known"
	case slow(err):
		return "no answer in time"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return "no connection"
	}
	return "the connection failed, or its certificate is not trusted"
}
