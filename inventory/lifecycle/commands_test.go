// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

const (
	otherInstance = "6b1f6cb4-1f1a-4d0e-9a35-0f2b6a3c7d11"
	damagedMarker = "damaged-0123456789abcdef"
)

// givenAt is the value of a command.
func givenAt(at time.Time, arguments ...string) string {
	return strings.Join(append([]string{inventory.FormatTime(at)}, arguments...), ",")
}

// commanded is newScene's host with a command that was given just now.
func commanded(command string, change func(*scene), arguments ...string) scene {
	return newScene(func(s *scene) {
		s.host.Annotations = map[string]string{command: givenAt(day(), arguments...)}
		change(s)
	})
}

func claimedScene(state infrav1.ClaimState) func(*scene) {
	return func(s *scene) {
		s.host.Spec.Claim = claimOf(state)
		s.obs.Power = infrav1.PowerStateOn
	}
}

func quarantinedScene(reason infrav1.QuarantineReason) func(*scene) {
	return func(s *scene) {
		s.host.Spec.Record.Quarantine = &infrav1.Quarantine{Reason: reason, StartTime: metav1.Time{Time: day()}}
		s.obs.Power = infrav1.PowerStateOn
	}
}

func all(changes ...func(*scene)) func(*scene) {
	return func(s *scene) {
		for _, change := range changes {
			change(s)
		}
	}
}

// A command without use is removed with an explanation, so that it has no effect later.
func TestUnusableCommandsAreRemoved(t *testing.T) {
	const dropped = "command-dropped"
	force, dangling, lift := infrav1.ForceReleaseAnnotation, infrav1.ReleaseAnnotation, infrav1.ClearQuarantineAnnotation
	drains := func(s *scene) { s.obs.MachineDeleting = true }
	gone := func(s *scene) { s.obs.Machine = MachineMissing }
	silent := func(s *scene) { s.obs.Machine = MachineUnknown }
	bmcDead := func(s *scene) { s.obs.BMC = BMCUnreachable }
	twin := func(s *scene) { s.obs.DuplicateOf = "IngotHost metal/h2" }
	fenced := func(s *scene) { s.host.Spec.Claim = fencedClaim() }
	deleted := func(s *scene) { s.obs.Deleting = true }
	maintained := func(s *scene) { s.host.Spec.Maintenance = new(true) }
	for _, tc := range []struct {
		name, command string
		change        func(*scene)
		rule          string
		says          string
	}{
		{"force: the machine waits for the fence", force, claimedScene(infrav1.ClaimReleasing), "force-release", "released by force"},
		{"force: fenced a moment ago", force, fenced, dropped, "the power-off is already confirmed"},
		{"force: fenced, and the BMC died since", force, all(fenced, bmcDead), dropped, "the power-off is already confirmed"},
		{"force: no machine has the host", force, func(*scene) {}, dropped, "no machine uses"},
		{"force: to let an object go", force, deleted, "deleting/forced", ""},
		{"force: the machine stays", force, claimedScene(infrav1.ClaimProvisioned), dropped, "delete the Machine first"},
		{"force: the machine is being installed", force, claimedScene(infrav1.ClaimProvisioning), dropped, "delete the Machine first"},
		{"force: the Machine drains", force, all(claimedScene(infrav1.ClaimProvisioned), drains), "provisioned/idle", "No effect now"},
		{"force: the machine is missing", force, all(claimedScene(infrav1.ClaimProvisioned), gone), "dangling/wait", "No effect now"},
		{"force: whether there is a machine is not known", force, all(claimedScene(infrav1.ClaimProvisioned), silent), "provisioned/idle", "No effect now"},
		{"force: the machine stays, and there are two of the host", force, all(claimedScene(infrav1.ClaimProvisioned), twin), dropped, ""},
		{"dangling: the machine is missing", dangling, all(claimedScene(infrav1.ClaimProvisioned), gone), "dangling/release", ""},
		{"dangling: the machine came back", dangling, claimedScene(infrav1.ClaimProvisioned), dropped, "no IngotMachine is missing"},
		{"dangling: not known", dangling, all(claimedScene(infrav1.ClaimProvisioned), silent), "provisioned/idle", "No effect now"},
		{"dangling: released already", dangling, claimedScene(infrav1.ClaimReleasing), dropped, "no IngotMachine is missing"},
		{"dangling: no machine has the host", dangling, func(*scene) {}, dropped, "no IngotMachine is missing"},
		{"clear: quarantined", lift, quarantinedScene(infrav1.QuarantineInstallFailed), "free/cleared", ""},
		{"clear: quarantined, and a person works on it", lift, all(quarantinedScene(infrav1.QuarantineInstallFailed), maintained), "maintenance", ""},
		{"clear: not fenced", lift, quarantinedScene(infrav1.QuarantineNotFenced), dropped, "this quarantine ends when"},
		{"clear: well", lift, func(*scene) {}, dropped, "not quarantined"},
		{"clear: in use", lift, claimedScene(infrav1.ClaimProvisioned), dropped, "not quarantined"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := commanded(tc.command, tc.change, "by J. Doe")
			got := Next(s.host, s.obs, DefaultPolicy())
			if got.Rule != tc.rule || !strings.Contains(got.Message, tc.says) {
				t.Fatalf("%s: %q, want %s, saying %q", got.Rule, got.Message, tc.rule, tc.says)
			}
			if got.Rule != dropped {
				return
			}
			want := SaveLedger{Ledger: LedgerOf(s.host), RemoveAnnotations: []string{tc.command}}
			want.Ledger.Commands = []infrav1.HostCommand{{Name: inventory.ShortCommandName(tc.command), RequestTime: metav1.Time{Time: day()}}}
			if diff := cmp.Diff(want, got.Step); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
			if got.Reason != infrav1.ReasonAnnotationIgnored || got.Event != "Warning" || !got.KeepsConditions {
				t.Errorf("told as %s %s, aside %t", got.Event, got.Reason, got.KeepsConditions)
			}
		})
	}
}

