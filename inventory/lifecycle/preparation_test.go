// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// wishing is an inspected host, free and off, that is to have the setting S at "b".
func wishing(changes ...func(*scene)) scene {
	return newScene(func(s *scene) {
		s.host.Spec.BIOS = &infrav1.BIOSConfiguration{Settings: map[string]string{"S": "b"}, Apply: infrav1.BIOSBeforeProvisioning}
		for _, change := range changes {
			change(s)
		}
	})
}

// reads gives the scene a reading of a minute ago: the value of S now, and at the next
// boot. It comes after what changes the question.
func reads(now, next string) func(*scene) {
	return func(s *scene) {
		s.obs.Firmware = &FirmwareReading{At: day(), Key: ReadingKey(s.host), Versions: map[string]string{}, Settings: []SettingReading{
			{Name: "S", Wanted: "b", Value: now, Pending: next, InForce: now == "b", Next: next == "b"},
		}}
	}
}

// hasVersion is a host that is to have BIOS 2, and tells the version.
func hasVersion(version string) func(*scene) {
	return func(s *scene) {
		s.host.Spec.BIOS = nil
		s.host.Spec.Firmware = []infrav1.FirmwareComponent{{Component: "BIOS", Version: "2", URL: "http://images.example/2"}}
		s.obs.Firmware = &FirmwareReading{At: day(), Key: ReadingKey(s.host), Versions: map[string]string{"BIOS": version}, Ways: UpdateWays{Fetch: true}}
	}
}

// preparing sets the record's preparation for the present wishes.
func preparing(change func(*infrav1.HostPreparation)) func(*scene) {
	return func(s *scene) {
		s.host.Spec.Record.Preparation = &infrav1.HostPreparation{SettingsHash: DesiredDigest(s.host)}
		change(s.host.Spec.Record.Preparation)
	}
}

// refusing has the reading refuse, and those of so long before it, too.
func refusing(before time.Duration) func(*scene) {
	return func(s *scene) {
		s.obs.Firmware.RefusedReason, s.obs.Firmware.Refused = infrav1.ReasonSettingsRejected, "no such setting"
		s.obs.Firmware.RefusedSince = s.obs.Firmware.At.Add(-before)
	}
}

func attempted(n int32) func(*scene) {
	return preparing(func(p *infrav1.HostPreparation) { p.Attempt = n })
}

// since is an update that began so long ago, with what its task tells.
func since(age time.Duration, state UpdateProgress) func(*scene) {
	return func(s *scene) {
		preparing(func(p *infrav1.HostPreparation) {
			p.Update = &infrav1.FirmwareUpdate{Component: "BIOS", Version: "2", StartTime: metav1.Time{Time: day().Add(-age)}, State: infrav1.UpdateAccepted, TaskID: "t"}
		})(s)
		s.obs.Update = UpdateTask{State: state, Percent: 40, Message: "words"}
	}
}

// pushed is an image that was on its way to the BMC so long ago.
func pushed(age time.Duration, state UpdateProgress) func(*scene) {
	return func(s *scene) {
		since(age, state)(s)
		update := s.host.Spec.Record.Preparation.Update
		update.State, update.Delivery, update.TaskID = infrav1.UpdateRequested, infrav1.DeliveryPush, ""
	}
}

// cutOff is one whose push ended without an answer so long ago.
func cutOff(age time.Duration) func(*scene) {
	return func(s *scene) {
		pushed(age, UpdateUnknown)(s)
		s.host.Spec.Record.Preparation.Update.State = infrav1.UpdateInterrupted
	}
}

func inspectedSince(s *scene) { s.host.Spec.Record.InspectedTime = metav1.Time{Time: day()} }

