// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/rules"
	"github.com/ingot-metal/ingot/test/needs"
)

// stats has the coverage of walks.
type stats struct {
	states, observations, transitions map[uint64]bool
	events, rules                     map[string]int
	rests                             int
	decided                           func(*infrav1.IngotHost, Observation) // called at each decision, if not nil
}

func newStats() *stats {
	return &stats{states: map[uint64]bool{}, observations: map[uint64]bool{}, transitions: map[uint64]bool{}, events: map[string]int{}, rules: map[string]int{}}
}

func digest(parts ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, parts...)
	return h.Sum64()
}

// state is a digest of the ledger and the server; observation, of the rest of the input.
func (w *world) state() uint64 {
	c, r, o := w.host.Spec.Claim, w.host.Spec.Record, w.host.Spec.Order
	var parts []any
	if c != nil {
		parts = append(parts, "claim", c.State, min(c.Attempt, 4), c.Cleaning, c.FencedTime.IsZero(), c.Quarantine != nil)
		if c.PowerCycle != nil {
			parts = append(parts, c.PowerCycle.State)
		}
	}
	if r != nil {
		parts = append(parts, "record", r.InspectedTime.IsZero(), r.CleaningDue, r.LastClusterName, r.Failures, quarantine(w.host))
	}
	if o != nil {
		parts = append(parts, "order", o.Kind, min(o.Attempt, 4), o.AgentKey, o.Revoked != nil, o.Result != nil, o.LiveStartTime.IsZero(), misplacedBoot(w.host))
	}
	parts = append(parts, w.firmwareState()...)
	return digest(append(parts, w.power, w.running, w.started, w.disk == "", w.host.Spec.Power, w.host.Spec.Maintenance != nil, len(w.host.Annotations), w.machine, w.gone)...)
}

func (w *world) observation() uint64 {
	age := func(t time.Time) int64 {
		if t.IsZero() {
			return -1
		}
		return min(int64(w.now.Sub(t)/time.Minute), 7)
	}
	return digest(w.bmc, w.powerUnknown, w.power, w.duplicate, w.mac, w.network, w.addressed, w.exhausted, w.machine, w.apiSilent, w.deleting,
		age(w.lastReset), age(w.softOffAt), age(w.lastContact))
}

// walk runs n random events, then lets the host settle. It returns the events and the first
// violation.
func walk(l ruleTable, seed uint64, n int, st *stats) (trail []string, violation string) {
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(l)
	if st != nil {
		w.decided = st.decided
	}
	all := events()
	quiet := seed%4 == 0 // every fourth walk has few faults, and gets further
	if seed%3 == 1 {     // the other walks stay without firmware
		w.startFirmware(seed)
		quiet = seed%5 != 0
	}
	w.methods = seed%6 == 2
	w.live = seed%10 < 4
	w.replugs = seed%9 == 4
	w.silences = seed%11 == 3
	w.commands = seed%12 == 7
	w.interrupts = seed%13 == 10
	w.refusals = seed%13 == 7
	w.blinds = seed%13 == 2
	w.refusing = w.refusals
	w.restores = seed%17 == 6
	for i := range n {
		if i > 10 {
			w.ending(seed % 24)
		}
		e := draw(random, all, w, quiet)
		var before uint64
		if st != nil {
			before = w.state()
		}
		trail = append(trail, e.name)
		e.do(w)
		if e.name == "reconcile" || e.name == "manager: stale read" {
			trail = append(trail, "  "+w.last.Rule)
		}
		if st != nil {
			st.visit(w, before, e.name)
		}
		if w.trip != "" || w.gone {
			return trail, w.trip
		}
	}
	switch seed % 7 {
	case 5:
		w.wantPower(infrav1.PowerIntentOff)
	case 6:
		w.wantPower(infrav1.PowerIntentOn)
		w.switchTo(false, "")
		w.lag = ""
	}
	return trail, w.rest(restMode(seed%5), st)
}

func (st *stats) visit(w *world, before uint64, name string) {
	after := w.state()
	st.states[after] = true
	st.observations[w.observation()] = true
	st.transitions[digest(before, name, after)] = true
	st.events[name]++
	st.rules[w.last.Rule]++
	if w.fw.looked != "" {
		st.rules[w.fw.looked]++
	}
}

