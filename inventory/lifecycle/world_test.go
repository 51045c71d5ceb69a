// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// world simulates a physical host, its object, and everything that acts on them, with time in
// whole minutes. Walks drive it, and check (in invariants_test.go) verifies each step.
type world struct {
	rules ruleTable
	now   time.Time

	// host in the API server, and its previous version for stale reads.
	host, previous *infrav1.IngotHost
	gone           bool // the object is deleted

	// The manager's status.
	lastReset, softOffAt, lastContact time.Time
	// The manager's memory: since when the BMC accepts the boots of which order.
	bootOf string
	bootAt time.Time

	// The server: its real power state, its running system and its disk.
	power   bool
	running string // "", "os", "agent", "unknown client"
	disk    string // "" clean, else the instance of its data, or "old"
	started bool   // the running agent has opened its session
	spoke   time.Time
	// lag is the old state that the BMC reports after a power action; lie is one wrong "off".
	lag    infrav1.PowerState
	lagEnd time.Time
	lie    bool

	// The rest of the observation.
	bmc                                      BMCProblem
	powerUnknown, duplicate, mac, network    bool
	addressed, exhausted, machine, apiSilent bool
	osIgnoresSoftOff, bootBroken             bool
	imageBroken, imageRefused, wrongServer   bool
	deleting                                 bool

	fw firmwareWorld

	// media: Ingot's image is in the virtual drive. serverless: the manager knows no boot server.
	media, serverless bool
	// methods: operators and clusters use boot methods. Like the switches below, it is only set
	// in some walks, so that the other walks stay the same.
	methods bool

	// live: every second claim is for a live system; lives counts them.
	live  bool
	lives int

	// replugs: operators change the server's network and boot NIC.
	replugs bool

	// silences: whole networks become silent. silence is how many other hosts wait for their
	// agents then.
	silences bool
	silence  int

	// since is since when the host is reconciled. interrupts: pauses interrupt power cycles.
	since      time.Time
	interrupts bool

	// blinds: BMCs report off for servers that are on; blind: this one does. proof is the
	// manager's; proved is the purpose for which the host was really seen on or powered off.
	blinds, blind bool
	proof         OffProof
	proved        string

	// refusals: BMCs refuse shutdown requests; refused has the first and the last time.
	refusals, refusing bool
	refused            [2]time.Time

	// commands: operators give commands too early or too late. draining: the Machine of the
	// claim is being deleted.
	commands, draining bool
	// given are the last commands, and givenAt their time; carried has the times of commands
	// that were carried out.
	given   map[string]string
	givenAt time.Time
	carried map[string]time.Time

	// restores: the management cluster is restored from backups. saved is the backup; restored:
	// it was restored, when the instance user ran; watched is since when managers run without a
	// gap; node is the instance whose Node has reported, at nodeAt.
	restores, restored bool
	saved              *snapshot
	user, node         string
	watched, nodeAt    time.Time

	ids   int
	moves int
	trip  string // the first violation
	last  Decision

	decided func(*infrav1.IngotHost, Observation)
}

// walkPolicy is DefaultPolicy in whole minutes.
func walkPolicy() Policy {
	return Policy{SoftPowerOff: 3 * time.Minute, ShutdownPoll: time.Minute, AgentDeadline: 6 * time.Minute, ResetInterval: 2 * time.Minute, RetryMax: 5 * time.Minute, MaxAttempts: 3,
		ReadingAge: halfHour, DriftAge: 20 * time.Minute, UpdatePoll: time.Minute, UpdateRead: 3 * time.Minute,
		UpdateSilence: 8 * time.Minute, UpdateDeadline: 12 * time.Minute}
}

const lagTime = time.Minute // less than ResetInterval, as docs/field-notes.md says of real BMCs

func newWorld(l ruleTable) *world {
	w := &world{rules: l, now: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), machine: false, disk: "old", fw: firmwareWorld{setting: "a", version: "1"}}
	w.host = &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h1", UID: "object-0", Generation: 1}}
	w.host.Spec = infrav1.IngotHostSpec{
		BMC:            &infrav1.BMC{Address: "redfish://bmc", CredentialsRef: infrav1.LocalReference{Name: "bmc"}},
		BootMACAddress: "52:54:00:00:00:01",
		NetworkRef:     infrav1.NetworkReference{Name: "net"},
		Cleaning:       infrav1.CleaningMetadata,
	}
	w.previous = w.host
	return w
}

