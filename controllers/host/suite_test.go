// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/test/envtest"
)

// canary is the password of every BMC here.
const canary = "CANARY-0815-bmc-password"

// fakeBMC stands for every BMC of a test; it logs the calls that switch.
type fakeBMC struct {
	bmc.Unsupported

	mu     sync.Mutex
	power  bmc.PowerState
	macs   []string
	reads  int
	writes []string
	// readErr and writeErr, if set, are the answers.
	readErr, writeErr, overrideErr, overrideReadErr error
	// override is the reported override.
	override bmc.BootOverride
	// health is OK if empty; parts are the components, and details counts reads of
	// them.
	health  bmc.HealthState
	parts   []bmc.ComponentHealth
	details int
	// forgiven counts calls of Forgive.
	forgiven int
	// drive is the state for boot methods, such as the virtual CD drive.
	drive fakeDrive
	// leads maps BMC addresses to IP addresses; others are not resolved.
	leads map[string]string
	// switching is called at each power action; may be nil.
	switching func()
}

func (f *fakeBMC) Do(ctx context.Context, target bmc.Target, fn func(context.Context, bmc.Conn) error) error {
	if target.Password.Reveal() != canary || target.Username != "root" {
		return fmt.Errorf("login with %v: %w", target, bmc.ErrUnauthorized)
	}
	if _, limited := ctx.Deadline(); !limited {
		return fmt.Errorf("a call without a deadline")
	}
	if to := f.leads[target.Address]; to != "" {
		if err := target.Connecting("", netip.AddrPortFrom(netip.MustParseAddr(to), 443)); err != nil {
			return err
		}
	}
	return fn(ctx, f)
}

func (f *fakeBMC) Forgive(bmc.Target) { f.forgiven++ }

func (f *fakeBMC) PowerState(context.Context) (bmc.PowerState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	return f.power, f.readErr
}

func (f *fakeBMC) PollState(ctx context.Context) (bmc.PollState, error) {
	power, err := f.PowerState(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	return bmc.PollState{Power: power, Health: cmp.Or(f.health, bmc.HealthOK)}, err
}

func (f *fakeBMC) Health(context.Context) (bmc.HealthReport, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.details++
	return bmc.HealthReport{Overall: f.health, Components: f.parts}, nil
}

func (f *fakeBMC) SetPower(_ context.Context, action bmc.PowerAction) error {
	if f.switching != nil {
		f.switching()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = append(f.writes, string(action))
	return f.writeErr
}

func (f *fakeBMC) BootOverride(context.Context) (bmc.BootOverride, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.override, f.overrideReadErr
}

func (f *fakeBMC) SetBootOverride(_ context.Context, o bmc.BootOverride) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = append(f.writes, fmt.Sprintf("boot %s %s", o.Target, o.Mode))
	if o.Target == bmc.BootHTTP {
		f.drive.uris = append(f.drive.uris, o.HTTPBootURI)
		if f.drive.noURI && o.HTTPBootURI != "" {
			return bmc.ErrNotSupported
		}
	}
	return f.overrideErr
}

func (f *fakeBMC) Identity(context.Context) (bmc.Identity, error) { return bmc.Identity{}, nil }

func (f *fakeBMC) Inventory(context.Context) (bmc.Inventory, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bmc.Inventory{MACs: f.macs}, nil
}

func (f *fakeBMC) Close(context.Context) error { return nil }

// set changes the BMC, and forgets what was written to it.
func (f *fakeBMC) set(change func(*fakeBMC)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = nil
	change(f)
}

// took returns what was written since it was last asked.
func (f *fakeBMC) took() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	writes := strings.Join(f.writes, ", ")
	f.writes = nil
	return writes
}

func (f *fakeBMC) readsSoFar() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

// fixture is a test namespace with a reconciler.
type fixture struct {
	*Reconciler
	t        *testing.T
	ctx      context.Context
	ns       string
	api      *envtest.Indexed
	bmc      *fakeBMC
	clock    *testclock.FakeClock
	events   *events.FakeRecorder
	recorded []string
}

// number makes names and MAC addresses that no other test uses.
var numbers = struct {
	sync.Mutex
	n int
}{}

func number() int {
	numbers.Lock()
	defer numbers.Unlock()
	numbers.n++
	return numbers.n
}

