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

// TestQuirkTable checks which BMC has which trait, and that each entry has a reason.
func TestQuirkTable(t *testing.T) {
	idrac := []trait{cutGzipTag, applyOnReset, secureBootSetting, cdIsPhysical, waitAfterOff, waitForJob, pushAsForm}
	hpeTraits := []trait{pushIsOwn, noEmptyURI, noTargetNone}
	for _, tc := range []struct {
		name    string
		product product
		want    []trait
	}{
		{"unknown", product{}, nil},
		{"standard", product{"Contoso", "3500", " 1.45"}, nil},
		{"iDRAC9", product{"Dell Inc.", "PowerEdge R640", "14G Monolithic 6.10.80.00"}, idrac},
		{"iDRAC9 by ServiceRoot", product{"Dell", "PowerEdge R640", "6.10.80.00"}, idrac},
		{"iDRAC10 by its firmware", product{"Dell", "PowerEdge R670", "1.20.50.50"}, slices.Insert(slices.Clone(idrac), 1, bootInSettings)},
		{"iDRAC10 by its generation", product{"Dell", "PowerEdge R7715", "17G Monolithic 2.0.0.0"}, slices.Insert(slices.Clone(idrac), 1, bootInSettings)},
		{"iLO 5", product{"HPE", "ProLiant DL360 Gen10", "iLO 5 v2.78"}, hpeTraits},
		{"older HP", product{"Hewlett Packard Enterprise", "ProLiant", ""}, hpeTraits},
		{"X11", product{"Supermicro", "SYS-1029P-WTR", "01.73.12"}, []trait{modeWithBoot, staleImage, bareReset}},
		{"X11 by its board", product{"Super Micro Computer, Inc.", "X11DDW-NT", ""}, []trait{modeWithBoot, staleImage, bareReset}},
		{"X12", product{"Supermicro", "SYS-120U-TNR", "01.04.08"}, []trait{modeWithBoot, staleImage}},
		{"Lenovo", product{"Lenovo", "ThinkSystem SR630 V2", ""}, []trait{mediaByPatch, waitInPOST}},
		{"AMI", product{"AMI", "1U2E-ROME", ""}, []trait{bootInFuture}},
		{"ASRock", product{"ASRockRack", "1U2E-ROME", ""}, []trait{bootInFuture}},
		{"OpenBMC", product{"OpenBMC", "SV7220G3", ""}, nil},
	} {
		if diff := cmp.Diff(tc.want, tc.product.traits()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	for _, q := range quirks {
		if q.answer == "" || q.vendor == nil {
			t.Errorf("%s: no answer, or no vendor", q.trait)
		}
	}
}

// TestTemporaryRefusals checks which refusals are temporary for which BMC.
func TestTemporaryRefusals(t *testing.T) {
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
		{"409 of another vendor", "HPE", 409, "", 0, true},
		{"iDRAC: a job waits", "Dell", 400, job, time.Minute, true},
		{"400 of another vendor", "HPE", 400, job, 0, false},
		{"Lenovo in POST", "Lenovo", 400, inPOST, 5 * time.Second, true},
		{"Lenovo: wrong in a POST request", "Lenovo", 400, "unknown property in POST request", 0, false},
		{"in POST of another vendor", "HPE", 400, inPOST, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &conn{transport: &transport{}, traits: product{vendor: tc.vendor}.traits()}
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
		{"without percentage", taskResource{State: "New"}, bmc.Task{State: bmc.TaskRunning, Percent: -1}},
		{"percent out of bounds", taskResource{State: "Running", Percent: "1e9"}, bmc.Task{State: bmc.TaskRunning, Percent: 100}},
		{"completed", taskResource{State: "Completed", Status: "OK"}, bmc.Task{State: bmc.TaskSucceeded, Percent: 100}},
		{"completed badly", taskResource{State: "Completed", Status: "Critical", Percent: "30"}, bmc.Task{State: bmc.TaskFailed, Percent: 100}},
		{"exception", taskResource{State: "Exception", Percent: "30"}, bmc.Task{State: bmc.TaskFailed, Percent: 30}},
		{"suspended", taskResource{State: "Suspended"}, bmc.Task{State: bmc.TaskWaitsForReset, Percent: -1}},
		{"pending", taskResource{State: "Pending", Percent: "0"}, bmc.Task{State: bmc.TaskRunning}},
		{"pending, all done", taskResource{State: "Pending", Percent: "100"}, bmc.Task{State: bmc.TaskWaitsForReset, Percent: 100}},
		{"pending, a job for the next boot", taskResource{State: "Pending", Percent: "0", Messages: []taskMessage{{Text: "waits for a Reboot"}}},
			bmc.Task{State: bmc.TaskWaitsForReset, Message: "waits for a Reboot"}},
		{"scheduled, by text", taskResource{State: "Scheduled", Percent: "0", Messages: []taskMessage{{Text: "Task successfully scheduled."}}},
			bmc.Task{State: bmc.TaskWaitsForReset, Message: "Task successfully scheduled."}},
		{"scheduled, by ID", taskResource{State: "Starting", Percent: "0", Messages: []taskMessage{{ID: "IDRAC.2.8.JCP001"}}},
			bmc.Task{State: bmc.TaskWaitsForReset}},
		{"scheduled, by bare ID", taskResource{State: "New", Percent: "0", Messages: []taskMessage{{ID: "JCP001"}}}, bmc.Task{State: bmc.TaskWaitsForReset}},
		{"scheduled before, running", taskResource{State: "Running", Percent: "1", Messages: []taskMessage{{ID: "JCP001"}}}, bmc.Task{State: bmc.TaskRunning, Percent: 1}},
		{"scheduled before, downloading", taskResource{State: "Starting", Percent: "1", Messages: []taskMessage{{ID: "JCP001"}, {ID: "RED002"}}},
			bmc.Task{State: bmc.TaskRunning, Percent: 1}},
		{"requires a reset", taskResource{State: "Running", Messages: []taskMessage{{ID: "Base.1.16.ResourceResetRequired"}}},
			bmc.Task{State: bmc.TaskWaitsForReset, Percent: -1}},
	} {
		if diff := cmp.Diff(tc.want, tc.r.task(true)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