func draw(random *rand.Rand, all []event, w *world, quiet bool) event {
	var allowed [160]int
	count, total := 0, 0
	for i, e := range all {
		if !e.when(w) || quiet && e.fault && random.IntN(8) > 0 {
			continue
		}
		allowed[count] = i
		count++
		total += e.weight
	}
	at := random.IntN(total)
	for _, i := range allowed[:count] {
		if at -= all[i].weight; at < 0 {
			return all[i]
		}
	}
	panic("unreachable: weights sum to total")
}

// ending adds rare combinations of an order with a deletion or a BMC fault to some walks.
func (w *world) ending(kind uint64) {
	w.endingOfMedia(kind)
	if w.order() == nil {
		w.endingOfUpdate(kind)
		return
	}
	switch kind {
	case 0: // a wrong report of off after the start of a live system
		if held(w.host) && w.machine && liveForLong(w) {
			w.lieOnce()
		}
	case 1:
		w.deleting = true
	case 2:
		w.deleting, w.powerUnknown = true, true
	case 3:
		w.deleting = true
		w.write(func(h *infrav1.IngotHost) { h.Spec.BMC = nil })
	case 4:
		w.deleting, w.duplicate = true, true
	case 5:
		if w.power && w.now.Before(w.lagEnd) {
			w.deleting = true
		}
	case 6: // released by force while the BMC reports the state before the boot
		if w.power && w.now.Before(w.lagEnd) && held(w.host) {
			w.deleteMachine()
			w.command(infrav1.ForceReleaseAnnotation)
		}
	case 7: // deleted while the BMC reports off after a message of the agent
		if agentWorks(w) && w.now.Before(w.lastContact.Add(walkPolicy().ResetInterval)) {
			w.deleting = true
			w.lieOnce()
		}
	case 12: // case 0 during a release
		if held(w.host) && liveForLong(w) {
			w.deleteMachine()
			w.lieOnce()
		}
	}
}

// endingOfUpdate is ending for a running or waiting firmware update.
func (w *world) endingOfUpdate(kind uint64) {
	if UpdateOf(w.host) == nil {
		return
	}
	switch running := w.fw.task == "running"; {
	case kind == 13 && running:
		w.deleting = true
	case kind == 19 && running:
		w.deleting, w.bmc = true, BMCUnreachable
	case kind == 22 && w.fw.task == "waits" && w.claim() == nil && w.bmc == BMCOK:
		w.cutByPerson()
	}
}

// cutByPerson powers the host on by hand, requests off until Ingot cuts its power, and then
// withdraws the request at once.
func (w *world) cutByPerson() {
	w.switchTo(true, "unknown")
	w.lag, w.osIgnoresSoftOff = "", true
	w.wantPower(infrav1.PowerIntentOff)
	for range 6 {
		if w.reconcile(w.host, false); w.trip != "" || !w.power {
			break
		}
		w.now = w.now.Add(time.Minute)
	}
	w.wantPower("")
	w.lag = "" // without delay
	w.reconcile(w.host, false)
}

// restMode is how agents and systems behave while the host settles.
type restMode uint64

const (
	restWell      restMode = iota // agents succeed, systems shut down
	restSilent                    // no agent ever speaks
	restNeverOn                   // the host never comes on
	restFailing                   // agents report failure
	restUnwilling                 // systems ignore the request to shut down
)