func newFixture(t *testing.T, on *testEnv) *fixture {
	t.Helper()
	api := on.api
	y := &fixture{t: t, ctx: t.Context(), ns: fmt.Sprintf("fixture-%d", number()), api: api, bmc: &fakeBMC{power: bmc.PowerOff},
		clock: testclock.NewFakeClock(time.Now().Truncate(time.Second)), events: events.NewFakeRecorder(1000)}
	y.Reconciler = &Reconciler{Client: api, Live: api, BMC: y.bmc, Recorder: y.events, Clock: y.clock,
		Policy: lifecycle.DefaultPolicy(), Poll: time.Minute, NewID: uuid.NewString, Addresses: &ipam.Memory{}}
	t.Cleanup(y.clear)
	y.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: y.ns, Labels: map[string]string{infrav1.NetworksLabel: infrav1.NetworksAllowed}}})
	y.create(&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: y.ns}, Spec: infrav1.IngotNetworkSpec{
		Mode: infrav1.DHCPModeReserve, Subnet: "192.0.2.0/24", Range: infrav1.AddressRange{Start: "192.0.2.10", End: "192.0.2.99"}}})
	t.Cleanup(func() {
		for _, text := range y.all() {
			if strings.Contains(text, canary) {
				t.Errorf("the password is in an event: %s", text)
			}
		}
	})
	return y
}

// clear deletes the hosts and their facts: other tests list all hosts and may reuse the port of a
// BMC.
func (y *fixture) clear() {
	y.t.Helper()
	ctx, in := context.WithoutCancel(y.ctx), client.InNamespace(y.ns)
	hosts := &infrav1.IngotHostList{}
	errs := []error{y.api.List(ctx, hosts, in)}
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for i := range hosts.Items {
		errs = append(errs, client.IgnoreNotFound(y.api.Patch(ctx, &hosts.Items[i], free)))
	}
	facts := &infrav1.IngotHardwareList{}
	errs = append(errs, y.api.List(ctx, facts, in))
	for i := range facts.Items {
		errs = append(errs, client.IgnoreNotFound(y.api.Patch(ctx, &facts.Items[i], free)))
	}
	errs = append(errs, y.api.DeleteAllOf(ctx, &infrav1.IngotHost{}, in), y.api.DeleteAllOf(ctx, &infrav1.IngotHardware{}, in))
	if err := errors.Join(errs...); err != nil {
		y.t.Errorf("clearing %s: %v", y.ns, err)
	}
}

func (y *fixture) create(obj client.Object) {
	y.t.Helper()
	if err := y.api.Create(y.ctx, obj); err != nil {
		y.t.Fatal(err)
	}
}

func (y *fixture) secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, Name: name, Labels: map[string]string{infrav1.BMCCredentialsDeleteLabel: ""}},
		Data: map[string][]byte{"username": []byte("root"), "password": []byte(canary)}}
}

// host registers a server; changes come before it is created.
func (y *fixture) host(name string, changes ...func(*infrav1.IngotHost)) *infrav1.IngotHost {
	y.t.Helper()
	n := number()
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, Name: name}, Spec: infrav1.IngotHostSpec{
		BootMACAddress: fmt.Sprintf("52:54:00:00:%02x:%02x", n/256, n%256), NetworkRef: infrav1.NetworkReference{Name: y.ns},
		BMC: &infrav1.BMC{Address: fmt.Sprintf("redfish://bmc-%d.example", n), CredentialsRef: infrav1.LocalReference{Name: "bmc"}},
	}}
	for _, change := range changes {
		change(host)
	}
	y.create(host)
	if record := host.Spec.Record; record != nil && !record.InspectedTime.IsZero() {
		y.describe(host)
	}
	return host
}

// ready creates a host and its Secret.
func (y *fixture) ready(name string, changes ...func(*infrav1.IngotHost)) *infrav1.IngotHost {
	y.t.Helper()
	if err := y.api.Create(y.ctx, y.secret("bmc")); err != nil && !apierrors.IsAlreadyExists(err) {
		y.t.Fatal(err)
	}
	return y.host(name, changes...)
}

// get reads a host; nil: it is gone.
func (y *fixture) get(name string) *infrav1.IngotHost {
	y.t.Helper()
	host := &infrav1.IngotHost{}
	err := y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: name}, host)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		y.t.Fatal(err)
	}
	return host
}

// edit changes a host as another client.
func (y *fixture) edit(name string, change func(*infrav1.IngotHost)) {
	y.t.Helper()
	host := y.get(name)
	base := host.DeepCopy()
	change(host)
	if err := y.api.Patch(y.ctx, host, client.MergeFrom(base)); err != nil {
		y.t.Fatal(err)
	}
}

// step reconciles once.
func (y *fixture) step(name string) ctrl.Result {
	y.t.Helper()
	result, err := y.Reconcile(y.ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: y.ns, Name: name}})
	if err != nil {
		y.t.Fatal(err)
	}
	return result
}

// until reconciles and steps the clock until done.
func (y *fixture) until(name, what string, done func(*infrav1.IngotHost) bool) *infrav1.IngotHost {
	y.t.Helper()
	for range 15 {
		y.step(name)
		if host := y.get(name); done(host) {
			return host
		}
		y.clock.Step(31 * time.Second)
	}
	host := y.get(name)
	y.t.Fatalf("host is never %s: phase %s, order %+v, conditions %+v", what, host.Status.Phase, host.Spec.Order, host.Status.Conditions)
	return nil
}

