// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/firmware"
	"github.com/ingot-metal/ingot/internal/rotation"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// hostMemory is everything that the reconciler remembers between two reconciles. Losing it in
// a restart is safe: state that must survive is in the spec of the IngotHost. An entry
// exists from the first reconcile of a host until forget. The zero value is ready to use and
// safe for concurrent use.
type hostMemory struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]*hostState
	// bySystem has the hosts by the key of the system that their BMC address resolved to.
	bySystem map[string]map[types.NamespacedName]bool

	// agentContact is the time of the last agent contact on each IngotNetwork. After a
	// restart, silence has no consequences for one agent deadline (lifecycle.IsAgentSilent).
	agentContact map[string]time.Time
	clock        clockStart

	// jobs are the firmware images that are downloaded and uploaded. A restart cancels them:
	// images are downloaded again, and spec.record shows that an upload was interrupted.
	jobs firmware.Jobs
}

type hostState struct {
	// uid is the object's: a host that was deleted and created again starts without memory.
	uid types.UID
	// generation is the last one seen, to notice that the API server was restored while the
	// manager ran. Continuity notices a restore across a restart.
	generation int64
	// resolved is the BMC address of the last connection. After a restart the next connection
	// sets it before anything is sent.
	resolved resolvedBMC
	// rule and reason are those of the decision that was logged last. A restart logs it again.
	rule, reason string
	bmc          bmcState
}

// resolvedBMC is the IP address behind the DNS name of a BMC.
type resolvedBMC struct {
	// written is spec.bmc.address, and address the same with an IP address as its host.
	written string
	address bmcaddress.Address
}

// entry returns the state of a host, a new one for a new UID. The lock is held.
func (m *hostMemory) entry(host *infrav1.IngotHost) *hostState {
	state := m.hosts[keyOf(host)]
	if state == nil || state.uid != host.UID {
		if m.hosts == nil {
			m.hosts, m.bySystem = map[types.NamespacedName]*hostState{}, map[string]map[types.NamespacedName]bool{}
		}
		m.dropResolved(keyOf(host))
		state = &hostState{uid: host.UID}
		m.hosts[keyOf(host)] = state
	}
	return state
}

// isRestored stores the host's generation and reports whether it is lower than the last one,
// which happens only if the object was restored from a backup.
func (m *hostMemory) isRestored(host *infrav1.IngotHost) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.entry(host)
	restored := host.Generation < state.generation
	state.generation = host.Generation
	return restored
}

// isNewDecision stores the rule and reason of a decision and reports whether they changed.
func (m *hostMemory) isNewDecision(host *infrav1.IngotHost, decision lifecycle.Decision) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.entry(host)
	isNew := state.rule != decision.Rule || state.reason != decision.Reason
	state.rule, state.reason = decision.Rule, decision.Reason
	return isNew
}

func (m *hostMemory) bmcOf(host *infrav1.IngotHost) bmcState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entry(host).bmc
}

func (m *hostMemory) keepBMC(host *infrav1.IngotHost, known bmcState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(host).bmc = known
}

// changeBMC changes the state of a BMC in place, unless the host was forgotten. Callers that
// run in parallel to a reconcile must not store a copy.
func (m *hostMemory) changeBMC(host types.NamespacedName, change func(*bmcState)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if state := m.hosts[host]; state != nil {
		change(&state.bmc)
	}
}

// keepResolved stores the resolved address of the host's BMC, unless the host was forgotten:
// a pooled session may connect later.
func (m *hostMemory) keepResolved(host *infrav1.IngotHost, to bmcaddress.Address) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if state := m.hosts[keyOf(host)]; state != nil && state.uid == host.UID {
		m.dropResolved(keyOf(host))
		state.resolved = resolvedBMC{written: host.Spec.BMC.Address, address: to}
		if m.bySystem[to.Key()] == nil {
			m.bySystem[to.Key()] = map[types.NamespacedName]bool{}
		}
		m.bySystem[to.Key()][keyOf(host)] = true
	}
}

// dropResolved forgets the resolved address of the host's BMC. The lock is held.
func (m *hostMemory) dropResolved(host types.NamespacedName) {
	state := m.hosts[host]
	if state == nil || state.resolved.written == "" {
		return
	}
	system := state.resolved.address.Key()
	delete(m.bySystem[system], host)
	if len(m.bySystem[system]) == 0 {
		delete(m.bySystem, system)
	}
	state.resolved = resolvedBMC{}
}

// resolvedOf returns the IP address of the host's BMC: the resolved one or the one in the
// spec. It returns false if Ingot has not connected to the name yet.
func (m *hostMemory) resolvedOf(host *infrav1.IngotHost) (bmcaddress.Address, bool) {
	if host.Spec.BMC == nil {
		return bmcaddress.Address{}, false
	}
	m.mu.Lock()
	state := m.hosts[keyOf(host)]
	if state != nil && state.uid == host.UID && state.resolved.written == host.Spec.BMC.Address {
		defer m.mu.Unlock()
		return state.resolved.address, true
	}
	m.mu.Unlock()
	address, err := bmcaddress.Parse(host.Spec.BMC.Address)
	if err != nil {
		return address, false
	}
	_, err = netip.ParseAddr(address.Host)
	return address, err == nil
}