func (w *world) violate(format string, args ...any) {
	if w.trip == "" {
		w.trip = fmt.Sprintf(format, args...)
	}
}

func (w *world) id() string {
	w.ids++
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", w.ids)
}

// write changes the object as the API server would.
func (w *world) write(change func(*infrav1.IngotHost)) {
	w.previous = w.host
	w.host = w.host.DeepCopy()
	change(w.host)
	w.host.Generation++
}

func (w *world) annotate(name, value string) {
	w.write(func(h *infrav1.IngotHost) {
		if h.Annotations == nil {
			h.Annotations = map[string]string{}
		}
		h.Annotations[name] = value
	})
}

// move recreates the object in another management cluster, without status. A running agent
// still reports to the old one.
func (w *world) move() {
	w.loseStatus()
	w.managerEnds()
	w.moves++
	w.write(func(h *infrav1.IngotHost) { h.UID = types.UID(fmt.Sprintf("object-%d", w.moves)) })
	w.previous = w.host // the other cluster's object is not read here
	if w.running == "agent" {
		w.running, w.started = "unknown", false
	}
}

func (w *world) claim() *infrav1.HostClaim { return w.host.Spec.Claim }
func (w *world) order() *infrav1.HostOrder { return w.host.Spec.Order }

func (w *world) observe() Observation {
	obs := Observation{
		Now: w.now, NewID: w.id(), BMC: w.bmc, RetryAt: w.now.Add(time.Minute),
		LastReset: w.lastReset, SoftOffAt: w.softOffAt, LastContact: w.lastContact,
		BootMACMissing: w.mac, NetworkMissing: w.network, AddressRecorded: w.addressed, Deleting: w.deleting,
		BootServerUnknown: w.serverless, SilentPeers: w.silence, ShutdownRefused: w.refusedLong(), UnpausedAt: w.since, OffUnconfirmed: w.lie,
	}
	obs.LedgerSince = w.watched
	if w.wrongServer {
		obs.WrongServer = "serial number 2, where serial number 1 was inspected"
	}
	if w.duplicate {
		obs.DuplicateOf = "IngotHost metal/h2"
	}
	if w.exhausted && !w.addressed {
		obs.AddressProblem = "the range is full"
	}
	switch {
	case w.apiSilent || w.claim() == nil:
	case w.machine:
		obs.Machine, obs.MachineDeleting = MachineExists, w.draining
	default:
		obs.Machine = MachineMissing
	}
	obs.Power = w.tellPower()
	return obs
}

// decide calls Next, and again after a reading of the firmware.
func (w *world) decide(host *infrav1.IngotHost, obs *Observation) Decision {
	w.observeFirmware(host, obs)
	if w.decided != nil {
		defer func() { w.decided(host, *obs) }()
	}
	decision := nextBy(w.rules, host, *obs, walkPolicy())
	if _, ok := decision.Step.(ReadFirmware); !ok {
		return decision
	}
	w.check(host, *obs, decision)
	w.fw.looked = decision.Rule
	if w.fw.closed {
		w.fails(obs)
		return nextBy(w.rules, host, *obs, walkPolicy())
	}
	obs.Firmware = w.look(host)
	return nextBy(w.rules, host, *obs, walkPolicy())
}

func (w *world) tellPower() infrav1.PowerState {
	switch {
	case w.bmc != BMCOK || w.powerUnknown:
		return infrav1.PowerStateUnknown
	case w.blind:
		return infrav1.PowerStateOff
	case w.lie:
		w.lie = false
		return infrav1.PowerStateOff
	case w.lag != "" && w.now.Before(w.lagEnd):
		return w.lag
	case w.power:
		return infrav1.PowerStateOn
	default:
		return infrav1.PowerStateOff
	}
}

