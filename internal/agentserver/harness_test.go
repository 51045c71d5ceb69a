// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// canary is the secret that must appear only in the answer that contains it.
const canary = "CANARY-4711-in-user-data"

// site is an agent API over TLS, with a fake API server.
type site struct {
	t      *testing.T
	client client.WithWatch
	keys   token.Keys
	clock  *testclock.FakeClock
	events *events.FakeRecorder
	url    string
	// faults may be set before a call: they see every call of the API server.
	mu      sync.Mutex
	onPatch func(obj client.Object) error
	// hardware is the boot NIC that DHCP has shown at every address, the host's by default.
	hardware net.HardwareAddr
	// since is when the state of hosts began to be trusted; zero: it is trusted always.
	since time.Time
	onGet func(obj client.Object) error
	// stale changes what the server reads from its cache; live counts what it reads
	// past it.
	stale func(obj client.Object)
	live  atomic.Int32
	log   *lockedBuffer
	seen  []string
}

// lockedBuffer collects the log of a server that serves at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.WriteString(text + "\n")
}

func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

func newSite(t *testing.T, objects ...client.Object) *site {
	t.Helper()
	scheme := testscheme.Scheme(t)
	s := &site{t: t, clock: testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), events: events.NewFakeRecorder(1000), log: &lockedBuffer{}}
	s.hardware, _ = net.ParseMAC(bootMAC)
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&infrav1.IngotHost{}).
		WithIndex(&infrav1.IngotHardware{}, index.HardwareBySystem, bySystem).WithInterceptorFuncs(s.faults()).Build()
	files, err := token.NewFiles()
	if err != nil {
		t.Fatal(err)
	}
	if s.keys, err = files.Keys(); err != nil {
		t.Fatal(err)
	}
	pins, err := files.Pins()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := files.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "https://" + listener.Addr().String()
	server := New(Options{Client: s.cached(), Live: counted{s.client, &s.live}, Keys: s.keys, Pins: pins, Address: listener.Addr().String(),
		Hardware:   func(net.Conn, netip.Addr) net.HardwareAddr { return s.hardware },
		StateSince: func(context.Context) (time.Time, error) { return s.since, nil },
		Recorder:   s.events, Clock: s.clock, Log: funcr.New(func(prefix, args string) { s.log.add(prefix + " " + args) }, funcr.Options{Verbosity: 10})})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener, certificate) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		s.noCanary()
	})
	return s
}

// bySystem is the index that package index sets up on a manager's cache.
func bySystem(object client.Object) []string {
	if system := index.System(object.(*infrav1.IngotHardware)); system != "" {
		return []string{system}
	}
	return nil
}

// cached is the client of a server with a lagging cache.
func (s *site) cached() client.Client {
	return interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, obj, opts...)
			s.mu.Lock()
			defer s.mu.Unlock()
			if err == nil && s.stale != nil {
				s.stale(obj)
			}
			return err
		},
	})
}

// counted counts what is read live.
type counted struct {
	client.Reader
	reads *atomic.Int32
}

func (c counted) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.reads.Add(1)
	return c.Reader.Get(ctx, key, obj, opts...)
}

func (s *site) faults() interceptor.Funcs {
	hook := func(which *func(client.Object) error, obj client.Object) error {
		s.mu.Lock()
		f := *which
		s.mu.Unlock()
		if f == nil {
			return nil
		}
		return f(obj)
	}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := hook(&s.onGet, obj); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := hook(&s.onPatch, obj); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	}
}

func (s *site) fail(onGet, onPatch func(client.Object) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onGet, s.onPatch = onGet, onPatch
}

// noCanary looks for the secret in the log, the events and every refusal.
func (s *site) noCanary() {
	for {
		select {
		case event := <-s.events.Events:
			s.seen = append(s.seen, event)
			continue
		default:
		}
		break
	}
	for _, text := range append(s.seen, s.log.text()) {
		if strings.Contains(text, canary) {
			s.t.Errorf("the secret leaked: %s", text)
		}
		if strings.Contains(text, "Bearer") || strings.Contains(text, "v1/metal/h1/") {
			s.t.Errorf("a token leaked: %s", text)
		}
	}
}

// host reads the host back.
func (s *site) host() *infrav1.IngotHost {
	s.t.Helper()
	host := &infrav1.IngotHost{}
	if err := s.client.Get(context.Background(), client.ObjectKey{Namespace: "metal", Name: "h1"}, host); err != nil {
		s.t.Fatal(err)
	}
	return host
}

// change edits the host without the server.
func (s *site) change(edit func(*infrav1.IngotHost)) {
	s.t.Helper()
	host := s.host()
	edit(host)
	if err := s.client.Update(context.Background(), host); err != nil {
		s.t.Fatal(err)
	}
}