func TestPrepare(t *testing.T) {
	inUse := func(s *scene) {
		s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimProvisioned), infrav1.PowerStateOn
	}
	atReboot := func(s *scene) { s.host.Spec.BIOS.Apply = infrav1.BIOSAtNextReboot }
	ordered := func(s *scene) { s.host.Spec.Order = orderOf(infrav1.OrderInspect) }
	deleted := func(s *scene) { s.obs.Deleting = true }
	puts := func(s *scene) {
		s.obs.FirmwareRetryAt, s.obs.FirmwareProblem = day().Add(time.Minute), "500 Internal Server Error"
	}
	held := func(s *scene) { s.host.Spec.Claim = claimOf(infrav1.ClaimProvisioning) }
	released := func(s *scene) { s.host.Spec.Claim = fencedClaim() }
	for _, tc := range []struct {
		name   string
		scene  scene
		rule   string
		step   string // its type
		reason string
	}{
		{"nothing was read yet", wishing(), "prepare/read", "ReadFirmware", infrav1.ReasonPreparing},
		{"read for other wishes", wishing(reads("b", "b"), func(s *scene) { s.host.Spec.BIOS.Settings["S"] = "c" }), "prepare/read", "ReadFirmware", infrav1.ReasonPreparing},
		{"read a day ago", wishing(reads("b", "b"), preparing(func(p *infrav1.HostPreparation) { p.Outcome = infrav1.PreparationApplied }),
			func(s *scene) { s.obs.Firmware.At = day().Add(-24 * time.Hour) }), "prepare/read", "ReadFirmware", infrav1.ReasonPreparing},
		{"all in force", wishing(reads("b", "b")), "prepare/in-force", "SaveLedger", infrav1.ReasonPreparing},
		{"all in force, and known to be", wishing(reads("b", "b"), preparing(func(p *infrav1.HostPreparation) { p.Outcome = infrav1.PreparationApplied })),
			"start/available", "Idle", infrav1.ReasonAvailable},
		{"a setting is missing", wishing(reads("a", "a")), "prepare/write", "WriteSettings", infrav1.ReasonPreparing},
		{"a boot would lose a setting", wishing(reads("b", "a")), "prepare/write", "WriteSettings", infrav1.ReasonPreparing},
		{"written, and not seen", wishing(reads("a", "a"), func(s *scene) { s.obs.Firmware.Tried = true }), "prepare/boot", "SaveLedger", infrav1.ReasonPreparing},
		{"pending", wishing(reads("a", "b")), "prepare/boot", "SaveLedger", infrav1.ReasonPreparing},
		{"pending, before the boot that was ordered", wishing(ordered, reads("a", "b")), "start/boot", "BootAgent", infrav1.ReasonInspecting},
		{"missing, before the boot that was ordered", wishing(ordered, reads("a", "a")), "prepare/write", "WriteSettings", infrav1.ReasonInspecting},
		{"three boots did not help", wishing(reads("a", "a"), attempted(3)), "prepare/spent", "SaveLedger", infrav1.ReasonSettingsNotApplied},
		{"given up", wishing(reads("a", "a"), preparing(func(p *infrav1.HostPreparation) {
			p.Outcome, p.Reason, p.Message = infrav1.PreparationFailed, infrav1.ReasonSettingsNotApplied, "no"
		})), "start/given-up", "Idle", infrav1.ReasonSettingsNotApplied},
		{"given up, and then mended", wishing(reads("b", "b"), preparing(func(p *infrav1.HostPreparation) { p.Outcome = infrav1.PreparationFailed })),
			"prepare/in-force", "SaveLedger", infrav1.ReasonPreparing},
		{"refused", wishing(reads("a", "a"), func(s *scene) {
			s.obs.Firmware.RefusedReason, s.obs.Firmware.Refused = infrav1.ReasonSettingsRejected, "no such setting"
		}), "prepare/refused", "SaveLedger", infrav1.ReasonSettingsRejected},
		{"refused by one reading", wishing(reads("a", "a"), refusing(0)), "prepare/refused-once", "Wait", infrav1.ReasonPreparing},
		{"refused by one reading, of a host that is wanted on", wishing(reads("a", "a"), refusing(0), preparing(func(p *infrav1.HostPreparation) { p.Outcome = infrav1.PreparationApplied }), func(s *scene) {
			s.host.Spec.Power, s.obs.Power = infrav1.PowerIntentOn, infrav1.PowerStateOn
		}), "prepare/refused-once", "Wait", infrav1.ReasonPreparing},
		{"refused by one reading, a while ago", wishing(reads("a", "a"), refusing(0), func(s *scene) {
			s.obs.Firmware.At, s.obs.Firmware.RefusedSince = day().Add(-5*time.Minute), day().Add(-5*time.Minute)
		}), "prepare/read", "ReadFirmware", infrav1.ReasonPreparing},
		{"refused by two readings", wishing(reads("a", "a"), refusing(5*time.Minute)), "prepare/refused", "SaveLedger", infrav1.ReasonSettingsRejected},
		{"given up, and refused anew", wishing(reads("a", "a"), refusing(0), func(s *scene) {
			s.obs.Firmware.At, s.obs.Firmware.RefusedSince = day().Add(-5*time.Minute), day().Add(-5*time.Minute)
		}, preparing(func(p *infrav1.HostPreparation) {
			p.Outcome, p.Reason, p.Message = infrav1.PreparationFailed, infrav1.ReasonSettingsRejected, "no"
		})), "start/given-up", "Idle", infrav1.ReasonSettingsRejected},
		{"drift of a host that is wanted on", wishing(reads("a", "a"), preparing(func(p *infrav1.HostPreparation) { p.Outcome = infrav1.PreparationApplied }), func(s *scene) {
			s.host.Spec.Power, s.obs.Power = infrav1.PowerIntentOn, infrav1.PowerStateOn
		}), "prepare/lost", "SaveLedger", infrav1.ReasonPreparing},

		{"cannot be read", wishing(puts), "prepare/put-off", "Wait", infrav1.ReasonPreparing},
		{"cannot be read, and may be again", wishing(puts, func(s *scene) { s.obs.FirmwareRetryAt = day() }), "prepare/read", "ReadFirmware", infrav1.ReasonPreparing},
		{"cannot be read any more", wishing(puts, preparing(func(p *infrav1.HostPreparation) { p.Outcome = infrav1.PreparationApplied })), "prepare/put-off", "Wait", infrav1.ReasonPreparing},
		{"cannot be written", wishing(reads("a", "a"), puts), "prepare/put-off", "Wait", infrav1.ReasonPreparing},
		{"cannot be read, not inspected yet", wishing(puts, func(s *scene) { s.host.Spec.Record = nil }), "start/order", "SaveLedger", infrav1.ReasonInspecting},
		{"cannot be read, ordered", wishing(ordered, puts), "start/boot", "BootAgent", infrav1.ReasonInspecting},
		{"cannot be written, ordered", wishing(ordered, reads("a", "a"), puts), "start/boot", "BootAgent", infrav1.ReasonInspecting},
		{"cannot be read, claimed", wishing(held, puts), "start/order", "SaveLedger", infrav1.ReasonProvisioning},
		{"cannot be written, claimed", wishing(held, reads("a", "a"), puts), "start/order", "SaveLedger", infrav1.ReasonProvisioning},
		{"cannot be read, released", wishing(released, puts), "start/order", "SaveLedger", infrav1.ReasonCleaning},
		{"cannot be read, and an update may be at work", wishing(hasVersion("1"), since(time.Minute, UpdateUnknown), puts, func(s *scene) { s.obs.Firmware = nil }),
			"updating/wait", "Wait", infrav1.ReasonUpdatingFirmware},

		{"in use: cannot be read", wishing(inUse, puts), "provisioned/idle", "Idle", infrav1.ReasonProvisioned},
		{"in use: cannot be written", wishing(inUse, atReboot, reads("a", "a"), puts), "provisioned/idle", "Idle", infrav1.ReasonProvisioned},
		{"in use: read", wishing(inUse), "provisioned/read", "ReadFirmware", infrav1.ReasonProvisioned},
		{"in use: boots", wishing(inUse, func(s *scene) { s.obs.LastReset = day().Add(-time.Minute) }), "provisioned/unread", "Wait", infrav1.ReasonProvisioned},
		{"in use: drift", wishing(inUse, reads("a", "a")), "provisioned/idle", "Idle", infrav1.ReasonProvisioned},
		{"in use: asked for", wishing(inUse, atReboot, reads("a", "a")), "provisioned/write", "WriteSettings", infrav1.ReasonProvisioned},
		{"in use: pending", wishing(inUse, atReboot, reads("a", "b")), "provisioned/idle", "Idle", infrav1.ReasonProvisioned},
		{"in use: asked for three times", wishing(inUse, atReboot, reads("a", "a"), attempted(3)), "provisioned/idle", "Idle", infrav1.ReasonProvisioned},

		{"an old version", wishing(hasVersion("1")), "prepare/update-start", "StartUpdate", infrav1.ReasonUpdatingFirmware},
		{"an old version, read a minute ago", wishing(hasVersion("1"), func(s *scene) { s.obs.Firmware.At = day().Add(-time.Minute) }), "prepare/look", "ReadFirmware", infrav1.ReasonPreparing},
		{"an old version on a claimed host", wishing(hasVersion("1"), inUse), "provisioned/idle", "Idle", infrav1.ReasonProvisioned},
		{"an old version on a BMC that takes no images", wishing(hasVersion("1"), func(s *scene) { s.obs.Firmware.Ways = UpdateWays{} }), "prepare/no-way", "SaveLedger", infrav1.ReasonFirmwareRejected},
		{"an image is pushed", wishing(hasVersion("1"), pushed(time.Hour, UpdatePushing)), "updating/wait", "Wait", infrav1.ReasonUpdatingFirmware},
		{"a push was cut off", wishing(hasVersion("1"), pushed(time.Minute, UpdateUnknown)), "cut-off", "SaveLedger", infrav1.ReasonUpdatingFirmware},
		{"a push was cut off long ago, and the host is deleted", wishing(hasVersion("1"), pushed(time.Hour, UpdateUnknown), deleted), "cut-off", "SaveLedger", infrav1.ReasonUpdatingFirmware},
		{"three updates failed", wishing(hasVersion("1"), attempted(3)), "prepare/spent", "SaveLedger", infrav1.ReasonFirmwareUpdateFailed},
		{"an update runs", wishing(hasVersion("1"), since(time.Minute, UpdateRunning)), "updating/wait", "Wait", infrav1.ReasonUpdatingFirmware},
		{"an update runs, and a person wants the host off", wishing(hasVersion("1"), since(time.Minute, UpdateRunning), func(s *scene) {
			s.host.Spec.Power, s.obs.Power = infrav1.PowerIntentOff, infrav1.PowerStateOn
		}), "updating/wait", "Wait", infrav1.ReasonUpdatingFirmware},
		{"an update is flashed by the boot, and the host deleted", wishing(ordered, hasVersion("1"), since(time.Minute, UpdateRunning), func(s *scene) {
			s.obs.Deleting, s.obs.Power = true, infrav1.PowerStateOn
		}), "deleting/updating-wait", "Wait", infrav1.ReasonUpdatingFirmware},
		{"an update runs, and the host is deleted", wishing(hasVersion("1"), since(time.Minute, UpdateRunning), deleted), "deleting/updating-wait", "Wait", infrav1.ReasonUpdatingFirmware},
		{"an update runs on a duplicate that is deleted", wishing(hasVersion("1"), since(time.Minute, UpdateRunning), deleted, func(s *scene) { s.obs.DuplicateOf = "IngotHost ns/b" }),
			"deleting/updating-wait", "Wait", infrav1.ReasonUpdatingFirmware},
		{"nobody knows whether an update runs, and the host is deleted", wishing(hasVersion("1"), since(time.Minute, UpdateUnknown), deleted), "deleting/updating-wait", "Wait", infrav1.ReasonUpdatingFirmware},
		{"the BMC is gone in the middle of an update, and the host is deleted", wishing(hasVersion("1"), since(time.Minute, UpdateUnknown), deleted, func(s *scene) { s.obs.BMC = BMCUnreachable }),
			"deleting/updating-bmc", "Wait", infrav1.ReasonBMCUnreachable},
		{"the BMC has been gone since an update began, and the host is deleted", wishing(hasVersion("1"), since(20*time.Minute, UpdateUnknown), deleted, func(s *scene) { s.obs.BMC = BMCUnreachable }),
			"deleting/forget", "RemoveFinalizer", infrav1.ReasonDeleting},
		{"an update never ends, and the host is deleted", wishing(hasVersion("1"), since(2*time.Hour, UpdateRunning), deleted), "deleting/forget", "RemoveFinalizer", infrav1.ReasonDeleting},
		{"an update runs, the host is deleted and a person forces it", wishing(hasVersion("1"), since(time.Minute, UpdateRunning), deleted, func(s *scene) {
			s.host.Annotations = map[string]string{infrav1.ForceReleaseAnnotation: givenAt(day())}
		}), "deleting/forced", "RemoveFinalizer", infrav1.ReasonDeleting},
		{"an update never ends", wishing(hasVersion("1"), inspectedSince, since(time.Hour, UpdateRunning)), "update/lost", "SaveLedger", infrav1.ReasonFirmwareUpdateFailed},
		{"nobody knows whether the BMC has it", wishing(hasVersion("1"), since(time.Minute, UpdateUnknown)), "updating/wait", "Wait", infrav1.ReasonUpdatingFirmware},
		{"it told nothing for long", wishing(hasVersion("1"), since(20*time.Minute, UpdateUnknown)), "update/boot", "SaveLedger", infrav1.ReasonUpdatingFirmware},
		{"it waits for a boot", wishing(hasVersion("1"), since(time.Minute, UpdateWaitsForReset)), "update/boot", "SaveLedger", infrav1.ReasonUpdatingFirmware},
		{"it waits for a boot, and the host was asked to shut down just now", wishing(hasVersion("1"), since(time.Minute, UpdateWaitsForReset), func(s *scene) {
			s.obs.LastReset, s.obs.SoftOffAt = day().Add(-time.Second), day().Add(-time.Second)
		}), "update/interval", "Wait", infrav1.ReasonWaiting},
		{"it waits after the boot", wishing(hasVersion("1"), since(time.Minute, UpdateWaitsForReset), inspectedSince), "update/reset-bmc", "ResetBMC", infrav1.ReasonUpdatingFirmware},
		{"it failed", wishing(hasVersion("1"), since(time.Minute, UpdateFailed)), "update/failed", "SaveLedger", infrav1.ReasonFirmwareUpdateFailed},
		{"the version shows", wishing(hasVersion("2"), since(time.Minute, UpdateSucceeded)), "update/in-force", "SaveLedger", infrav1.ReasonPreparing},
		{"the version shows of a push that was cut off", wishing(hasVersion("2"), cutOff(time.Minute)), "updating/wait", "Wait", infrav1.ReasonUpdatingFirmware},
		{"the version shows of an update of which the BMC tells nothing, after a try that failed", wishing(hasVersion("2"), since(time.Minute, UpdateUnknown), func(s *scene) {
			s.host.Spec.Record.Preparation.Attempt = 1
		}), "updating/wait", "Wait", infrav1.ReasonUpdatingFirmware},
		{"the BMC says that it is done, after a try that failed", wishing(hasVersion("2"), since(time.Minute, UpdateSucceeded), func(s *scene) {
			s.host.Spec.Record.Preparation.Attempt = 1
		}), "update/in-force", "SaveLedger", infrav1.ReasonPreparing},
		{"the version shows of an update of which the BMC tells nothing", wishing(hasVersion("2"), since(time.Minute, UpdateUnknown)),
			"update/in-force", "SaveLedger", infrav1.ReasonPreparing},
		{"it shows long after", wishing(hasVersion("2"), cutOff(20*time.Minute)), "update/in-force", "SaveLedger", infrav1.ReasonPreparing},
		{"another version shows after the boot", wishing(hasVersion("1"), since(time.Minute, UpdateSucceeded), inspectedSince), "update/lost", "SaveLedger", infrav1.ReasonFirmwareUpdateFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.scene.host.DeepCopy()
			d := Next(tc.scene.host, tc.scene.obs, DefaultPolicy())
			if diff := cmp.Diff(before, tc.scene.host); diff != "" {
				t.Errorf("Next changed the host:\n%s", diff)
			}
			want := []string{tc.rule, "lifecycle." + tc.step, tc.reason}
			if diff := cmp.Diff(want, []string{d.Rule, fmt.Sprintf("%T", d.Step), d.Reason}); diff != "" {
				t.Errorf("rule, step, reason (-want +got):\n%s\n%s", diff, d.Message)
			}
		})
	}
}