// resolvedTo lists the hosts, except one, whose BMC addresses resolved to a system.
func (m *hostMemory) resolvedTo(system string, except types.NamespacedName) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Keys(m.bySystem[system])), func(host types.NamespacedName) bool { return host == except })
}

func (m *hostMemory) agentHeard(network string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agentContact == nil {
		m.agentContact = map[string]time.Time{}
	}
	if at.After(m.agentContact[network]) {
		m.agentContact[network] = at
	}
}

func (m *hostMemory) lastAgent(network string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agentContact[network]
}

// listeningSince returns when the reconciler observed its first host, by the present clock.
func (m *hostMemory) listeningSince(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock.since(now)
}

// forget removes a host and cancels its firmware upload. It returns the address of the BMC;
// empty: there was no contact.
func (m *hostMemory) forget(host types.NamespacedName) (address string) {
	m.jobs.Cancel(host)
	m.mu.Lock()
	defer m.mu.Unlock()
	if state := m.hosts[host]; state != nil {
		address = state.bmc.address
		m.dropResolved(host)
		delete(m.hosts, host)
	}
	return address
}

func keyOf(host *infrav1.IngotHost) types.NamespacedName {
	return types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
}

// backoffJitter is the random part added to the backoff of a failing BMC (I13).
const backoffJitter = 0.5

// bmcState is the state of a BMC. A reconcile works on a copy and stores it as a whole. The
// comments state the effect of a restart on each group of fields.
type bmcState struct {
	// The server that the BMC manages. A restart reads it again before any power action.
	//
	// listed: the NICs at address were read; macs are nil if the BMC cannot list them.
	address string
	listed  bool
	macs    []string
	// sought is the boot MAC address that was missing when macs were last read, at soughtAt.
	sought   string
	soughtAt time.Time
	// identity was read in session; session is 0 if the BMC has no sessions.
	identity inventory.SystemIdentity
	session  uint64
	// unsure: the BMC was unreachable since, and may now manage another server.
	unsure bool

	// Failures and backoff. A restart retries at once and takes since from the condition.
	//
	// key is the accessKey of the failures.
	key     string
	problem lifecycle.BMCProblem
	message string
	// delay is 0 without a failure; failures counts consecutive failed tries.
	delay    time.Duration
	retryAt  time.Time
	failures int
	since    time.Time

	// Effects of actions. A restart counts ignored actions (acks), graceful shutdowns
	// (softOff) and ejections from zero, and gives a boot its full time again (boots). It
	// believes Off one reset interval later (liveOff), and powers off a host again that must
	// be proved off (offProof).
	acks      powerAcks
	boots     bootAcks
	softOff   softPowerOff
	ejections int
	liveOff   liveOff
	offProof  lifecycle.OffProof

	// health is taken from the status after a restart.
	health healthState
	// rotation follows from the Secret and the BMC's answers after a restart.
	rotation rotation.Memory
	// firmware is read again after a restart.
	firmware firmware.Memory
}

// withKey returns the state; if the key differs, without failures and effects of actions.
func (s bmcState) withKey(key string) bmcState {
	if s.key == key {
		return s
	}
	s.firmware.RetryNow()
	return bmcState{
		address: s.address, listed: s.listed, macs: s.macs, identity: s.identity, session: s.session, unsure: s.unsure,
		key: key, health: s.health, firmware: s.firmware,
	}
}

// failed counts a failure and sets when to try again.
func (s bmcState) failed(problem lifecycle.BMCProblem, message string, now time.Time, delays timing.Timing) bmcState {
	s.problem, s.message, s.failures = problem, stable(message), s.failures+1
	s.delay = min(max(2*s.delay, delays.BMCBackoffFirst), delays.BMCBackoffMax)
	s.retryAt = now.Add(min(wait.Jitter(s.delay, backoffJitter), delays.BMCBackoffMax))
	return s
}

// answered clears all failures except those of power actions, which only a successful action
// clears.
func (s bmcState) answered() bmcState {
	s.problem, s.message, s.retryAt = lifecycle.BMCOK, "", time.Time{}
	if !s.acks.pending() {
		s.delay = 0
	}
	if s.acks.problem == lifecycle.BMCOK {
		s.failures, s.since = 0, time.Time{}
	}
	return s
}

func (s bmcState) lacksNIC(mac string) bool {
	return len(s.macs) > 0 && !slices.Contains(s.macs, mac)
}

// softPowerOff holds the times of a BMC's first and last rejection of a graceful shutdown.
// Zero: none.
type softPowerOff struct {
	first, last time.Time
}

func (s softPowerOff) refused(now time.Time) softPowerOff {
	if s.first.IsZero() {
		s.first = now
	}
	s.last = now
	return s
}

// lasted reports whether rejections span at least limit. The last try counts: a BMC that was
// unreachable in between gets one more request when it is back.
func (s softPowerOff) lasted(limit time.Duration) bool {
	return !s.first.IsZero() && s.last.Sub(s.first) >= limit
}