// reconcile is one reconcile of the host controller, which saves its state before power actions.
// With crash, the manager crashes after that.
func (w *world) reconcile(host *infrav1.IngotHost, crash bool) {
	if w.gone {
		return
	}
	obs := w.observe()
	w.prove(host, &obs)
	if order := host.Spec.Order; order != nil && order.ID == w.bootOf {
		obs.BootAcceptedAt = w.bootAt
	}
	if NeedsNode(host, obs) {
		obs.NodeHeard = w.nodeHeard(host)
	}
	decision := w.decide(host, &obs)
	w.last = decision
	w.check(host, obs, decision)
	if decision.RecordContact {
		w.lastContact = w.now
	}
	if obs.Power == infrav1.PowerStateOff || obs.Power == infrav1.PowerStateOn && !decision.ShutsDown {
		w.softOffAt, w.refused = time.Time{}, [2]time.Time{}
	}
	w.execute(host, decision, crash)
	if crash {
		w.managerEnds()
	}
	if !crash && !w.gone && host == w.host && !decision.KeepsConditions {
		w.tell(obs, decision)
	}
}

// tell saves the reported power state, and the condition Available if it changed.
func (w *world) tell(obs Observation, decision Decision) {
	if w.host.Status.Power != obs.Power {
		w.host = w.host.DeepCopy()
		w.host.Status.Power = obs.Power
	}
	for _, c := range Conditions(w.host, obs, decision) {
		told := w.host.Status.Conditions
		if c.Type != infrav1.HostAvailableCondition ||
			len(told) == 1 && told[0].Status == c.Status && told[0].ObservedGeneration == c.ObservedGeneration {
			continue
		}
		w.host = w.host.DeepCopy()
		w.host.Status.Conditions = []metav1.Condition{c}
	}
}

func (w *world) execute(host *infrav1.IngotHost, decision Decision, crash bool) {
	switch step := decision.Step.(type) {
	case SaveLedger:
		if host != w.host { // conflict: the read was stale
			return
		}
		w.write(func(h *infrav1.IngotHost) {
			step.Ledger.Apply(h)
			for _, name := range step.RemoveAnnotations {
				delete(h.Annotations, name)
			}
		})
	case RecordAddress:
		w.addressed = !w.exhausted
	case PowerOff:
		w.lastReset = w.now
		w.fw.forget()
		if step.Graceful && !crash {
			w.ask()
		}
		if !crash && !(step.Graceful && w.refusing) {
			w.proof, w.proved = w.proof.Ordered(host), offPurpose(w.host)
		}
		if !crash && !step.Graceful {
			w.switchTo(false, "")
		}
	case PowerOn:
		w.lastReset, w.softOffAt = w.now, time.Time{}
		w.fw.forget()
		if !crash && !w.power {
			w.switchTo(true, w.fromDisk())
		}
	case Restart:
		w.lastReset = w.now
		w.fw.forget()
		w.carries(infrav1.RebootAnnotation)
		w.write(func(h *infrav1.IngotHost) { inventory.TakeCommand(h, infrav1.RebootAnnotation) })
		if !crash {
			w.switchTo(true, w.fromDisk())
		}
	case BootAgent:
		w.lastReset, w.softOffAt = w.now, time.Time{}
		w.fw.forget()
		w.media = w.media || host.Spec.BootMethod == infrav1.BootMethodVirtualMedia
		if w.bootOf != host.Spec.Order.ID {
			w.bootOf, w.bootAt = host.Spec.Order.ID, w.now
		}
		if !crash && !w.power && !w.bootBroken {
			w.switchTo(true, "agent")
		}
	case EjectMedia:
		w.media = false
		if !crash && host == w.host {
			w.write(func(h *infrav1.IngotHost) { h.Spec.Record = WithoutMedia(h).Record })
		}
	case RemoveFinalizer:
		w.gone = true
	default:
		w.executeFirmware(host, decision.Step, crash)
	}
}

// ask requests a shutdown, which the BMC may refuse.
func (w *world) ask() {
	switch {
	case !w.refusing:
		w.softOffAt, w.refused = w.now, [2]time.Time{}
	case w.refused[0].IsZero():
		w.refused = [2]time.Time{w.now, w.now}
	default:
		w.refused[1] = w.now
	}
}

// refusedLong reports whether the BMC has refused all requests for Policy.SoftPowerOff.
func (w *world) refusedLong() bool {
	return !w.refused[0].IsZero() && w.refused[1].Sub(w.refused[0]) >= walkPolicy().SoftPowerOff
}