// The message during an update has its state and the end of the wait.
func TestUpdateMessage(t *testing.T) {
	for want, s := range map[string]scene{
		"The update is running, 40 %":                                wishing(hasVersion("1"), since(time.Minute, UpdateRunning)),
		"The BMC reports no progress":                                wishing(hasVersion("1"), since(time.Minute, UpdateUnknown)),
		"The BMC reports this version, but the update may still run": wishing(hasVersion("2"), cutOff(time.Minute)),
		". Ingot waits until " + inventory.FormatTime(day().Add(-time.Minute+DefaultPolicy().UpdateSilence)) + " at most": wishing(hasVersion("2"), cutOff(time.Minute)),
	} {
		if got := Next(s.host, s.obs, DefaultPolicy()).Message; !strings.Contains(got, want) {
			t.Errorf("message %q, want %q in it", got, want)
		}
	}
}

// The condition Prepared names what differs, and the remedy.
func TestPreparedCondition(t *testing.T) {
	inUse := func(s *scene) {
		s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimProvisioned), infrav1.PowerStateOn
	}
	settled := preparing(func(p *infrav1.HostPreparation) { p.Outcome = infrav1.PreparationApplied })
	for _, tc := range []struct {
		name   string
		scene  scene
		status metav1.ConditionStatus
		reason string
		says   []string
	}{
		{"nothing is wanted", newScene(func(*scene) {}), metav1.ConditionUnknown, infrav1.ReasonNotApplicable, nil},
		{"in force", wishing(reads("b", "b"), settled), metav1.ConditionTrue, infrav1.ReasonPrepared, nil},
		{"in force, and the manager restarted", wishing(settled), metav1.ConditionTrue, infrav1.ReasonPrepared, nil},
		{"missing", wishing(reads("a", "a")), metav1.ConditionFalse, infrav1.ReasonPreparing, []string{`S is "a", not "b"`}},
		{"in use: not known", wishing(inUse), metav1.ConditionUnknown, infrav1.ReasonWaiting, nil},
		{"in use: drift", wishing(inUse, reads("a", "a")), metav1.ConditionFalse, infrav1.ReasonSettingsNotApplied, []string{`S is "a", not "b"`, "AtNextReboot"}},
		{"in use: cannot be read", wishing(inUse, func(s *scene) {
			s.obs.FirmwareRetryAt, s.obs.FirmwareProblem = day().Add(time.Minute), "500 Internal Server Error"
		}), metav1.ConditionUnknown, infrav1.ReasonBMCError, []string{"500 Internal Server Error", "retries within 5 minutes"}},
		{"in use: refused", wishing(inUse, reads("a", "a"), func(s *scene) {
			s.obs.Firmware.RefusedReason, s.obs.Firmware.Refused = infrav1.ReasonSettingsRejected, "no such setting"
		}), metav1.ConditionFalse, infrav1.ReasonSettingsRejected, []string{"no such setting. Correct the spec, or delete the Machine"}},
		{"in use: pending", wishing(inUse, reads("a", "b")), metav1.ConditionFalse, infrav1.ReasonRebootPending, []string{"until the next boot", "Reboot the host"}},
		{"in use: what the next boot takes away", wishing(inUse, reads("b", "a")), metav1.ConditionFalse, infrav1.ReasonSettingsNotApplied, []string{`the next boot makes it "a"`}},
		{"in use: an old version", wishing(hasVersion("1"), inUse, func(s *scene) { s.obs.Firmware.Key = ReadingKey(s.host) }),
			metav1.ConditionFalse, infrav1.ReasonFirmwareNotApplied, []string{`BIOS is at version "1", not "2"`, "delete the Machine"}},
		{"an update", wishing(hasVersion("1"), since(time.Minute, UpdateRunning)), metav1.ConditionFalse, infrav1.ReasonUpdatingFirmware, []string{"Updating BIOS to version 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Next(tc.scene.host, tc.scene.obs, DefaultPolicy())
			for _, c := range Conditions(tc.scene.host, tc.scene.obs, d) {
				if c.Type != infrav1.HostPreparedCondition {
					continue
				}
				if c.Status != tc.status || c.Reason != tc.reason {
					t.Errorf("%s %s, want %s %s: %s", c.Status, c.Reason, tc.status, tc.reason, c.Message)
				}
				for _, part := range tc.says {
					if !strings.Contains(c.Message, part) {
						t.Errorf("message %q does not say %q", c.Message, part)
					}
				}
				return
			}
			t.Error("there is no such condition")
		})
	}
}