// untilBoot waits for the boot of the agent.
func (y *fixture) untilBoot(name string, kind infrav1.OrderKind) {
	y.t.Helper()
	for range 15 {
		y.step(name)
		if y.bmc.took() == "boot PXE UEFI, On" {
			y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn })
			if order := y.get(name).Spec.Order; order == nil || order.Kind != kind {
				y.t.Fatalf("booted for %+v, want %s", order, kind)
			}
			return
		}
		y.clock.Step(31 * time.Second)
	}
	y.t.Fatalf("never booted to %s: %+v", kind, y.get(name).Status.Conditions)
}

// finish reports success of the agent and powers the host off.
func (y *fixture) finish(name string) {
	y.t.Helper()
	y.describe(y.get(name))
	y.edit(name, func(h *infrav1.IngotHost) {
		h.Spec.Order.AgentKey = strings.Repeat("a", 64)
		h.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.NewTime(y.clock.Now())}
	})
	for range 5 {
		y.clock.Step(31 * time.Second)
		y.step(name)
		if y.bmc.took() == string(bmc.ActionForceOff) {
			y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff })
			y.clock.Step(31 * time.Second)
			return
		}
	}
	y.t.Fatalf("not switched off after the report: %+v", y.get(name).Status.Conditions)
}

// inspect takes a new host to Available.
func (y *fixture) inspect(name string) {
	y.t.Helper()
	y.untilBoot(name, infrav1.OrderInspect)
	y.finish(name)
	y.until(name, "available", func(h *infrav1.IngotHost) bool {
		return conditions.IsTrue(h, infrav1.HostAvailableCondition)
	})
}

// atRest checks that nothing is written while time passes.
func (y *fixture) atRest(name string) {
	y.t.Helper()
	y.step(name)
	before := y.get(name)
	for range 5 {
		y.clock.Step(time.Minute)
		if after := y.step(name).RequeueAfter; after <= 0 || after > 3*restFactor*y.Poll/2 {
			y.t.Errorf("looked at again after %s", after)
		}
	}
	after := y.get(name)
	if before.ResourceVersion != after.ResourceVersion {
		y.t.Errorf("a host at rest was written to: before %+v, after %+v", before.Status, after.Status)
	}
	if writes := y.bmc.took(); writes != "" {
		y.t.Errorf("a host at rest was switched: %s", writes)
	}
}

// want checks one condition.
func (y *fixture) want(name, kind string, status metav1.ConditionStatus, reason string) *metav1.Condition {
	y.t.Helper()
	c := conditions.Get(y.get(name), kind)
	if c == nil || c.Status != status || c.Reason != reason {
		y.t.Errorf("condition %s = %+v, want %s %s", kind, c, status, reason)
		return &metav1.Condition{}
	}
	if strings.Contains(c.Message, canary) {
		y.t.Errorf("the password is in a condition: %s", c.Message)
	}
	return c
}

// all returns all events so far.
func (y *fixture) all() []string {
	for {
		select {
		case event := <-y.events.Events:
			y.recorded = append(y.recorded, event)
		default:
			return y.recorded
		}
	}
}

// recordedOnce checks that exactly one event has the reason.
func (y *fixture) recordedOnce(reason string) {
	y.t.Helper()
	matching := slices.DeleteFunc(slices.Clone(y.all()), func(event string) bool { return !strings.Contains(event, " "+reason+" ") })
	if len(matching) != 1 {
		y.t.Errorf("%d events %s, want 1: %q", len(matching), reason, y.recorded)
	}
}

// namesNoTenant checks that no event or condition names a host of another fixture (all are called
// hidden).
func (y *fixture) namesNoTenant(name string) {
	y.t.Helper()
	texts := slices.Clone(y.all())
	for _, c := range y.get(name).Status.Conditions {
		texts = append(texts, c.Message)
	}
	for _, text := range texts {
		if strings.Contains(text, "hidden") {
			y.t.Errorf("another tenant's host is named: %s", text)
		}
	}
}

// claim creates a claim and its machine.
func (y *fixture) claim(host string) string {
	y.t.Helper()
	id := uuid.NewString()
	y.machine(host, id)
	y.edit(host, func(h *infrav1.IngotHost) {
		h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m-" + host}, ClusterName: "c", InstanceID: id,
			State: infrav1.ClaimProvisioning, Cleaning: infrav1.CleaningMetadata, Hostname: "m", Image: image()}
	})
	return id
}

func (y *fixture) machine(host, instanceID string) {
	y.t.Helper()
	machine := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, Name: "m-" + host}}
	machine.Spec.Image = image()
	if instanceID != "" {
		machine.Spec.ProviderID = infrav1.ProviderID{Namespace: y.ns, Host: host, InstanceID: instanceID}.String()
	}
	y.create(machine)
}

func image() infrav1.Image {
	return infrav1.Image{URL: "http://images.example/x.zst", Checksum: "sha256:" + strings.Repeat("0", 64), Format: infrav1.ImageFormatRaw}
}