// Several unusable commands are removed in one step, and usable ones stay.
func TestUnusableCommandsAreRemovedTogether(t *testing.T) {
	s := newScene(quarantinedScene(infrav1.QuarantineInstallFailed))
	s.host.Annotations = map[string]string{
		infrav1.ForceReleaseAnnotation: givenAt(day()), infrav1.ReleaseAnnotation: givenAt(day()), infrav1.ClearQuarantineAnnotation: givenAt(day()), infrav1.ApproveAnnotation: givenAt(day()),
	}
	save, ok := Next(s.host, s.obs, DefaultPolicy()).Step.(SaveLedger)
	if want := []string{infrav1.ForceReleaseAnnotation, infrav1.ReleaseAnnotation}; !ok || !slices.Equal(save.RemoveAnnotations, want) {
		t.Errorf("%+v, want %v removed", save, want)
	}
}

// A command that becomes unusable while another is carried out is removed in the next step, before a
// machine can claim the host.
func TestForceReleaseLeavesNoCommand(t *testing.T) {
	s := newScene(claimedScene(infrav1.ClaimReleasing))
	s.host.Annotations = map[string]string{infrav1.ForceReleaseAnnotation: givenAt(day()), infrav1.ReleaseAnnotation: givenAt(day())}
	for _, step := range []struct {
		rule    string
		removed []string
	}{
		{"force-release", []string{infrav1.ForceReleaseAnnotation}},
		{"command-dropped", []string{infrav1.ReleaseAnnotation}},
	} {
		got := Next(s.host, s.obs, DefaultPolicy())
		save, ok := got.Step.(SaveLedger)
		if got.Rule != step.rule || !ok {
			t.Fatalf("%s: %+v, want %s", got.Rule, got.Step, step.rule)
		}
		if diff := cmp.Diff(step.removed, save.RemoveAnnotations); diff != "" {
			t.Fatalf("%s: removed (-want +got):\n%s", got.Rule, diff)
		}
		save.Ledger.Apply(s.host)
		for _, name := range save.RemoveAnnotations {
			delete(s.host.Annotations, name)
		}
		if ok, why := IsClaimable(s.host); ok {
			t.Errorf("after %s the host may be claimed: %q", step.rule, why)
		}
	}
}

