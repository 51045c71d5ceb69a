// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net/netip"
	"slices"
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

// hostMemory is everything that the reconciler remembers between two reconciles. A restart
// of the manager loses all of it, which is safe: what must survive is in the spec of the
// IngotHost. An entry begins with the first reconcile of a host and ends with forget. The
// zero value is ready, and safe for concurrent use.
type hostMemory struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]*hostState
	// bySystem has the hosts by the system of a BMC that the address in their spec led to.
	bySystem map[string]map[types.NamespacedName]bool

	// agentContact is when an agent was last heard on each IngotNetwork. After a restart
	// nothing is concluded from silence for one agent deadline (lifecycle.SilenceDue).
	agentContact map[string]time.Time
	clock        clockStart

	// jobs are the firmware images that are read and pushed. A restart ends them: images
	// are read again, and spec.record shows that a push was cut off.
	jobs firmware.Works
}

// hostState is what is remembered of one host.
type hostState struct {
	// uid is of the object: a host that was deleted and created again starts with nothing.
	uid types.UID
	// generation is the last one that was seen, to notice that the API server was restored
	// under a running manager. After a restart, Continuity notices it.
	generation int64
	// resolved is where spec.bmc.address led when it was last connected to. After a restart
	// the next connection fills it, before anything is sent.
	resolved resolvedBMC
	// rule and reason are of the decision that was logged last. After a restart it is
	// logged once more.
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

// wentBack notes the host's generation, and reports whether it is lower than the last one:
// a generation only goes back when the object is restored from a backup.
func (m *hostMemory) wentBack(host *infrav1.IngotHost) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.entry(host)
	back := host.Generation < state.generation
	state.generation = host.Generation
	return back
}

// isNews notes the rule and reason of a decision, and reports whether they differ from the
// last ones.
func (m *hostMemory) isNews(host *infrav1.IngotHost, decision lifecycle.Decision) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.entry(host)
	news := state.rule != decision.Rule || state.reason != decision.Reason
	state.rule, state.reason = decision.Rule, decision.Reason
	return news
}

// bmcOf returns a copy of what is known of the host's BMC.
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

// changeBMC changes what is known of a BMC, unless the host was forgotten. It is for
// callers next to the reconcile that may hold a copy.
func (m *hostMemory) changeBMC(host types.NamespacedName, change func(*bmcState)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if state := m.hosts[host]; state != nil {
		change(&state.bmc)
	}
}

// keepResolved notes where the name of the host's BMC led, unless the host was forgotten: a
// kept session may connect later.
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

// dropResolved forgets where the host's BMC was. The lock is held.
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

// resolvedOf returns where the host's BMC is: where its name led, or the IP address in its
// spec. False: Ingot has not connected to the name yet.
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

