// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/management"
)

// maxResident is how much memory the manager may take under the attacks, in bytes: its
// Deployment allows 2 GiB.
const maxResident = 3 << 29

// webhookCaller is a Pod that reaches the webhook port.
type webhookCaller struct {
	address string
	client  *http.Client
}

// newWebhookCaller finds the port by the webhooks' configuration.
func (i *intruder) newWebhookCaller() *webhookCaller {
	i.t.Helper()
	var list struct {
		Items []struct {
			Webhooks []struct {
				ClientConfig struct {
					URL string `json:"url"`
				} `json:"clientConfig"`
			} `json:"webhooks"`
		} `json:"items"`
	}
	check(i.t, json.Unmarshal(i.site.plane.Kubectl(i.t, "get", "validatingwebhookconfigurations", "--output=json"), &list))
	for _, item := range list.Items {
		for _, webhook := range item.Webhooks {
			if at, err := url.Parse(webhook.ClientConfig.URL); err == nil && strings.HasSuffix(at.Path, "v1beta2-ingothost") {
				return &webhookCaller{address: at.Host, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
					TLSClientConfig: unverified()}}}
			}
		}
	}
	i.t.Fatal("no webhook of IngotHosts is configured")
	return nil
}

func (c *webhookCaller) post(ctx context.Context, path string, body io.Reader) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+c.address+path, body)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, text, err
}

// unverified is how a Pod connects that cares for no certificate.
func unverified() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} // who does wrong does not verify
}

// conversion is a request to convert, of about the size.
func conversion(size int) []byte {
	return fmt.Appendf(nil, `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"x","desiredAPIVersion":%q,"objects":[{"apiVersion":%q,"kind":"IngotCluster","spec":{"x":%q}}]}}`,
		infrav1.GroupVersion.String(), infrav1.GroupVersion.Group+"/v1beta1", strings.Repeat("a", size))
}

// floodsWebhooks calls the webhook port as any Pod can that reaches it.
func (i *intruder) floodsWebhooks() {
	i.t.Helper()
	pod := i.newWebhookCaller()
	const large = 256 << 20
	i.attack("a conversion of 256 MiB", func(ctx context.Context) error {
		return errors.Join(tooLarge(pod.post(ctx, "/convert", io.LimitReader(endless{}, large))), i.admits())
	})
	i.attack("an admission review of 256 MiB", func(ctx context.Context) error {
		return errors.Join(tooLarge(pod.post(ctx, "/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingothost", io.LimitReader(endless{}, large))), i.admits())
	})
	i.attack("40 conversions of 7 MiB at once", func(ctx context.Context) error {
		body := conversion(7 << 20)
		group, ctx := errgroup.WithContext(ctx)
		for range 40 {
			group.Go(func() error {
				_, _, err := pod.post(ctx, "/convert", bytes.NewReader(body))
				return ignoreNet(err)
			})
		}
		return errors.Join(group.Wait(), i.admits())
	})
	for what, opening := range map[string]func(context.Context, *tls.Conn) error{
		"200 connections that say nothing": nil,
		"200 bodies that arrive a byte a second": func(ctx context.Context, conn *tls.Conn) error {
			_, err := fmt.Fprintf(conn, "POST /convert HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 4<<20)
			for err == nil && ctx.Err() == nil {
				time.Sleep(time.Second)
				_, err = conn.Write([]byte("a"))
			}
			return nil
		},
		"200 headers that arrive a byte a second": func(ctx context.Context, conn *tls.Conn) error {
			_, err := io.WriteString(conn, "POST /convert HTTP/1.1\r\nHost: x\r\nX: ")
			for err == nil && ctx.Err() == nil {
				time.Sleep(time.Second)
				_, err = conn.Write([]byte("a"))
			}
			return nil
		},
	} {
		i.attack("webhooks: "+what, func(ctx context.Context) error {
			stop, err := pod.hold(ctx, 200, opening)
			defer stop()
			time.Sleep(2 * time.Second)
			return errors.Join(err, i.admits())
		})
	}
	i.attack("webhooks: an admission review in the manager's name", func(ctx context.Context) error { return i.forges(ctx, pod) })
}

// endless is a body that has no end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for n := range p {
		p[n] = 'a'
	}
	return len(p), nil
}