// The next machine of a host is fenced, whatever was requested during the last release.
func TestForceReleaseDoesNotAffectNextMachine(t *testing.T) {
	s := commanded(infrav1.ForceReleaseAnnotation, func(s *scene) { s.host.Spec.Claim = fencedClaim() })
	if ok, why := IsClaimable(newScene(func(s *scene) { s.host.Annotations = map[string]string{infrav1.ForceReleaseAnnotation: givenAt(day())} }).host); ok || !strings.Contains(why, "command") {
		t.Errorf("a machine would inherit the force: %q", why)
	}
	save := Next(s.host, s.obs, DefaultPolicy()).Step.(SaveLedger)
	for _, name := range save.RemoveAnnotations {
		delete(s.host.Annotations, name)
	}
	s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimReleasing), infrav1.PowerStateOn
	if got := Next(s.host, s.obs, DefaultPolicy()); got.Rule != "releasing/off-ask" {
		t.Errorf("the next release is answered by %s", got.Rule)
	}
}

// The approval of an instance's disk is stored at once, until the disks are written. It powers no
// server off.
func TestApprovedInstanceIsKeptInLedger(t *testing.T) {
	on := func(s *scene) { s.obs.Power = infrav1.PowerStateOn }
	due := func(s *scene) { s.host.Spec.Record.CleaningDue = infrav1.CleaningMetadata }
	wantedOn := func(s *scene) { s.host.Spec.Power = infrav1.PowerIntentOn }
	one, both := []string{otherInstance}, []string{otherInstance, damagedMarker}
	for _, tc := range []struct {
		name, value string
		change      func(*scene)
		rule        string
		approved    []string
		then        string
	}{
		{"off", otherInstance, func(*scene) {}, "instances-approved", one, "start/available"},
		{"off, two", otherInstance + ", " + damagedMarker, func(*scene) {}, "instances-approved", both, "start/available"},
		{"as people type it", " " + strings.ToUpper(otherInstance), func(*scene) {}, "instances-approved", one, "start/available"},
		{"a cleaning is due", otherInstance, due, "instances-approved", one, "start/order"},
		{"in use", otherInstance, claimedScene(infrav1.ClaimProvisioned), "instances-approved", one, "provisioned/idle"},
		{"found on", otherInstance, on, "instances-approved", one, "free/unexpectedly-on"},
		{"found on, an instance and a slip", otherInstance + ",yes", on, "free/unexpectedly-on", nil, ""},
		{"off, without one", "", func(*scene) {}, "free/approval-spent", nil, "start/available"},
		{"wanted on, without one", "", all(on, wantedOn), "free/approval-spent", nil, "start/available"},
		{"found on, without one", "", on, "free/approved-off-ask", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := commanded(infrav1.ApproveAnnotation, tc.change)
			if tc.value != "" {
				s.host.Annotations[infrav1.ApproveAnnotation] += "," + tc.value
			}
			got := Next(s.host, s.obs, DefaultPolicy())
			if got.Rule != tc.rule {
				t.Fatalf("%s: %q, want %s", got.Rule, got.Message, tc.rule)
			}
			save, saves := got.Step.(SaveLedger)
			if !saves {
				return
			}
			save.Ledger.Apply(s.host) // and the annotation is set again, as from a repository
			if diff := cmp.Diff(tc.approved, ApprovedInstances(s.host)); diff != "" {
				t.Errorf("approved (-want +got):\n%s", diff)
			}
			if got := Next(s.host, s.obs, DefaultPolicy()); got.Rule != tc.then {
				t.Errorf("then %s: %q, want %s", got.Rule, got.Message, tc.then)
			}
		})
	}
	t.Run("wiped", func(t *testing.T) {
		s := newScene(func(s *scene) {
			due(s)
			s.host.Spec.Commands = []infrav1.HostCommand{{Name: "approve", RequestTime: metav1.Time{Time: day()}, InstanceIDs: both}}
			s.host.Spec.Order = orderOf(infrav1.OrderClean)
			s.host.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.Time{Time: day()}}
		})
		save, ok := Next(s.host, s.obs, DefaultPolicy()).Step.(SaveLedger)
		want := []infrav1.HostCommand{{Name: "approve", RequestTime: metav1.Time{Time: day()}}}
		if diff := cmp.Diff(want, save.Ledger.Commands); !ok || diff != "" {
			t.Errorf("the approval outlives what it was for (-want +got):\n%s", diff)
		}
	})
}

