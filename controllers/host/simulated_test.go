// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	"github.com/ingot-metal/ingot/bmc/trust"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/internal/rotation"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/test/needs"
)

// simHost is a fixture with a real driver, pool and handshake before an emulated BMC, and
// one host in maintenance, so that nothing is done to the server but by its BMC.
type simHost struct {
	*fixture
	lab  *labbmc.BMC
	ca   *labbmc.Authority
	pool *bmc.Pool
	mort *crashing

	mu      sync.Mutex
	logged  []string
	secrets map[string]bool // every password that was in the Secret
	wrong   int             // rejected logins since the last step
}

// newSimHost starts a simulated BMC of a vendor and registers host "h".
func newSimHost(t *testing.T, on *testEnv, maker string, changes ...func(*infrav1.IngotHost)) *simHost {
	t.Helper()
	m := &simHost{fixture: newFixture(t, on), secrets: map[string]bool{canary: true}}
	p, ok := personality.Named(maker)
	if !ok {
		t.Fatalf("no personality %q", maker)
	}
	var err error
	if m.ca, err = labbmc.NewAuthority(); err != nil {
		t.Fatal(err)
	}
	m.lab, err = labbmc.Start(labbmc.Config{Authority: m.ca, Machine: &labbmc.Bench{}, Username: "root", Password: canary, Personality: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.lab.Close() })
	m.ctx = logr.NewContext(m.ctx, funcr.New(func(prefix, args string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.logged = append(m.logged, prefix+args)
	}, funcr.Options{Verbosity: 5}))
	m.restart(0)
	m.ready("h", append([]func(*infrav1.IngotHost){func(h *infrav1.IngotHost) {
		h.Spec.BMC.Address, h.Spec.BMC.InsecureSkipVerify = m.lab.Address(), ptr.To(true)
		h.Spec.Maintenance = ptr.To(true)
	}}, changes...)...)
	t.Cleanup(m.clear) // before its BMC ends
	t.Cleanup(m.silent)
	return m
}

// deathsApart is the number of calls between two simulated crashes. 31 is odd, so that crashes
// happen before and after calls, and has no common factor with the calls of one reconcile.
func deathsApart() int {
	if needs.IsFull() {
		return 1
	}
	return 31
}

// restart creates a new process that crashes at its n-th call; 0: never.
func (m *simHost) restart(dies int) {
	m.t.Helper()
	m.mort = &crashing{at: dies}
	m.pool = bmc.NewPool(m.dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1, LockAfter: -1}})
	m.t.Cleanup(func() { _ = m.pool.Close(context.Background()) })
	r := m.Reconciler
	api := &crashingClient{Client: m.api, crashing: m.mort}
	m.Reconciler = &Reconciler{Client: api, Live: api, BMC: m.pool, Images: &http.Client{}, Recorder: r.Recorder, Clock: r.Clock, Policy: r.Policy, Poll: r.Poll,
		Timing: r.Timing, NewID: r.NewID, Addresses: &ipam.Memory{}, Fingerprint: func(ctx context.Context, address string) (string, error) {
			return trust.Probe(ctx, bmc.Target{}, address)
		}}
}

// dial connects with the driver; the calls of the connection count for the crash.
func (m *simHost) dial(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	var conn bmc.Conn
	err := m.mort.call(func() (err error) {
		conn, err = redfish.Dial(ctx, target)
		return err
	})
	if errors.Is(err, bmc.ErrUnauthorized) {
		m.mu.Lock()
		m.wrong++
		m.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	return &crashingConn{Conn: conn, crashing: m.mort}, nil
}

// tick reconciles once. It may fail only if the process crashed, and sends at most one wrong
// password.
func (m *simHost) tick() ctrl.Result {
	m.t.Helper()
	m.wrong = 0
	result, err := m.Reconcile(m.ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: m.ns, Name: "h"}})
	if err != nil && !m.mort.dead() {
		m.t.Fatal(err)
	}
	if m.wrong > 1 {
		m.t.Errorf("%d wrong logins in one try", m.wrong)
	}
	m.held()
	return result
}

// settled reconciles and steps the clock until done.
func (m *simHost) settled(what string, done func(*infrav1.IngotHost) bool) *infrav1.IngotHost {
	m.t.Helper()
	for range 40 {
		m.tick()
		if host := m.get("h"); done(host) {
			return host
		}
		m.clock.Step(m.timing().BMCBackoffMax)
	}
	m.t.Fatalf("never %s: %+v", what, m.get("h").Status.Conditions)
	return nil
}

// calm waits for the first contact with the BMC.
func (m *simHost) calm() {
	m.t.Helper()
	m.settled("in maintenance", func(h *infrav1.IngotHost) bool { return h.Status.Phase == infrav1.PhaseMaintenance })
}