func (w *world) fromDisk() string {
	if w.disk == "" {
		return ""
	}
	return "os"
}

// switchTo changes the power. The BMC may report the old state for a while.
func (w *world) switchTo(on bool, running string) {
	w.lag, w.lagEnd = infrav1.PowerStateOff, w.now.Add(lagTime)
	if w.power {
		w.lag = infrav1.PowerStateOn
	}
	if w.power == on {
		w.lag = ""
	}
	w.power, w.running, w.started, w.blind = on, running, false, false
	if on {
		w.bootFirmware()
	}
}

// agentStep is the next step of the running agent, with an outcome. The session reads the host
// without a cache and refuses an outdated order (I5).
func (w *world) agentStep(outcome infrav1.OrderOutcome) {
	order := w.order()
	if order == nil || order.Result != nil || order.Revoked != nil || w.gone {
		w.switchTo(false, "") // the session refuses it, so it powers off
		return
	}
	w.lastContact, w.spoke = w.now, w.now
	if !w.started {
		if order.AgentKey != "" { // a second agent for the order: another key (I14)
			w.secondKey()
			return
		}
		w.started = true
		w.write(func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = "key" })
		return
	}
	w.work(order, outcome)
}

func (w *world) work(order *infrav1.HostOrder, outcome infrav1.OrderOutcome) {
	fits := order.Kind == infrav1.OrderInspect ||
		order.Kind == infrav1.OrderInstall && w.claim() != nil && w.claim().State == infrav1.ClaimProvisioning ||
		order.Kind == infrav1.OrderClean && (w.claim() == nil || !w.claim().FencedTime.IsZero())
	if !fits {
		w.switchTo(false, "")
		return
	}
	if order.Kind == infrav1.OrderInstall {
		w.disk = w.claim().InstanceID
	}
	if order.Kind == infrav1.OrderClean && outcome == infrav1.OrderSucceeded {
		w.disk = ""
	}
	if order.Kind == infrav1.OrderInstall && w.claim().Live != nil && order.LiveStartTime.IsZero() && outcome == infrav1.OrderSucceeded {
		w.write(func(h *infrav1.IngotHost) { h.Spec.Order.LiveStartTime = metav1.Time{Time: w.now} })
		return // its next step is the fetch of the live system
	}
	if order.Kind == infrav1.OrderInstall && outcome == infrav1.OrderSucceeded {
		w.write(func(h *infrav1.IngotHost) {
			ForgetRefusal(h)
			h.Spec.Claim.State, h.Spec.Order = infrav1.ClaimProvisioned, nil
			SpendApproval(h)
			h.Spec.Claim.ConfirmedTime = metav1.Time{Time: w.now}
		})
		w.running, w.started = "os", false
		return
	}
	result := &infrav1.OrderResult{Outcome: outcome, CompletionTime: metav1.Time{Time: w.now}}
	if outcome == infrav1.OrderFailed {
		result.Reason, result.Message = "WriteFailed", "input/output error"
	}
	if w.imageBroken && outcome == infrav1.OrderFailed && order.Kind == infrav1.OrderInstall {
		result.Reason, result.Message = agentapi.FailureImageUnavailable, "image is not available: HTTP status 404 Not Found"
	}
	if w.imageRefused && outcome == infrav1.OrderFailed && order.Kind == infrav1.OrderInstall {
		result.Reason, result.Message = agentapi.FailureDiskTooSmall, "40 GB of image, 32 GB of disk"
	}
	w.write(func(h *infrav1.IngotHost) {
		h.Spec.Order.Result = result
		RememberRefusal(h)
	})
}

// secondKey simulates another agent with the same token. After the start of a live system that
// is its reboot.
func (w *world) secondKey() {
	if order := w.order(); !order.LiveStartTime.IsZero() {
		w.write(func(h *infrav1.IngotHost) {
			result := LiveSystemFailed("rebooted", w.now)
			h.Spec.Order.Result = &result
		})
		return
	}
	w.write(func(h *infrav1.IngotHost) { h.Spec.Order.Revoked = new(bool); *h.Spec.Order.Revoked = true })
}

func sameLedger(a, b Ledger) bool { return ledgerKey(a) == ledgerKey(b) }

func ledgerKey(l Ledger) string {
	key, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	return string(key)
}
