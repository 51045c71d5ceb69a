// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// fixture is one image, "os", with a reconciler.
type fixture struct {
	*Reconciler
	t      *testing.T
	clock  *testclock.FakeClock
	events *events.FakeRecorder
}

func newFixture(t *testing.T, http HTTPDoer, url string, change ...func(*infrav1.IngotImage)) *fixture {
	t.Helper()
	scheme := testscheme.Scheme(t)
	image := &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: "os", Generation: 1}}
	image.Spec.URL = url
	for _, c := range change {
		c(image)
	}
	d := &fixture{t: t, clock: testclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)), events: events.NewFakeRecorder(10)}
	d.Reconciler = &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(image).WithObjects(image).Build(),
		HTTP:   http, Recorder: d.events, Clock: d.clock,
	}
	return d
}

func (d *fixture) look() (*infrav1.IngotImage, time.Duration) {
	d.t.Helper()
	result, err := d.Reconcile(d.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "os"}})
	if err != nil {
		d.t.Fatal(err)
	}
	image := &infrav1.IngotImage{}
	if err := d.Client.Get(d.t.Context(), client.ObjectKey{Name: "os"}, image); err != nil {
		d.t.Fatal(err)
	}
	if image.Status.CheckedURL != "" && image.Status.ObservedGeneration != image.Generation {
		d.t.Errorf("status.observedGeneration is %d, metadata.generation %d", image.Status.ObservedGeneration, image.Generation)
	}
	return image, result.RequeueAfter
}

// allowed returns a client for which the operator allows loopback or no private address.
func allowed(t *testing.T, sources ...string) *http.Client {
	t.Helper()
	parsed, err := httpd.ParseSources(sources)
	if err != nil {
		t.Fatal(err)
	}
	return httpd.NewClient(httpd.ClientConfig{Allowed: parsed})
}

func TestReachability(t *testing.T) {
	loopback := allowed(t, "127.0.0.0/8")
	serve := func(handler http.HandlerFunc) string {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL + "/os.raw.zst?signature=secret"
	}
	file := func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "os.raw.zst", time.Time{}, strings.NewReader("twelve bytes"))
	}
	headless := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		file(w, r)
	}
	silent := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			<-r.Context().Done() // until the other side gives up
			return
		}
		file(w, r)
	}
	deaf := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	sized := func(n int64) func(*infrav1.IngotImage) {
		return func(i *infrav1.IngotImage) { i.Spec.SizeBytes = &n }
	}
	inside := netip.MustParseAddr("127.0.0.1")
	for _, tc := range []struct {
		name   string
		http   HTTPDoer
		url    string
		change func(*infrav1.IngotImage)
		reason string
		says   string
		// timeout; zero: the default.
		timeout time.Duration
	}{
		{name: "there", http: loopback, url: serve(file), change: sized(12), reason: infrav1.ReasonImageReachable},
		{name: "without a size", http: loopback, url: serve(file), reason: infrav1.ReasonImageReachable},
		{name: "another size", http: loopback, url: serve(file), change: sized(13), reason: infrav1.ReasonImageSizeDiffers, says: "has 12 bytes, but spec.sizeBytes is 13"},
		{name: "no HEAD", http: loopback, url: serve(headless), change: sized(12), reason: infrav1.ReasonImageReachable},
		{name: "no HEAD, another size", http: loopback, url: serve(headless), change: sized(13), reason: infrav1.ReasonImageSizeDiffers},
		{name: "HEAD is never answered", http: loopback, url: serve(silent), change: sized(12), reason: infrav1.ReasonImageReachable},
		{name: "nothing is", timeout: time.Millisecond, http: loopback, url: serve(deaf), reason: infrav1.ReasonImageUnreachable, says: "no answer in time"},
		{name: "gone", http: loopback, url: serve(http.NotFound), reason: infrav1.ReasonImageUnreachable, says: "answers 404 Not Found"},
		{name: "redirected", http: loopback, url: serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/there" {
				http.Redirect(w, r, "/there", http.StatusFound)
				return
			}
			file(w, r)
		}), change: sized(12), reason: infrav1.ReasonImageReachable},
		{name: "not allowed", http: allowed(t), url: serve(file), reason: infrav1.ReasonImageSourceNotAllowed, says: "--image-sources"},
		{name: "redirected to where it is not allowed", http: loopback, url: serve(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		}), reason: infrav1.ReasonImageSourceNotAllowed, says: "its redirect"},
		{name: "no listener", http: loopback, url: "http://" + netip.AddrPortFrom(inside, closedPort(t)).String() + "/", reason: infrav1.ReasonImageUnreachable, says: "connection failed"},
		{name: "no URL", http: loopback, url: "http://\x00", reason: infrav1.ReasonImageUnreachable, says: "spec.url is not a URL"},
		{name: "no name", http: doer{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "inside.example", Server: "10.1.2.3:53"}}}, url: "http://inside.example/", reason: infrav1.ReasonImageUnreachable, says: "unknown host name"},
		{name: "too slow", http: doer{&net.DNSError{Err: "i/o timeout", IsTimeout: true}}, url: "http://inside.example/", reason: infrav1.ReasonImageUnreachable, says: "unknown host name"},
		{name: "TLS", http: doer{errors.New("x509: certificate signed by unknown authority of 10.1.2.3")}, url: "http://inside.example/", reason: infrav1.ReasonImageUnreachable, says: "certificate not trusted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change := tc.change
			if change == nil {
				change = func(*infrav1.IngotImage) {}
			}
			d := newFixture(t, tc.http, tc.url, change)
			d.Timeout = tc.timeout
			image, after := d.look()
			c := conditions.Get(image, infrav1.ImageReachableCondition)
			if c == nil || c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) || (c.Status == metav1.ConditionTrue) != (tc.reason == infrav1.ReasonImageReachable) {
				t.Fatalf("got %+v, want %s with %q", c, tc.reason, tc.says)
			}
			for _, secret := range []string{"secret", "10.1.2.3", "169.254"} {
				if strings.Contains(c.Message, secret) {
					t.Errorf("%q contains %s", c.Message, secret)
				}
			}
			pause := timing.Default().ImageRetry
			if c.Status == metav1.ConditionTrue {
				pause = timing.Default().ImageCheck
			} else if event := <-d.events.Events; !strings.Contains(event, tc.reason) {
				t.Errorf("event %q", event)
			}
			if after < pause || after > pause+pause/5 {
				t.Errorf("looked at again after %s, want %s to a fifth more", after, pause)
			}
		})
	}
}