// liveOff is since when a BMC reports Off for a host whose live system was started. Zero: the
// BMC does not.
type liveOff struct {
	// order is the ID of the live system's order.
	order string
	since time.Time
}

// seen updates liveOff with the power state. Off is unsure until the BMC has reported it for
// atLeast: status.power may be from before the boot, and one wrong answer must not end a live
// system. An unknown state has no effect.
func (o liveOff) seen(order *infrav1.HostOrder, power infrav1.PowerState, now time.Time, atLeast time.Duration) (_ liveOff, unsure bool) {
	switch {
	case order == nil || order.LiveStartTime.IsZero() || power == infrav1.PowerStateOn:
		return liveOff{}, false
	case power != infrav1.PowerStateOff:
		return o, false
	case o.order != order.ID:
		o = liveOff{order: order.ID, since: now}
	}
	return o, now.Before(o.since.Add(atLeast))
}

// bootAcks is since when the BMC accepts boots of the agent for an order. Zero: the BMC has
// accepted none, or rejected the last one.
type bootAcks struct {
	order string
	since time.Time
}

// accepted records that the BMC accepted a step, or may have (I17).
func (b bootAcks) accepted(order *infrav1.HostOrder, step lifecycle.Step, now time.Time) bootAcks {
	if _, boots := step.(lifecycle.BootAgent); !boots || order == nil || b.order == order.ID {
		return b
	}
	return bootAcks{order: order.ID, since: now}
}

func (b bootAcks) refused(step lifecycle.Step) bootAcks {
	if _, boots := step.(lifecycle.BootAgent); boots {
		return bootAcks{}
	}
	return b
}

// of returns since when the BMC accepts boots for this order; zero: never.
func (b bootAcks) of(order *infrav1.HostOrder) time.Time {
	if order == nil || b.order != order.ID {
		return time.Time{}
	}
	return b.since
}

// maxIgnored is the number of consecutive power actions without effect after which a BMC
// counts as failing: its condition shows it, and retries back off (I13).
const maxIgnored = 3

// powerAcks counts power actions that did not change the reported power state. Zero: none.
type powerAcks struct {
	want infrav1.PowerState
	// n counts consecutive actions that the BMC accepted or did not answer. A rejected
	// action resets it.
	n int
	// proves: the last action was to confirm the reported state (lifecycle.OffProof), and
	// the BMC rejected or did not answer it. The same report confirms nothing.
	proves bool
	// problem and message are the failure of the actions; BMCOK: none yet. Only an action
	// with an effect clears them, not the answer to a read.
	problem lifecycle.BMCProblem
	message string
}

func (a powerAcks) pending() bool { return a.want != "" }

func (a powerAcks) failedAs(s bmcState) powerAcks {
	if a.pending() {
		a.problem, a.message = s.problem, s.message
	}
	return a
}

// refused records an action that the BMC rejected while it reported shown.
func (a powerAcks) refused(step lifecycle.Step, shown infrav1.PowerState) powerAcks {
	a = a.sent(step).unanswered(shown)
	a.n = 0
	return a
}

// unanswered records that the BMC, which reported shown, did not answer the last action. The
// BMC may have accepted it (I17), but the same report does not confirm it.
func (a powerAcks) unanswered(shown infrav1.PowerState) powerAcks {
	a.proves = a.pending() && shown == a.want
	return a
}

// sent counts one more action, except a graceful power-off and a restart: the operating system
// may ignore those, which is not the BMC's fault.
func (a powerAcks) sent(step lifecycle.Step) powerAcks {
	want := infrav1.PowerState("")
	switch step := step.(type) {
	case lifecycle.BootAgent, lifecycle.PowerOn:
		want = infrav1.PowerStateOn
	case lifecycle.PowerOff:
		if !step.Graceful {
			want = infrav1.PowerStateOff
		}
	}
	if want == "" {
		return powerAcks{}
	}
	if want != a.want {
		a = powerAcks{want: want}
	}
	a.n++
	a.proves = false
	return a
}

// seen compares the pending actions with the reported power state. After an error, one more
// action is sent before the next error, since a repaired BMC does not announce its repair.
// unproven: a report of Off alone is not enough. lags: the BMC may still report the state
// before the last action, so only the wanted state counts.
func (a powerAcks) seen(shown infrav1.PowerState, unproven, lags bool) (powerAcks, error) {
	switch {
	case !a.pending() || shown == a.want && !(a.proves && unproven):
		return powerAcks{}, nil
	case a.n < maxIgnored || lags || shown == infrav1.PowerStateUnknown:
		return a, nil
	}
	a.n = maxIgnored - 1
	action := "power-" + strings.ToLower(string(a.want))
	if shown == a.want { // one accepted action would have confirmed it
		return a, noAnswerError(fmt.Sprintf("the BMC did not answer %d %s requests in a row", maxIgnored, action))
	}
	return a, ignoredError{fmt.Errorf("the BMC accepted %d %s requests but still reports %s", maxIgnored, action, shown)}
}