// rest ends faults and commands and lets time pass. The host must settle in a correct state.
func (w *world) rest(mode restMode, st *stats) string {
	w.bmc, w.powerUnknown, w.duplicate, w.mac, w.network, w.exhausted, w.apiSilent, w.wrongServer, w.serverless = BMCOK, false, false, false, false, false, false, false, false
	w.silence, w.blind = 0, false
	w.bootBroken = mode == restNeverOn
	w.osIgnoresSoftOff = mode == restUnwilling
	healthy := (mode == restWell || mode == restUnwilling) && w.order() == nil && quarantine(w.host) == ""
	obeyed := w.obeys()
	w.fw.closed, w.fw.rests = false, time.Time{}
	w.fw.forget() // so that changes since the last reading are seen
	still := 0
	for range 400 {
		before := w.pulse()
		w.restTurn(mode)
		if st != nil {
			st.rules[w.last.Rule]++
		}
		if w.trip != "" || w.gone {
			return w.trip
		}
		_, idle := w.last.Step.(Idle)
		if idle && before == w.pulse() {
			still++
		} else {
			still = 0
		}
		if still > 5 && w.leftUnclean(w.host) && !w.deleting { // an operator removes the broken host
			w.deleting, still = true, 0
			continue
		}
		if still > 5 {
			if st != nil {
				st.rests++
			}
			if q := quarantine(w.host); healthy && q != "" && q != infrav1.QuarantineNotFenced && q != infrav1.QuarantineHealthFailed {
				return "liveness: a host is quarantined whose agents all succeed: " + string(q)
			}
			if w.restored {
				return w.restRestored()
			}
			if w.mayHold() {
				return ""
			}
			return w.restedWell(mode, obeyed)
		}
	}
	return fmt.Sprintf("liveness: no rest in mode %d: %s %T %s", mode, w.last.Rule, w.last.Step, w.last.Message)
}

// pulse changes with any change of the world.
func (w *world) pulse() string {
	return fmt.Sprint(w.host.Generation, w.power, w.running, w.machine, w.pulseFirmware())
}

func (w *world) restTurn(mode restMode) {
	w.reconcile(w.host, false)
	w.reconcile(w.host, false)
	if agentRuns(w) && mode != restSilent {
		outcome := infrav1.OrderSucceeded
		if mode == restFailing {
			outcome = infrav1.OrderFailed
		}
		w.agentStep(outcome)
	}
	if w.power && !w.softOffAt.IsZero() && w.running != "agent" && !w.osIgnoresSoftOff {
		w.switchTo(false, "")
	}
	w.taskWorks()
	if w.fw.pushing != nil {
		w.endPush(false)
	}
	if w.machine && (w.claim() == nil || !w.claim().FencedTime.IsZero()) {
		w.machineLeaves()
	}
	w.now = w.now.Add(time.Minute)
}

// restedWell returns what is wrong with the settled state. Empty: nothing.
func (w *world) restedWell(mode restMode, obeyed bool) string {
	h := w.host
	bad := func(what string) string {
		return fmt.Sprintf("liveness: at rest in mode %d %s: %s: %s (%s)", mode, what, w.last.Rule, w.last.Message, ledgerKey(LedgerOf(h)))
	}
	wantedOff, wantedOn := h.Spec.Power == infrav1.PowerIntentOff, h.Spec.Power == infrav1.PowerIntentOn
	dangling := held(h) && !w.machine
	free := h.Spec.Claim == nil
	distrusted := held(h) && h.Spec.Claim.State == infrav1.ClaimProvisioning && w.distrusted(h)
	switch {
	case w.media && !dangling && !w.deleting && h.Spec.BMC != nil:
		return bad("with an image in the virtual drive")
	case w.deleting && w.leftUnclean(h) && h.Spec.BMC != nil:
		return mustBe(w.last.Reason == infrav1.ReasonDeleting, bad("a cleaning that failed is not told"))
	case w.deleting && (h.Spec.Claim == nil || w.asked(h, infrav1.ForceReleaseAnnotation) || !held(h) && h.Spec.BMC != nil && !wantedOff && !worksOn(h)):
		return bad("the object is never let go")
	case w.deleting, h.Spec.BMC == nil:
		return ""
	case dangling && w.asked(h, infrav1.ReleaseAnnotation):
		return bad("the release of a dangling claim is not heard")
	case dangling:
		return mustBe(w.last.Reason == infrav1.ReasonMachineNotFound, bad("a dangling claim is not told"))
	case w.asked(h, infrav1.RebootAnnotation):
		return bad("a reboot is not heard")
	case w.instancesApproved(h) && !w.duplicate:
		return bad("an approval of instances is not taken up")
	case !free && h.Spec.Claim.State == infrav1.ClaimProvisioned && IsPowerCycling(h.Spec.Claim) && !wantedOff && !worksOn(h):
		return bad("in the middle of a power cycle")
	case !free && h.Spec.Claim.State == infrav1.ClaimProvisioned:
		r := h.Spec.Record
		return mustBe((!wantedOff || !w.power) && (!wantedOn || w.power || worksOn(h)) && h.Spec.Order == nil && (r == nil || r.Failures == 0) && w.restedInUse(obeyed) == "", bad("provisioned "+w.restedInUse(obeyed)))
	case worksOn(h):
		return mustBe(w.last.Reason == infrav1.ReasonMaintenance, bad("in maintenance"))
	case quarantine(h) == infrav1.QuarantineNotFenced:
		return bad("never fenced")
	case quarantine(h) != "":
		return mustBe(!w.asked(h, infrav1.ClearQuarantineAnnotation) && w.last.Reason == infrav1.ReasonQuarantined, bad("a cleared quarantine lasts"))
	case wantedOff:
		return mustBe(!w.power && w.last.Reason == infrav1.ReasonPoweredOff, bad("not off though a person wants it off"))
	case distrusted:
		return mustBe(w.last.Reason == infrav1.ReasonBootNotVerified && (h.Spec.Order == nil || h.Spec.Order.AgentKey == ""), bad("a boot that is not verified is not told"))
	case free && w.power && !wantedOn, free && w.power && h.Spec.Record == nil:
		return mustBe(w.last.Reason == infrav1.ReasonPoweredOnUnexpectedly && !w.takeoverApproved(h), bad("on"))
	case free && (!wantedOn || w.power || mode == restNeverOn):
		prepared := w.restedPrepared(obeyed)
		return mustBe(prepared == "" && !w.takeoverApproved(h), bad("not as it should be: "+prepared))
	default:
		return bad("with work to do")
	}
}