func TestStartUpdateLedgersShareNothing(t *testing.T) {
	s := wishing(hasVersion("1"), attempted(1))
	step, ok := Next(s.host, s.obs, DefaultPolicy()).Step.(StartUpdate)
	if !ok {
		t.Fatal("no update begins")
	}
	asked := infrav1.FirmwareUpdate{Component: "BIOS", Version: "2", StartTime: metav1.Time{Time: day()}, State: infrav1.UpdateRequested, Delivery: infrav1.DeliveryFetch}
	accepted, refused, taken := asked, asked, asked
	accepted.State, accepted.TaskID = infrav1.UpdateAccepted, "/t/1"
	taken.State, taken.TaskID, taken.StartTime = infrav1.UpdateAccepted, "/t/2", metav1.Time{Time: day().Add(time.Hour)}
	refused.State, refused.Message = infrav1.UpdateRejected, strings.Repeat("ä", maxUpdateMessage-1)+"…"
	for _, tc := range []struct {
		name   string
		ledger Ledger
		want   *infrav1.FirmwareUpdate
	}{
		{"accepted", step.Accepted("/t/1"), &accepted},
		{"pushed, at its end", step.Pushed("/t/2", day().Add(time.Hour)), &taken},
		{"refused, at length", step.Refused(strings.Repeat("ä", 5000)), &refused},
		{"unsent", step.Unsent(), nil},
		{"asked", step.Ledger, &asked},
	} {
		got := tc.ledger.Record.Preparation
		if diff := cmp.Diff(tc.want, got.Update); diff != "" || got.Attempt != 1 {
			t.Errorf("%s (-want +got), attempts %d:\n%s", tc.name, got.Attempt, diff)
		}
	}
}