// A host that is deleted during its release is fenced and cleaned first.
func TestReleaseContinuesDuringDeletion(t *testing.T) {
	deleted := func(s *scene) { s.obs.Deleting = true }
	off := func(s *scene) { s.obs.Power, s.obs.OffProven = infrav1.PowerStateOff, true }
	fenced := func(s *scene) { s.host.Spec.Claim = fencedClaim() }
	uncleaned := func(s *scene) {
		s.host.Spec.Claim = fencedClaim()
		s.host.Spec.Claim.Cleaning = infrav1.CleaningNone
	}
	for _, tc := range []struct {
		name   string
		change func(*scene)
		rule   string
	}{
		{"on", claimedScene(infrav1.ClaimReleasing), "releasing/off-ask"},
		{"off", all(claimedScene(infrav1.ClaimReleasing), off), "releasing/fenced"},
		{"fenced", fenced, "start/order"},
		{"nothing to clean", uncleaned, "releasing/nothing-to-clean"},
		{"cleaned", func(*scene) {}, "deleting/forget"},
		{"in use", claimedScene(infrav1.ClaimProvisioned), "deleting/claimed"},
		{"being installed", claimedScene(infrav1.ClaimProvisioning), "deleting/claimed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(all(tc.change, deleted))
			if got := Next(s.host, s.obs, DefaultPolicy()); got.Rule != tc.rule {
				t.Errorf("%s: %s, want %s", got.Rule, got.Message, tc.rule)
			}
		})
	}
}

// After a start of the manager, agents get time to report.
func TestSilenceCountsFromFirstReconcile(t *testing.T) {
	policy := DefaultPolicy()
	for _, tc := range []struct {
		name                 string
		contact, began, want time.Duration // before now; want: from now
		silent               bool
	}{
		{"at work all the time", time.Minute, time.Hour, policy.AgentDeadline - time.Minute, false},
		{"silent all the time", time.Hour, time.Hour, 0, true},
		{"began a moment ago", time.Hour, time.Second, policy.RetryMax - time.Second, false},
		{"began a moment ago, and the agent spoke after it", 0, time.Second, policy.AgentDeadline, false},
		{"began, and had its time", time.Hour, policy.RetryMax, 0, true},
		{"not known when", time.Hour, -1, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Order, s.obs.Power = orderOf(infrav1.OrderInspect), infrav1.PowerStateOn
				s.host.Spec.Order.CreationTime = metav1.Time{Time: day().Add(-2 * time.Hour)}
				s.obs.LastContact = day().Add(-tc.contact)
				if tc.began >= 0 {
					s.obs.ListeningSince = day().Add(-tc.began)
				}
			})
			got := Next(s.host, s.obs, policy)
			if tc.silent {
				if got.Rule != "order/silent" {
					t.Errorf("%s: %s", got.Rule, got.Message)
				}
				return
			}
			if diff := cmp.Diff(fmt.Sprint(Wait{Until: day().Add(tc.want)}), fmt.Sprint(got.Step)); diff != "" {
				t.Errorf("%s: %s", got.Rule, diff)
			}
		})
	}
}