// leftUnclean reports whether the cleaning has failed for good and no operator waived it.
func (w *world) leftUnclean(host *infrav1.IngotHost) bool {
	failed := quarantine(host) == infrav1.QuarantineInstallFailed || quarantine(host) == infrav1.QuarantineCleanFailed && host.Spec.Record.CleaningDue != ""
	return failed &&
		!w.asked(host, infrav1.ClearQuarantineAnnotation) && !w.asked(host, infrav1.ForceReleaseAnnotation)
}

func mustBe(so bool, otherwise string) string {
	if so {
		return ""
	}
	return otherwise
}

// walksApart is the stride through the seeds. The kind of a walk depends on its seed modulo small
// numbers (startFirmware and others), with which 23 has no common factor. So a sample has all
// kinds.
func walksApart() uint64 {
	if needs.IsFull() {
		return 1
	}
	return 23
}

// TestWalk runs walks and prints their coverage. The full run continues, up to the number of walks
// of TestMutants, until it has visited every event and every rule. A sample cannot.
func TestWalk(t *testing.T) {
	walks, length, every := uint64(5000), 120, walksApart()
	l, st := hostRules(), newStats()
	seed := uint64(0)
	for ; seed < walks || needs.IsFull() && seed < mutantWalks && len(unvisited(st)) > 0; seed += every {
		if trail, violation := walk(l, seed, length, st); violation != "" {
			t.Fatalf("walk %d: %s\nafter:\n%s", seed, violation, strings.Join(trail[max(0, len(trail)-40):], "\n"))
		}
	}
	if never := unvisited(st); needs.IsFull() && len(never) > 0 {
		t.Errorf("%d walks never came to %s", seed/every, strings.Join(never, ", "))
	}
	faults := 0
	for _, e := range events() {
		if e.fault {
			faults++
		}
	}
	t.Logf("walk: %d walks, %d states x %d observations x %d faults, %d transitions, %d rules decided, %d rests",
		seed/every, len(st.states), len(st.observations), faults, len(st.transitions), len(st.rules), st.rests)
}

// unvisited returns the events and rules that no walk visited.
func unvisited(st *stats) []string {
	var never []string
	for _, e := range events() {
		if st.events[e.name] == 0 {
			never = append(never, "the event "+e.name)
		}
	}
	for _, m := range rules.Mutants(hostRules()) {
		if m.Condition == "" && m.Leaf && st.rules[m.Rule] == 0 {
			never = append(never, "the rule "+m.Rule)
		}
	}
	return never
}