func TestMatchesComponent(t *testing.T) {
	for _, tc := range []struct {
		component, id, name string
		want                bool
	}{
		{"BIOS", "/redfish/v1/UpdateService/FirmwareInventory/BIOS", "System ROM", true},
		{"bios", "/redfish/v1/UpdateService/FirmwareInventory/BIOS", "", true},
		{"system rom", "/redfish/v1/UpdateService/FirmwareInventory/1", "System ROM", true},
		{"FirmwareInventory/BIOS", "/redfish/v1/UpdateService/FirmwareInventory/BIOS", "", false},
		{"BIO", "/redfish/v1/UpdateService/FirmwareInventory/BIOS", "BIOS", false},
		{"BIOS", "BIOS", "", true},
		{"nic.integrated.1-1-1", "/redfish/v1/UpdateService/FirmwareInventory/Installed-102303-19.5.12__NIC.Integrated.1-1-1", "rNDC", true},
		{"Installed-102303-19.5.12__NIC.Integrated.1-1-1", "/redfish/v1/UpdateService/FirmwareInventory/Installed-102303-19.5.12__NIC.Integrated.1-1-1", "rNDC", true},
		{"NIC.Integrated.1-1-2", "/redfish/v1/UpdateService/FirmwareInventory/Installed-102303-19.5.12__NIC.Integrated.1-1-1", "rNDC", false},
		{"B", "/redfish/v1/UpdateService/FirmwareInventory/A__B", "", false},
		{"", "/redfish/v1/UpdateService/FirmwareInventory/Installed-1-2__", "X", false},
	} {
		if got := MatchesComponent(tc.component, tc.id, tc.name); got != tc.want {
			t.Errorf("%q is %s (%s): %t", tc.component, tc.id, tc.name, got)
		}
	}
}