// eventWith returns a recorded event, without waiting.
func (s *site) eventWith(reason string) bool {
	s.t.Helper()
	for {
		select {
		case event := <-s.events.Events:
			s.seen = append(s.seen, event)
		default:
			for _, event := range s.seen {
				if strings.Contains(event, " "+reason+" ") {
					return true
				}
			}
			return false
		}
	}
}

// agent is a client with its own key.
type agent struct {
	s     *site
	http  *http.Client
	token string
}

// agent returns a client that uses the address from.
func (s *site) agent(claims token.Claims, from string) *agent {
	s.t.Helper()
	if claims.Expiry.IsZero() {
		claims.Expiry = s.clock.Now().Add(token.Lifetime)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // the pin is the agent's test
		Certificates:       []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &agent{s: s, token: s.keys.Mint(claims), http: &http.Client{Transport: transport, Timeout: time.Minute}}
}

// keyless returns an agent without a certificate.
func (s *site) keyless(claims token.Claims) *agent {
	a := s.agent(claims, "127.0.0.1")
	a.http.Transport.(*http.Transport).TLSClientConfig.Certificates = nil
	return a
}

// post sends a body as it is and returns status and answer.
func (a *agent) post(path string, body []byte) (int, []byte) {
	a.s.t.Helper()
	request, err := http.NewRequest(http.MethodPost, a.s.url+path, bytes.NewReader(body))
	if err != nil {
		a.s.t.Fatal(err)
	}
	if a.token != "" {
		request.Header.Set(agentapi.TokenHeader, "Bearer "+a.token)
	}
	response, err := a.http.Do(request)
	if err != nil {
		a.s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		a.s.t.Fatal(err)
	}
	return response.StatusCode, answer
}

// call makes one call; the reason is empty when it was answered.
func call[Out any](a *agent, path string, in any) (out Out, reason agentapi.Reason) {
	a.s.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		a.s.t.Fatal(err)
	}
	status, answer := a.post(path, body)
	if status == http.StatusOK {
		if err := json.Unmarshal(answer, &out); err != nil {
			a.s.t.Fatal(err)
		}
		return out, ""
	}
	var refusal agentapi.Error
	if err := json.Unmarshal(answer, &refusal); err != nil {
		a.s.t.Fatalf("status %d: %s: %v", status, answer, err)
	}
	a.s.seen = append(a.s.seen, string(answer))
	if want := statusOf[refusal.Reason]; status != want {
		a.s.t.Errorf("%s: status %d for %s, want %d", path, status, refusal.Reason, want)
	}
	return out, refusal.Reason
}

func (a *agent) open() agentapi.Reason {
	a.s.t.Helper()
	_, reason := call[agentapi.Session](a, agentapi.PathSession, agentapi.SessionRequest{BootID: "b", Version: "v", Hardware: found()})
	return reason
}

func found() agentapi.Hardware {
	return agentapi.Hardware{
		UUID: "4c4c4544-0000-0000-0000-000000000001", Serial: "s1", Architecture: "amd64", MemoryBytes: 8 << 30,
		NICs:  []agentapi.NIC{{Name: "eth0", MAC: bootMAC}},
		Disks: []agentapi.Disk{{Name: "/dev/sda", Serial: "d1", SizeBytes: 100e9}, {Name: "/dev/sdb", Serial: "d2", SizeBytes: 200e9}},
	}
}

// world is a host under an install order with its machine and bootstrap data.
func world(changes ...func(*infrav1.IngotHost)) []client.Object {
	host := installing(append([]func(*infrav1.IngotHost){func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = "" }}, changes...)...)
	host.UID = "host-uid"
	owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "m1", UID: "machine-uid"}}
	owner.Spec.ClusterName = "c1"
	owner.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: "m1"}
	machine := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "m1",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m1", UID: "machine-uid"}}}}
	machine.Spec.ProviderID = "ingot://metal/h1/" + instanceID
	return []client.Object{
		host, owner, machine, loopback(),
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "c1"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "bootstrap"}, Data: map[string][]byte{"value": []byte("#cloud-config\n# " + canary)}},
	}
}

// loopback is the host's network.
func loopback() *infrav1.IngotNetwork {
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}}
	network.Spec.Subnet = "127.0.0.0/8"
	return network
}

// recorded gives the host an address; it is that of the loopback client.
func recorded(ip string) *infrav1.IngotHardware {
	hardware := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h1"}}
	hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: bootMAC, IP: ip}
	return hardware
}

// seedRequest asks for the bootstrap data as an agent does that has verified the image.
func seedRequest() agentapi.BootstrapRequest {
	return agentapi.BootstrapRequest{OrderID: orderID, VerifiedChecksum: installing().Spec.Claim.Image.Checksum}
}