// tooLarge wants the answer 413, or that the connection was ended.
func tooLarge(status int, _ []byte, err error) error {
	if err == nil && status != http.StatusRequestEntityTooLarge {
		return fmt.Errorf("answered %d", status)
	}
	return ignoreNet(err)
}

// ignoreNet drops what a closed connection and a deadline come to.
func ignoreNet(err error) error {
	var wire *net.OpError
	var at *url.Error
	if errors.As(err, &wire) || errors.As(err, &at) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// hold opens connections and does with each what opening says, until the call of what it returns.
func (c *webhookCaller) hold(ctx context.Context, count int, opening func(context.Context, *tls.Conn) error) (stop func(), _ error) {
	ctx, cancel := context.WithCancel(ctx)
	group := &errgroup.Group{}
	stop = func() { cancel(); _ = group.Wait() }
	for range count {
		conn, err := (&tls.Dialer{Config: unverified()}).DialContext(ctx, "tcp", c.address)
		if err != nil {
			return stop, ignoreNet(err) // the server may refuse more
		}
		group.Go(func() error {
			defer func() { _ = conn.Close() }()
			secure, ok := conn.(*tls.Conn)
			if opening == nil || !ok {
				<-ctx.Done()
				return nil
			}
			return opening(ctx, secure)
		})
	}
	return stop, nil
}

// admits wants an admission to be answered, and the manager to have stayed small.
func (i *intruder) admits() error {
	ctx, cancel := context.WithTimeout(i.t.Context(), 30*time.Second)
	defer cancel()
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: i.site.Namespace, Name: victimName}}
	began := time.Now()
	for {
		err := i.site.Client.Patch(ctx, host, mergePatch(`{"metadata":{"labels":{"drill":"admitted"}}}`), client.DryRunAll)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no admission of other tenants is answered: %w", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	resident, err := i.resident()
	if err == nil && resident > maxResident {
		err = fmt.Errorf("the manager takes %.0f MiB", resident/(1<<20))
	}
	i.t.Logf("an admission took %s; the manager has %.0f MiB", time.Since(began).Round(time.Millisecond), resident/(1<<20))
	return err
}

// resident is the memory that the manager takes, in bytes.
func (i *intruder) resident() (bytes float64, _ error) {
	for line := range strings.Lines(string(fetch(i.t, i.site.managers[0].MetricsURL()))) {
		if value, ok := strings.CutPrefix(line, "process_resident_memory_bytes "); ok {
			_, err := fmt.Sscan(value, &bytes)
			return bytes, err
		}
	}
	return 0, errors.New("the manager does not say how much memory it takes")
}

// forges asks the webhook itself, in the manager's name, to release another tenant's host. It
// may answer what it likes: nothing is written by that.
func (i *intruder) forges(ctx context.Context, pod *webhookCaller) error {
	victim := i.site.Host(i.t, victimName)
	changed := victim.DeepCopy()
	changed.Spec.Claim.State = infrav1.ClaimReleasing
	raw := func(host *infrav1.IngotHost) runtime.RawExtension {
		text, err := json.Marshal(host)
		check(i.t, err)
		return runtime.RawExtension{Raw: text}
	}
	review, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: types.UID("x"), Operation: admissionv1.Update, Namespace: victim.Namespace, Name: victim.Name,
			UserInfo: authenticationv1.UserInfo{Username: management.Username}, OldObject: raw(victim), Object: raw(changed),
			Kind: metav1.GroupVersionKind{Group: infrav1.GroupVersion.Group, Version: infrav1.GroupVersion.Version, Kind: "IngotHost"}}})
	check(i.t, err)
	for _, path := range []string{"/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingothost", "/mutate-infrastructure-cluster-x-k8s-io-v1beta2-ingothost"} {
		if status, _, err := pod.post(ctx, path, bytes.NewReader(review)); err != nil || status != http.StatusOK {
			return fmt.Errorf("answered %d, %w", status, errors.Join(err, errors.New("want 200")))
		}
	}
	if now := i.site.Host(i.t, victimName); now.Spec.Claim.State != infrav1.ClaimProvisioned || !i.site.Server(victimName).Powered() {
		return fmt.Errorf("the claim is %+v", now.Spec.Claim)
	}
	return nil
}
