// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// lives makes the claim one of a live system.
func lives(h *infrav1.IngotHost) {
	h.Spec.Claim.Image = infrav1.Image{}
	h.Spec.Claim.Live = &infrav1.LiveSystem{
		Kernel:        infrav1.LiveFile{URL: "http://images/k", Checksum: "sha256:" + firstKey},
		Initrd:        infrav1.LiveFile{URL: "http://images/i", Checksum: "sha256:" + secondKey},
		CommandLine:   "quiet ds=nocloud;s={seedURL} data={dataURL}",
		DataTransport: infrav1.LiveHTTP,
	}
}

// overTLS makes the data transport HTTPS.
func overTLS(h *infrav1.IngotHost) {
	h.Spec.Claim.Live.DataTransport, h.Spec.Claim.Live.CommandLine = infrav1.LiveHTTPS, "s={seedURL} pin={pin}"
}

// loaded takes a session up to the command line of a live system.
func (s *site) loaded(a *agent) string {
	s.t.Helper()
	if reason := a.open(); reason != "" {
		s.t.Fatalf("session refused: %s", reason)
	}
	boot, reason := call[agentapi.LiveBoot](a, agentapi.PathLive, agentapi.LiveRequest{OrderID: orderID})
	if reason != "" {
		s.t.Fatalf("command line refused: %s", reason)
	}
	return boot.CommandLine.Reveal()
}

// word is the value of a word of a command line.
func word(t *testing.T, line, before string) string {
	t.Helper()
	for w := range strings.FieldsSeq(line) {
		if value, ok := strings.CutPrefix(w, before); ok {
			return value
		}
	}
	t.Fatalf("no word %q in the command line", before)
	return ""
}

// get fetches from an address.
func (s *site) get(url, from string) (int, string) {
	s.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get(url)
	if err != nil {
		s.t.Fatal("no answer") // the error holds the address
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal("the answer was cut off")
	}
	if response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") == "" {
		s.t.Error("who is to ask again is not told when")
	}
	if response.StatusCode != http.StatusOK {
		s.seen = append(s.seen, string(body))
	}
	return response.StatusCode, string(body)
}

// A live system from its command line to the commit point, which is the fetch of its data (I4, I16). The
// data is served once, and again only to the client that lost the reply.
func TestLiveSystem(t *testing.T) {
	s := newSite(t, append(world(lives), recorded(here))...)
	a := s.agent(claimsOf(token.Install), here)
	line := s.loaded(a)
	started := metav1.NewTime(s.clock.Now())
	s.clock.Step(time.Second)
	if again := s.loaded(a); again == "" { // a lost reply
		t.Error("the second command line is empty")
	}
	if got := s.host().Spec.Order.LiveStartTime; !got.Equal(&started) {
		t.Errorf("started at %s, want %s: it is written once, before the first reply", got, started)
	}
	order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
	want := &agentapi.InstallOrder{RootDisk: agentapi.DiskRef{Serial: "d1", SizeBytes: 100e9}, Checksum: needsNewerAgent, Live: &agentapi.LiveOrder{
		Kernel: agentapi.LiveFile{URL: "/images/" + firstKey, Checksum: "sha256:" + firstKey},
		Initrd: agentapi.LiveFile{URL: "/images/" + secondKey, Checksum: "sha256:" + secondKey},
	}}
	if diff := cmp.Diff(want, order.Install); diff != "" || reason != "" {
		t.Errorf("order refused with %q (-want +got):\n%s", reason, diff)
	}
	// The agent itself gets no data, and cannot report success.
	if _, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest()); reason != agentapi.ReasonOrderGone {
		t.Errorf("bootstrap data for the agent of a live system: %q", reason)
	}
	if _, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded}); reason != agentapi.ReasonBadRequest {
		t.Errorf("a report of success: %q", reason)
	}
	seed, data := word(t, line, "ds=nocloud;s="), word(t, line, "data=")
	if data != seed+"user-data" || !strings.HasPrefix(data, "http://"+strings.TrimPrefix(s.url, "https://")+agentapi.PathLiveData) {
		t.Error("the addresses of the command line are not what they are to be")
	}
	if code, body := s.get(seed+"meta-data", here); code != http.StatusOK || !strings.Contains(body, "instance-id: "+instanceID+"-2") {
		t.Errorf("meta-data: %d", code)
	}
	if code, _ := s.get(seed+"network-config", here); code != http.StatusNotFound {
		t.Errorf("network-config of a host without: %d", code)
	}
	if host := s.host(); host.Spec.Claim.State != infrav1.ClaimProvisioning || host.Spec.Claim.LiveFetch != nil {
		t.Errorf("committed before the data was asked for: %+v", host.Spec.Claim)
	}
	for i := range 2 { // the first reply is lost
		if code, body := s.get(data, here); code != http.StatusOK || !strings.Contains(body, canary) {
			t.Fatalf("fetch %d: %d", i, code)
		}
	}
	at := metav1.NewTime(s.clock.Now())
	host := s.host()
	if diff := cmp.Diff(&infrav1.LiveFetch{FetchTime: at, Address: here}, host.Spec.Claim.LiveFetch); diff != "" || host.Spec.Claim.State != infrav1.ClaimProvisioned || host.Spec.Order != nil {
		t.Errorf("the fetch is not the commit point: %+v (-want +got):\n%s", host.Spec, diff)
	}
	if code, body := s.get(seed+"vendor-data", here); code != http.StatusOK || !strings.Contains(body, agentapi.PathBooted) {
		t.Errorf("vendor-data: %d", code)
	}
	s.clock.Step(liveRepeats + time.Second)
	for _, file := range []string{"user-data", "meta-data", "vendor-data"} {
		if code, _ := s.get(seed+file, here); code != http.StatusGone {
			t.Errorf("%s a second time: %d", file, code)
		}
	}
	if !s.eventWith(infrav1.ReasonProvisioned) || !s.eventWith(infrav1.ReasonLiveDataRejected) {
		t.Errorf("events: %q", s.seen)
	}
	// A server that an old boot server boots again is sent to its disk (I5).
	if _, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{}); reason != agentapi.ReasonOrderGone {
		t.Errorf("order after the end: %q", reason)
	}
}