// doer fails every request.
type doer struct{ err error }

func (d doer) Do(*http.Request) (*http.Response, error) { return nil, d.err }

// closedPort returns a port without a listener.
func closedPort(t *testing.T) uint16 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	addr, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return addr.Port()
}

// counter counts the requests.
type counter struct {
	HTTPDoer
	n int
}

func (c *counter) Do(r *http.Request) (*http.Response, error) {
	c.n++
	return c.HTTPDoer.Do(r)
}

// An image is checked about every hour and when it changes, not at each restart.
func TestCheckInterval(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	asked := &counter{HTTPDoer: allowed(t, "127.0.0.0/8")}
	d := newFixture(t, asked, server.URL)
	d.look()
	if _, after := d.look(); asked.n != 1 || after != time.Hour {
		t.Errorf("asked %d times, again after %s", asked.n, after)
	}
	d.clock.Step(time.Hour)
	image, _ := d.look()
	if asked.n != 2 || !image.Status.LastCheckTime.Time.Equal(d.clock.Now()) {
		t.Errorf("asked %d times, last at %s", asked.n, image.Status.LastCheckTime)
	}
	image.Spec.URL += "/elsewhere"
	if err := d.Client.Update(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	if image, _ = d.look(); asked.n != 3 || image.Status.CheckedURL != image.Spec.URL {
		t.Errorf("the URL changed: asked %d times, of %s", asked.n, image.Status.CheckedURL)
	}
	d.clock.Step(2 * time.Hour)
	image.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	if err := d.Client.Update(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	image, after := d.look()
	if asked.n != 3 || after != 0 {
		t.Errorf("paused: asked %d times", asked.n)
	}
	if !conditions.IsTrue(image, infrav1.PausedCondition) {
		t.Errorf("a pause does not show (M44): %+v", image.Status.Conditions)
	}
	image.Annotations = nil
	if err := d.Client.Update(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	if image, _ = d.look(); asked.n != 4 || !conditions.IsFalse(image, infrav1.PausedCondition) {
		t.Errorf("unpaused: asked %d times, %+v", asked.n, image.Status.Conditions)
	}
}

// M41: an image of another manager is not touched.
func TestImageOfAnotherManager(t *testing.T) {
	for label, want := range map[string]bool{"": false, "theirs": false, "ours": true} {
		asked := &counter{HTTPDoer: doer{errors.New("no")}}
		d := newFixture(t, asked, "http://images.example/os", func(i *infrav1.IngotImage) {
			i.Labels = map[string]string{clusterv1.WatchLabel: label}
		})
		d.WatchFilterValue = "ours"
		image, _ := d.look()
		if asked.n > 0 != want || len(image.Status.Conditions) > 0 != want {
			t.Errorf("label %q: asked %d times, want any %t; %+v", label, asked.n, want, image.Status.Conditions)
		}
	}
}