// Other settings or firmware have another digest. The time to apply them does not matter.
func TestWishesOf(t *testing.T) {
	base := wishing().host
	other := base.DeepCopy()
	other.Spec.BIOS.Apply = infrav1.BIOSAtNextReboot
	if DesiredDigest(base) != DesiredDigest(other) || len(DesiredDigest(base)) != 64 {
		t.Error("the time to apply settings changes what is wanted")
	}
	seen := map[string]string{DesiredDigest(base): "the base"}
	for name, change := range map[string]func(*infrav1.IngotHost){
		"a value": func(h *infrav1.IngotHost) { h.Spec.BIOS.Settings = map[string]string{"S": "c"} },
		"a name":  func(h *infrav1.IngotHost) { h.Spec.BIOS.Settings = map[string]string{"T": "b"} },
		"an image": func(h *infrav1.IngotHost) {
			h.Spec.Firmware = []infrav1.FirmwareComponent{{Component: "BIOS", URL: "a"}}
		},
		"its URL": func(h *infrav1.IngotHost) {
			h.Spec.Firmware = []infrav1.FirmwareComponent{{Component: "BIOS", URL: "b"}}
		},
		"no wishes":  func(h *infrav1.IngotHost) { h.Spec.BIOS = nil },
		"no setting": func(h *infrav1.IngotHost) { h.Spec.BIOS.Settings = map[string]string{"S": "b", "T": ""} },
	} {
		h := base.DeepCopy()
		change(h)
		digest := DesiredDigest(h)
		if twin := seen[digest]; twin != "" {
			t.Errorf("%s and %s are the same wish", name, twin)
		}
		seen[digest] = name
		if (digest == "") != (name == "no wishes") {
			t.Errorf("%s: digest %q", name, digest)
		}
	}
}