// With transport HTTPS the data is served over TLS only, and plain HTTP serves nothing else.
func TestLiveSystemOverTLS(t *testing.T) {
	s := newSite(t, append(world(lives, overTLS), recorded(here))...)
	line := s.loaded(s.agent(claimsOf(token.Install), here))
	seed := word(t, line, "s=")
	if pin := word(t, line, "pin="); !strings.HasPrefix(pin, "sha256//") || !strings.HasPrefix(seed, "https://") {
		t.Errorf("pin %q", pin)
	}
	plain := "http" + strings.TrimPrefix(seed, "https")
	if code, _ := s.get(plain+"user-data", here); code != http.StatusGone {
		t.Errorf("in clear: %d", code)
	}
	if s.host().Spec.Claim.LiveFetch != nil {
		t.Error("a refused request counts as the fetch")
	}
	if code, body := s.get(seed+"user-data", here); code != http.StatusOK || !strings.Contains(body, canary) {
		t.Errorf("over TLS: %d", code)
	}
	response, err := http.Post("http"+strings.TrimPrefix(s.url, "https")+agentapi.PathSession, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("the agent API without TLS: %d", response.StatusCode)
	}
}

// Any failed read or write costs the system a retry, and commits nothing that was not served.
func TestLiveDataIsLate(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "ingothosts"}, "h1", errors.New("changed"))
	isHost := func(o client.Object) bool { _, ok := o.(*infrav1.IngotHost); return ok }
	for name, tc := range map[string]struct {
		get, patch func(client.Object) error
		change     func(*site)
	}{
		"no Secret":     {get: func(o client.Object) error { return failing[*corev1.Secret](o) }},
		"no Machine":    {get: func(o client.Object) error { return failing[*clusterv1.Machine](o) }},
		"API server":    {get: func(o client.Object) error { return failing[*infrav1.IngotHost](o) }},
		"write refused": {patch: func(o client.Object) error { return failing[*infrav1.IngotHost](o) }},
		"always in conflict": {patch: func(o client.Object) error {
			if isHost(o) {
				return conflict
			}
			return nil
		}},
		"paused": {change: func(s *site) {
			s.change(func(h *infrav1.IngotHost) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, append(world(lives), recorded(here))...)
			data := word(t, s.loaded(s.agent(claimsOf(token.Install), here)), "data=")
			s.fail(tc.get, tc.patch)
			if tc.change != nil {
				tc.change(s)
			}
			if code, _ := s.get(data, here); code != http.StatusServiceUnavailable {
				t.Errorf("answered %d", code)
			}
			s.fail(nil, nil)
			if tc.change != nil {
				s.change(func(h *infrav1.IngotHost) { h.Annotations = nil })
			}
			if claim := s.host().Spec.Claim; claim.State != infrav1.ClaimProvisioning || claim.LiveFetch != nil {
				t.Errorf("committed without the data being given: %+v", claim)
			}
			if code, body := s.get(data, here); code != http.StatusOK || !strings.Contains(body, canary) {
				t.Errorf("the repetition: %d", code)
			}
		})
	}
}