// resolvedTo lists the hosts, except one, whose BMC addresses led to a system.
func (m *hostMemory) resolvedTo(system string, except types.NamespacedName) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	var hosts []types.NamespacedName
	for host := range m.bySystem[system] {
		if host != except {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// agentHeard notes when an agent was heard on a network.
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

// lastAgent is when an agent was last heard on a network; zero: not since the start.
func (m *hostMemory) lastAgent(network string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agentContact[network]
}

// listeningSince is when the reconciler began to look at hosts, by the present clock.
func (m *hostMemory) listeningSince(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock.since(now)
}

// forget removes everything about a host, and ends its firmware push. It returns the address
// of the BMC; empty: there was no contact.
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

// backoffJitter is how much is added at random to the backoff of a BMC that fails (I13), as a
// part of it.
const backoffJitter = 0.5

// bmcState is what is known of a BMC. Each group of fields says what a restart costs. A
// reconcile works on a copy and keeps it as a whole.
type bmcState struct {
	// Which server the BMC manages. After a restart it is read again, before any order.
	//
	// listed: the BMC was asked for its NICs at address; macs are nil if it cannot list them.
	address string
	listed  bool
	macs    []string
	// sought is the boot MAC address that was missing in macs when they were last read for
	// it, at soughtAt.
	sought   string
	soughtAt time.Time
	// identity is as the BMC reports it, read in session; 0: sessions are not told apart.
	identity inventory.SystemIdentity
	session  uint64
	// unsure: the BMC was away since, and may now manage another server.
	unsure bool

	// Failures and backoff. After a restart the BMC is tried at once, and since is taken
	// from the condition.
	//
	// key is the accessKey that failures were counted under.
	key     string
	problem lifecycle.BMCProblem
	message string
	// delay is 0 while nothing has failed; failures is how many tries in a row failed.
	delay    time.Duration
	retryAt  time.Time
	failures int
	since    time.Time

	// What became of actions. After a restart: an ignored order is counted from one again
	// (acks), a boot gets its time again (boots), the system is asked to shut down for as
	// long again (softOff), the drive is emptied up to maxEjections times again (ejections),
	// off is believed one reset interval later (liveOff), and a host that must be proved off
	// is ordered off again (offProof).
	acks      powerAcks
	boots     bootAcks
	softOff   softPowerOff
	ejections int
	liveOff   liveOff
	offProof  lifecycle.OffProof

	// health after a restart is what the status shows.
	health healthState
	// rotation after a restart follows from the Secret and the BMC's answers.
	rotation rotation.Memory
	// firmware after a restart is read again.
	firmware firmware.Memory
}

// withKey returns the state without the failures of another key.
func (s bmcState) withKey(key string) bmcState {
	if s.key == key {
		return s
	}
	s.firmware.Anew()
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

// answered forgets all failures except those of power actions, which only the next action
// can end.
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

// misses reports whether the BMC lists NICs, and none has the MAC address.
func (s bmcState) misses(mac string) bool {
	return len(s.macs) > 0 && !slices.Contains(s.macs, mac)
}

// softPowerOff is when a BMC refused for the first and the last time to ask the system to
// shut down. Zero: it has not refused.
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

// lasted reports whether the BMC refused for that long, the last try included: a BMC that
// was away all the time is asked once more when it is back.
func (s softPowerOff) lasted(limit time.Duration) bool {
	return !s.first.IsZero() && s.last.Sub(s.first) >= limit
}

// liveOff is when a BMC first reported off for a host whose live system was started. Zero:
// it has not.
type liveOff struct {
	// order of the live system.
	order string
	since time.Time
}

// seen takes in the power state. Off is unsure until the BMC has reported it for the given
// time: status.power may be from before the boot, and one wrong answer must not end a live
// system. An unknown state changes nothing.
func (o liveOff) seen(order *infrav1.HostOrder, power infrav1.PowerState, now time.Time, atLeast time.Duration) (_ liveOff, unsure bool) {
	switch {
	case order == nil || order.LiveStartedAt.IsZero() || power == infrav1.PowerStateOn:
		return liveOff{}, false
	case power != infrav1.PowerStateOff:
		return o, false
	case o.order != order.ID:
		o = liveOff{order: order.ID, since: now}
	}
	return o, now.Before(o.since.Add(atLeast))
}

// bootAcks is since when the BMC accepts the boots of the agent for an order. Zero: it has
// accepted none, or refused the last one.
type bootAcks struct {
	order string
	since time.Time
}

// took notes that the BMC accepted a step, or may have (I17).
func (b bootAcks) took(order *infrav1.HostOrder, step lifecycle.Step, now time.Time) bootAcks {
	if _, boots := step.(lifecycle.BootAgent); !boots || order == nil || b.order == order.ID {
		return b
	}
	return bootAcks{order: order.ID, since: now}
}

// refused notes that the BMC did not accept a step.
func (b bootAcks) refused(step lifecycle.Step) bootAcks {
	if _, boots := step.(lifecycle.BootAgent); boots {
		return bootAcks{}
	}
	return b
}

// of is since when the BMC accepts the boots for this order; zero: it does not.
func (b bootAcks) of(order *infrav1.HostOrder) time.Time {
	if order == nil || b.order != order.ID {
		return time.Time{}
	}
	return b.since
}

// maxIgnored is how many power actions in a row a BMC may accept while it reports the same
// power state. After that it counts as failing: its condition shows it, and it is tried at
// growing intervals (I13).
const maxIgnored = 3

// powerAcks counts power actions after which the reported power state has not changed. Zero:
// there are none.
type powerAcks struct {
	want infrav1.PowerState
	// n is how many in a row the BMC accepted or did not answer. One that it refused starts
	// a new row.
	n int
	// proves: the BMC refused or did not answer the last action, which was to support the
	// state that it reported before (lifecycle.OffProof). The same report proves nothing.
	proves bool
	// problem and message are how the actions failed; BMCOK: not yet. Only an action that
	// has its effect ends them, not an answer to a read.
	problem lifecycle.BMCProblem
	message string
}

// pending reports whether an action was sent and none is known to have had its effect.
func (a powerAcks) pending() bool { return a.want != "" }

// failedAs remembers how the state says that the actions failed.
func (a powerAcks) failedAs(s bmcState) powerAcks {
	if a.pending() {
		a.problem, a.message = s.problem, s.message
	}
	return a
}

// refused counts an action that the BMC did not accept while it reported shown.
func (a powerAcks) refused(step lifecycle.Step, shown infrav1.PowerState) powerAcks {
	a = a.sent(step).unanswered(shown)
	a.n = 0
	return a
}

// unanswered notes that the last action got no answer while the BMC reported shown. The BMC
// may have accepted it (I17), but the same report does not show it.
func (a powerAcks) unanswered(shown infrav1.PowerState) powerAcks {
	a.proves = a.pending() && shown == a.want
	return a
}

// sent counts one more action. The operating system may ignore a soft power-off or a
// restart, which says nothing about the BMC.
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

// seen compares with the reported power state. After its error one more action is sent
// before the next error, since a repaired BMC does not report its repair. unproven: the
// BMC's report alone that the host is off is not enough. lags: the BMC may still report the
// state before the last action, so only the wanted state counts.
func (a powerAcks) seen(shown infrav1.PowerState, unproven, lags bool) (powerAcks, error) {
	switch {
	case !a.pending() || shown == a.want && !(a.proves && unproven):
		return powerAcks{}, nil
	case a.n < maxIgnored || lags || shown == infrav1.PowerStateUnknown:
		return a, nil
	}
	a.n = maxIgnored - 1
	if shown == a.want { // one accepted action would have proved it
		return a, noAnswerError(fmt.Sprintf("it gave no answer to %d orders in a row to switch the server %s", maxIgnored, a.want))
	}
	return a, ignoredError{fmt.Errorf("it took %d orders in a row to switch the server %s, and shows it %s", maxIgnored, a.want, shown)}
}