// A host is not at fault for boots that its BMC refused, for the time before the BMC accepted the boot,
// or after a restart of the manager, which boots once more.
func TestNeverOnCountsFromAcceptedBoot(t *testing.T) {
	policy := DefaultPolicy()
	for name, tc := range map[string]struct {
		taken time.Duration // before now; 0: none is known
		want  string
	}{
		"none was taken":            {0, "start/boot"},
		"taken a moment ago":        {31 * time.Second, "start/boot"},
		"taken nearly its time ago": {policy.AgentDeadline - time.Second, "start/boot"},
		"had its time":              {policy.AgentDeadline, "order/retry"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Order, s.obs.Power = orderOf(infrav1.OrderInspect), infrav1.PowerStateOff
				s.host.Spec.Order.CreationTime = metav1.Time{Time: day().Add(-time.Hour)}
				s.obs.LastReset = day().Add(-policy.ResetInterval)
				if tc.taken > 0 {
					s.obs.BootAcceptedAt = day().Add(-tc.taken)
				}
			})
			if got := Next(s.host, s.obs, policy); got.Rule != tc.want {
				t.Errorf("%s: %s, want %s", got.Rule, got.Message, tc.want)
			}
		})
	}
}

// After a forced release the system may still use the addresses of its claim.
func TestForcedReleaseKeepsAddresses(t *testing.T) {
	s := commanded(infrav1.ForceReleaseAnnotation, claimedScene(infrav1.ClaimReleasing))
	s.host.Spec.Claim.Network = &infrav1.ClaimedNetwork{Config: "version: 2", Addresses: []string{"10.10.0.10", "2001:db8::1"}}
	save, ok := Next(s.host, s.obs, DefaultPolicy()).Step.(SaveLedger)
	if !ok || save.Ledger.Record.Quarantine == nil {
		t.Fatalf("not released by force: %+v", save)
	}
	if diff := cmp.Diff([]string{"10.10.0.10", "2001:db8::1"}, save.Ledger.Record.Quarantine.Addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	s.host.Annotations, s.obs.OffProven = nil, true
	s.host.Spec.Claim, s.host.Spec.Record, s.obs.Power = nil, save.Ledger.Record, infrav1.PowerStateOff
	save, ok = Next(s.host, s.obs, DefaultPolicy()).Step.(SaveLedger)
	if !ok || save.Ledger.Record.Quarantine != nil {
		t.Errorf("%+v: the addresses of a server that is off are kept", save)
	}
}

// A command has an effect once, within an hour of its time, and none after a start of the manager or a
// restore from a backup (I24).
func TestCommandHasEffectOnce(t *testing.T) {
	now := day()
	reboot := func(value string) func(*scene) {
		return func(s *scene) {
			claimedScene(infrav1.ClaimProvisioned)(s)
			s.host.Annotations = map[string]string{infrav1.RebootAnnotation: value}
		}
	}
	done := func(at time.Time) func(*scene) {
		return func(s *scene) {
			s.host.Spec.Commands = []infrav1.HostCommand{{Name: "reboot", RequestTime: metav1.Time{Time: at}}}
		}
	}
	began := func(at time.Time) func(*scene) { return func(s *scene) { s.obs.ListeningSince = at } }
	restart, dropped := "provisioned/restart", "command-dropped"
	for _, tc := range []struct {
		name   string
		change func(*scene)
		rule   string
		says   string
	}{
		{"just now", reboot(givenAt(now)), restart, "asks the system"},
		{"forced", reboot(givenAt(now, inventory.RebootForced)), restart, "cuts the power"},
		{"in another zone", reboot(now.In(time.FixedZone("", 3600)).Format(time.RFC3339)), restart, ""},
		{"nearly an hour ago", reboot(givenAt(now.Add(time.Second - inventory.CommandLifetime))), restart, ""},
		{"an hour ago", reboot(givenAt(now.Add(-inventory.CommandLifetime))), dropped, "expired"},
		{"by a clock that is ahead", reboot(givenAt(now.Add(inventory.CommandSkew))), restart, ""},
		{"in the future", reboot(givenAt(now.Add(inventory.CommandSkew + time.Second))), dropped, "future"},
		{"carried out", all(reboot(givenAt(now)), done(now)), "provisioned/idle", ""},
		{"carried out, with a fraction of a second", all(reboot("2026-03-04T05:06:07.9Z"), done(now)), "provisioned/idle", ""},
		{"earlier than the last", all(reboot(givenAt(now.Add(-time.Minute))), done(now)), "provisioned/idle", ""},
		{"later than the last", all(reboot(givenAt(now)), done(now.Add(-time.Second))), restart, ""},
		{"while the manager restarts", all(reboot(givenAt(now.Add(-time.Minute))), began(now)), restart, ""},
		{"restored, with the manager started since", all(reboot(givenAt(now.Add(-10*time.Minute))), began(now)), dropped, "before the start of the manager"},
		{"empty", reboot(""), "provisioned/idle", "reboot (invalid value)"},
		{"as it was before", reboot("Forced"), "provisioned/idle", "reboot (invalid value)"},
		{"another way", reboot(givenAt(now, "forced")), "provisioned/idle", "reboot (invalid value)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(tc.change)
			got := Next(s.host, s.obs, DefaultPolicy())
			if got.Rule != tc.rule || !strings.Contains(got.Message, tc.says) || tc.says == "" && strings.Contains(got.Message, "No effect now") {
				t.Fatalf("%s: %q, want %s, saying %q", got.Rule, got.Message, tc.rule, tc.says)
			}
			save, saves := got.Step.(SaveLedger)
			if !saves {
				return
			}
			save.Ledger.Apply(s.host) // and the annotation is set again, as from a repository
			if tc.says == "future" {
				if len(s.host.Spec.Commands) > 0 {
					t.Errorf("a command of the future outdates all others: %+v", s.host.Spec.Commands)
				}
				return
			}
			if got := Next(s.host, s.obs, DefaultPolicy()); got.Rule != "provisioned/idle" {
				t.Errorf("set again, %s: %q", got.Rule, got.Message)
			}
		})
	}
}