// failing fails for objects of one kind.
func failing[T client.Object](o client.Object) error {
	if _, ok := o.(T); ok {
		return errors.New("down")
	}
	return nil
}

// The live start is recorded before the agent gets the command line, even if the command line is not
// available: missing data is not the host's failure.
func TestLiveStartIsNoted(t *testing.T) {
	for name, tc := range map[string]struct {
		get, patch func(client.Object) error
		noted      bool
	}{
		"no Secret":     {get: func(o client.Object) error { return failing[*corev1.Secret](o) }, noted: true},
		"write refused": {patch: func(o client.Object) error { return failing[*infrav1.IngotHost](o) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, append(world(lives), recorded(here))...)
			a := s.agent(claimsOf(token.Install), here)
			if reason := a.open(); reason != "" {
				t.Fatal(reason)
			}
			s.fail(tc.get, tc.patch)
			if _, reason := call[agentapi.LiveBoot](a, agentapi.PathLive, agentapi.LiveRequest{OrderID: orderID}); reason != agentapi.ReasonNotReady {
				t.Errorf("answered %q", reason)
			}
			s.fail(nil, nil)
			if got := !s.host().Spec.Order.LiveStartTime.IsZero(); got != tc.noted {
				t.Errorf("noted %t, want %t", got, tc.noted)
			}
		})
	}
}

// A live system that reboots before its fetch returns as another agent. That is its failure, and not an
// unknown client.
func TestLiveSystemReboots(t *testing.T) {
	s := newSite(t, append(world(lives), recorded(here))...)
	data := word(t, s.loaded(s.agent(claimsOf(token.Install), here)), "data=")
	again := s.agent(claimsOf(token.Install), here)
	for range 2 {
		if reason := again.open(); reason != agentapi.ReasonOrderGone {
			t.Errorf("the agent after the reboot is refused with %q", reason)
		}
	}
	order := s.host().Spec.Order
	if order.Result == nil || order.Result.Reason != infrav1.ReasonLiveSystemUnresponsive || order.Revoked != nil {
		t.Errorf("order %+v", order)
	}
	if !s.eventWith(infrav1.ReasonLiveSystemUnresponsive) || s.eventWith(infrav1.ReasonAgentKeyConflict) {
		t.Errorf("events: %q", s.seen)
	}
	if code, _ := s.get(data, here); code != http.StatusGone {
		t.Errorf("the data after the reboot: %d", code)
	}
}

// Of two simultaneous requests one gets the data.
func TestLiveDataRace(t *testing.T) {
	s := newSite(t, world(lives)...) // no address is recorded: all of the network's may ask
	data := word(t, s.loaded(s.agent(claimsOf(token.Install), here)), "data=")
	codes := make(chan int, 2)
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		go func() {
			dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			response, err := (&http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}).Get(data)
			if err != nil {
				codes <- 0
				return
			}
			_ = response.Body.Close()
			codes <- response.StatusCode
		}()
	}
	if a, b := <-codes, <-codes; a+b != http.StatusOK+http.StatusGone {
		t.Errorf("answered %d and %d", a, b)
	}
}

