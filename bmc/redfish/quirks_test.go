// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

// TestQuirkTable pins who has which trait, and that no entry is without a reason.
func TestQuirkTable(t *testing.T) {
	idrac := []trait{cutGzipTag, applyOnReset, secureBootSetting, cdIsPhysical, waitAfterOff, waitForJob, pushAsForm}
	hpeTraits := []trait{pushIsOwn, noEmptyURI, noTargetNone}
	for _, tc := range []struct {
		name  string
		maker maker
		want  []trait
	}{
		{"nobody", maker{}, nil},
		{"standard", maker{"Contoso", "3500", " 1.45"}, nil},
		{"iDRAC9", maker{"Dell Inc.", "PowerEdge R640", "14G Monolithic 6.10.80.00"}, idrac},
		{"iDRAC9 by ServiceRoot", maker{"Dell", "PowerEdge R640", "6.10.80.00"}, idrac},
		{"iDRAC10 by its firmware", maker{"Dell", "PowerEdge R670", "1.20.50.50"}, slices.Insert(slices.Clone(idrac), 1, bootInSettings)},
		{"iDRAC10 by its generation", maker{"Dell", "PowerEdge R7715", "17G Monolithic 2.0.0.0"}, slices.Insert(slices.Clone(idrac), 1, bootInSettings)},
		{"iLO 5", maker{"HPE", "ProLiant DL360 Gen10", "iLO 5 v2.78"}, hpeTraits},
		{"older HP", maker{"Hewlett Packard Enterprise", "ProLiant", ""}, hpeTraits},
		{"X11", maker{"Supermicro", "SYS-1029P-WTR", "01.73.12"}, []trait{modeWithBoot, staleImage, bareReset}},
		{"X11 by its board", maker{"Super Micro Computer, Inc.", "X11DDW-NT", ""}, []trait{modeWithBoot, staleImage, bareReset}},
		{"X12", maker{"Supermicro", "SYS-120U-TNR", "01.04.08"}, []trait{modeWithBoot, staleImage}},
		{"Lenovo", maker{"Lenovo", "ThinkSystem SR630 V2", ""}, []trait{mediaByPatch, waitInPOST}},
		{"AMI", maker{"AMI", "1U2E-ROME", ""}, []trait{bootInFuture}},
		{"ASRock", maker{"ASRockRack", "1U2E-ROME", ""}, []trait{bootInFuture}},
		{"OpenBMC", maker{"OpenBMC", "SV7220G3", ""}, nil},
	} {
		if diff := cmp.Diff(tc.want, tc.maker.traits()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	for _, q := range quirks {
		if q.answer == "" || q.vendor == nil {
			t.Errorf("%s: no answer, or no vendor", q.trait)
		}
	}
}

// TestPassing pins the refusals that pass by themselves, and for whom.
func TestPassing(t *testing.T) {
	const (
		inPOST = "The boot order cannot be changed while the system is in POST."
		job    = "Pending configuration values are already committed, unable to perform another set operation."
	)
	for _, tc := range []struct {
		name    string
		vendor  string
		status  int
		message string
		want    time.Duration
		busy    bool
	}{
		{"iDRAC: On after ForceOff", "Dell", 409, "", 10 * time.Second, true},
		{"another's 409", "HPE", 409, "", 0, true},
		{"iDRAC: a job waits", "Dell", 400, job, time.Minute, true},
		{"another's 400", "HPE", 400, job, 0, false},
		{"Lenovo in POST", "Lenovo", 400, inPOST, 5 * time.Second, true},
		{"Lenovo: wrong in a POST request", "Lenovo", 400, "unknown property in POST request", 0, false},
		{"another in POST", "HPE", 400, inPOST, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &conn{transport: &transport{}, traits: maker{vendor: tc.vendor}.traits()}
			err := c.refusalSentinel(write, &callError{status: tc.status}, tc.message)
			var busy *bmc.BusyError
			if errors.As(err, &busy) != tc.busy || tc.busy && busy.RetryAfter != tc.want {
				t.Errorf("error %v, want busy %v for %s", err, tc.busy, tc.want)
			}
		})
	}
}

func TestTaskStates(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    taskResource
		want bmc.Task
	}{
		{"running", taskResource{State: "Running", Percent: "42"}, bmc.Task{State: bmc.TaskRunning, Percent: 42}},
		{"not told how far", taskResource{State: "New"}, bmc.Task{State: bmc.TaskRunning, Percent: -1}},
		{"percent out of bounds", taskResource{State: "Running", Percent: "1e9"}, bmc.Task{State: bmc.TaskRunning, Percent: 100}},
		{"completed", taskResource{State: "Completed", Status: "OK"}, bmc.Task{State: bmc.TaskSucceeded, Percent: 100}},
		{"completed badly", taskResource{State: "Completed", Status: "Critical", Percent: "30"}, bmc.Task{State: bmc.TaskFailed, Percent: 100}},
		{"exception", taskResource{State: "Exception", Percent: "30"}, bmc.Task{State: bmc.TaskFailed, Percent: 30}},
		{"suspended", taskResource{State: "Suspended"}, bmc.Task{State: bmc.TaskWaitsForReset, Percent: -1}},
		{"pending", taskResource{State: "Pending", Percent: "0"}, bmc.Task{State: bmc.TaskRunning}},
		{"pending, all done", taskResource{State: "Pending", Percent: "100"}, bmc.Task{State: bmc.TaskWaitsForReset, Percent: 100}},
		{"pending, a job for the next boot", taskResource{State: "Pending", Percent: "0", Messages: []taskMessage{{Text: "waits for a Reboot"}}},
			bmc.Task{State: bmc.TaskWaitsForReset, Message: "waits for a Reboot"}},
		{"scheduled, by its words", taskResource{State: "Scheduled", Percent: "0", Messages: []taskMessage{{Text: "Task successfully scheduled."}}},
			bmc.Task{State: bmc.TaskWaitsForReset, Message: "Task successfully scheduled."}},
		{"scheduled, by its ID", taskResource{State: "Starting", Percent: "0", Messages: []taskMessage{{ID: "IDRAC.2.8.JCP001"}}},
			bmc.Task{State: bmc.TaskWaitsForReset}},
		{"scheduled, by its bare ID", taskResource{State: "New", Percent: "0", Messages: []taskMessage{{ID: "JCP001"}}}, bmc.Task{State: bmc.TaskWaitsForReset}},
		{"was scheduled, and runs", taskResource{State: "Running", Percent: "1", Messages: []taskMessage{{ID: "JCP001"}}}, bmc.Task{State: bmc.TaskRunning, Percent: 1}},
		{"was scheduled, and is downloaded", taskResource{State: "Starting", Percent: "1", Messages: []taskMessage{{ID: "JCP001"}, {ID: "RED002"}}},
			bmc.Task{State: bmc.TaskRunning, Percent: 1}},
		{"asks for a reset", taskResource{State: "Running", Messages: []taskMessage{{ID: "Base.1.16.ResourceResetRequired"}}},
			bmc.Task{State: bmc.TaskWaitsForReset, Percent: -1}},
	} {
		if diff := cmp.Diff(tc.want, tc.r.task(true)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