func (m *simHost) credentials() *corev1.Secret {
	m.t.Helper()
	secret := &corev1.Secret{}
	must(m.fixture, m.api.Get(context.Background(), client.ObjectKey{Namespace: m.ns, Name: "bmc"}, secret))
	return secret
}

// held checks that the Secret has a valid password.
func (m *simHost) held() {
	m.t.Helper()
	data := m.credentials().Data
	var found []string
	for _, key := range []string{infrav1.SecretKeyPassword, infrav1.SecretKeyNextPassword, infrav1.SecretKeyUnprovenPassword} {
		if password := string(data[key]); password != "" {
			m.secrets[password] = true
			found = append(found, password)
		}
	}
	if !slices.Contains(found, m.lab.Password()) {
		m.t.Errorf("the BMC's password is lost: it is not among the Secret's %d", len(found))
	}
}

// silent checks that no log line, event or host contains a password.
func (m *simHost) silent() {
	var host infrav1.IngotHost
	_ = m.api.Get(context.Background(), client.ObjectKey{Namespace: m.ns, Name: "h"}, &host)
	texts := append(m.all(), fmt.Sprintf("%+v", host))
	m.mu.Lock()
	texts = append(texts, m.logged...)
	m.mu.Unlock()
	if len(m.logged) == 0 {
		m.t.Error("nothing was logged: what was looked through?")
	}
	for _, text := range texts {
		for password := range m.secrets {
			if strings.Contains(text, password) {
				m.t.Errorf("a password is shown: %s", strings.ReplaceAll(text, password, "<<<PASSWORD>>>"))
			}
		}
	}
}

func (m *simHost) ask() {
	m.t.Helper()
	m.edit("h", func(h *infrav1.IngotHost) {
		h.Annotations = map[string]string{infrav1.RotateCredentialsAnnotation: commandAt(m.clock.Now())}
	})
}

// done reports whether the rotation has ended.
func (m *simHost) done(h *infrav1.IngotHost) bool {
	_, asked := h.Annotations[infrav1.RotateCredentialsAnnotation]
	return !asked && !rotation.IsPending(m.get("h"), m.credentials())
}

// crashing counts the calls of a process, and from the at-th on makes all fail. Each
// call counts twice: before it is made, and when it is answered.
type crashing struct {
	mu    sync.Mutex
	at, n int
}

var errDead = errors.New("the process is dead")

// pass reports whether the process survives the call.
func (m *crashing) pass() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n++; m.at > 0 && m.n >= m.at {
		return errDead
	}
	return nil
}

func (m *crashing) dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at > 0 && m.n >= m.at
}

func (m *crashing) call(f func() error) error {
	if err := m.pass(); err != nil {
		return err
	}
	err := f()
	if dead := m.pass(); dead != nil {
		return dead
	}
	return err
}

// crashingClient is a process's way to the API server.
type crashingClient struct {
	client.Client
	*crashing
}

func (c *crashingClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.call(func() error { return c.Client.Get(ctx, key, obj, opts...) })
}

func (c *crashingClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.call(func() error { return c.Client.List(ctx, list, opts...) })
}

func (c *crashingClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.call(func() error { return c.Client.Create(ctx, obj, opts...) })
}

func (c *crashingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.call(func() error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

func (c *crashingClient) Status() client.SubResourceWriter {
	return &crashingStatus{c.Client.Status(), c.crashing}
}

type crashingStatus struct {
	client.SubResourceWriter
	*crashing
}

func (c *crashingStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return c.call(func() error { return c.SubResourceWriter.Patch(ctx, obj, patch, opts...) })
}

// crashingConn is a process's session with a BMC. A crashed process does not log out.
type crashingConn struct {
	bmc.Conn
	*crashing
}

func (c *crashingConn) SetPassword(ctx context.Context, password bmc.Password) error {
	return c.call(func() error { return c.Conn.SetPassword(ctx, password) })
}

func (c *crashingConn) PowerState(ctx context.Context) (state bmc.PowerState, err error) {
	err = c.call(func() (err error) {
		state, err = c.Conn.PowerState(ctx)
		return err
	})
	return state, err
}

func (c *crashingConn) Close(ctx context.Context) error {
	return c.call(func() error { return c.Conn.Close(ctx) })
}

// rotated returns the condition of the last rotation.
func (m *simHost) rotated(status metav1.ConditionStatus, reason string) string {
	m.t.Helper()
	return m.want("h", infrav1.HostCredentialsRotatedCondition, status, reason).Message
}

// asked counts the requests to a path.
func (m *simHost) asked(path string) (n int) {
	for _, w := range m.lab.Writes() {
		if strings.HasSuffix(w.Path, path) {
			n++
		}
	}
	return n
}