// denyLiveData decides who gets a live system's data.
func TestJudgeLive(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	nowhere, source := allowedSources{}, netip.MustParseAddr("10.0.0.7")
	from := allowedSources{recorded: []netip.Addr{source}}
	fetched := func(h *infrav1.IngotHost) {
		h.Spec.Order, h.Spec.Claim.State = nil, infrav1.ClaimProvisioned
		h.Spec.Claim.LiveFetch = &infrav1.LiveFetch{FetchTime: metav1.NewTime(now.Add(-time.Minute)), Address: source.String()}
	}
	for name, tc := range map[string]struct {
		host   *infrav1.IngotHost
		caller func(*liveCaller)
		from   *allowedSources
		want   string // a part of the reason; empty: it gets the data
	}{
		"the live system":             {host: installing(lives)},
		"over TLS":                    {host: installing(lives, overTLS), caller: func(c *liveCaller) { c.secure = true }},
		"in clear where TLS is asked": {host: installing(lives, overTLS), want: "HTTPS only"},
		"an image's host":             {host: installing(), want: "earlier installation"},
		"a free host":                 {host: installing(func(h *infrav1.IngotHost) { h.Spec.Claim = nil }), want: "earlier installation"},
		"another instance":            {host: installing(lives), caller: func(c *liveCaller) { c.claims.InstanceID = "other" }, want: "earlier installation"},
		"an earlier attempt":          {host: installing(lives), caller: func(c *liveCaller) { c.claims.Attempt = 1 }, want: "earlier installation"},
		"another order":               {host: installing(lives), caller: func(c *liveCaller) { c.claims.OrderID = "other" }, want: "was replaced"},
		"another address":             {host: installing(lives), from: &nowhere, want: "not an address of the host"},
		"after a long pause":          {host: installing(lives), caller: func(c *liveCaller) { c.now = now.Add(50 * time.Minute) }},
		"too late":                    {host: installing(lives), caller: func(c *liveCaller) { c.now = now.Add(2 * token.LiveLifetime) }, want: "expired"},
		"before any agent":            {host: installing(lives, func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = "" }), want: "was replaced"},
		"after a failure": {host: installing(lives, func(h *infrav1.IngotHost) {
			h.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderFailed}
		}), want: "has ended"},
		"revoked":    {host: installing(lives, func(h *infrav1.IngotHost) { h.Spec.Order.Revoked = ptr.To(true) }), want: "revoked"},
		"moved here": {host: installing(lives, func(h *infrav1.IngotHost) { h.Spec.Order.HostUID, h.UID = "old", "new" }), want: "no longer needs"},
		"being released": {host: installing(lives, func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing }),
			want: "no longer needs"},
		"the same again": {host: installing(lives, fetched)},
		"the same, once another manager is there": {host: installing(lives, fetched), caller: func(c *liveCaller) { c.now = now.Add(5 * time.Minute) }},
		"the same, put on another network since":  {host: installing(lives, fetched), from: &nowhere},
		"the same, much later":                    {host: installing(lives, fetched), caller: func(c *liveCaller) { c.now = now.Add(liveRepeats) }, want: "once"},
		"released after the fetch":                {host: installing(lives, fetched, func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing }), want: "once"},
		"another one, afterwards": {host: installing(lives, fetched, func(h *infrav1.IngotHost) { h.Spec.Claim.LiveFetch.Address = "10.0.0.8" }),
			want: "once"},
	} {
		t.Run(name, func(t *testing.T) {
			c := liveCaller{caller: caller{claims: claimsOf(token.Live), source: source}, now: now}
			c.claims.Expiry = now.Add(token.LiveLifetime)
			if tc.caller != nil {
				tc.caller(&c)
			}
			where := from
			if tc.from != nil {
				where = *tc.from
			}
			got := denyLiveData(tc.host, c, where)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("refused with %q, want %q", got, tc.want)
			}
		})
	}
}

// Invalid URLs serve nothing.
func TestLiveAddresses(t *testing.T) {
	s := newSite(t, append(world(lives), recorded(here))...)
	line := s.loaded(s.agent(claimsOf(token.Install), here))
	seed := word(t, line, "ds=nocloud;s=")
	base := "http" + strings.TrimPrefix(s.url, "https") + agentapi.PathLiveData
	install := claimsOf(token.Install)
	install.Expiry = s.clock.Now().Add(time.Minute)
	for name, tc := range map[string]struct {
		url  string
		want int
	}{
		"no token":         {base + "user-data", http.StatusUnauthorized},
		"nothing":          {base, http.StatusUnauthorized},
		"a changed token":  {strings.Replace(seed, "/2/", "/3/", 1) + "user-data", http.StatusUnauthorized},
		"an agent's token": {base + s.keys.Mint(install) + "/user-data", http.StatusUnauthorized},
		"another file":     {seed + "passwd", http.StatusNotFound},
		"no file":          {seed, http.StatusNotFound},
		"below a file":     {seed + "user-data/x", http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			if code, body := s.get(tc.url, here); code != tc.want || strings.Contains(body, canary) {
				t.Errorf("answered %d, want %d", code, tc.want)
			}
		})
	}
	response, err := http.Head(seed + "user-data")
	if err != nil {
		t.Fatal("no answer")
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HEAD was answered %d", response.StatusCode)
	}
	if s.host().Spec.Claim.LiveFetch != nil {
		t.Error("something counted as the fetch")
	}
}

// Empty bootstrap data counts as missing: its provider may still be working.
func TestLiveDataIsEmpty(t *testing.T) {
	objects := world(lives)
	for _, o := range objects {
		if secret, ok := o.(*corev1.Secret); ok {
			secret.Data["value"] = nil
		}
	}
	s := newSite(t, append(objects, recorded(here))...)
	a := s.agent(claimsOf(token.Install), here)
	if reason := a.open(); reason != "" {
		t.Fatal(reason)
	}
	if _, reason := call[agentapi.LiveBoot](a, agentapi.PathLive, agentapi.LiveRequest{OrderID: orderID}); reason != agentapi.ReasonNotReady {
		t.Errorf("the command line of a system without data: %q", reason)
	}
}