// The user of a command is the one that the webhook recorded for its value.
func TestCommandUsers(t *testing.T) {
	host := func(annotations map[string]string) *infrav1.IngotHost {
		return &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	}
	first := host(map[string]string{infrav1.RebootAnnotation: givenAt(day()), infrav1.CommandsGivenByAnnotation: `{"reboot":{"value":"x","user":"mallory"}}`})
	inventory.RecordCommandUsers(nil, first, "alice")
	if got := inventory.CommandUser(first, infrav1.RebootAnnotation); got != "alice" {
		t.Errorf("the reboot is %q's", got)
	}
	second := first.DeepCopy()
	second.Annotations[infrav1.InspectAnnotation] = givenAt(day())
	second.Annotations[infrav1.CommandsGivenByAnnotation] = "{}"
	inventory.RecordCommandUsers(first, second, "bob")
	if got := inventory.CommandUser(second, infrav1.RebootAnnotation) + inventory.CommandUser(second, infrav1.InspectAnnotation); got != "alicebob" {
		t.Errorf("reboot and inspect are %q's", got)
	}
	second.Annotations[infrav1.RebootAnnotation] = givenAt(day().Add(time.Second)) // past the webhook
	if got := inventory.CommandUser(second, infrav1.RebootAnnotation); got != "" {
		t.Errorf("another reboot is %q's", got)
	}
	inventory.TakeCommand(second, infrav1.InspectAnnotation)
	if diff := cmp.Diff([]infrav1.HostCommand{{Name: "inspect", RequestTime: metav1.Time{Time: day()}, User: "bob"}}, second.Spec.Commands); diff != "" {
		t.Errorf("carried out (-want +got):\n%s", diff)
	}
	delete(second.Annotations, infrav1.RebootAnnotation)
	inventory.RecordCommandUsers(second.DeepCopy(), second, "manager")
	if _, left := second.Annotations[infrav1.CommandsGivenByAnnotation]; left {
		t.Errorf("users of no commands: %v", second.Annotations)
	}
}
