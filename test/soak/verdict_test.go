// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Names of hosts without a fault that stays, in the report.
const (
	healthy = "none"
	passed  = "passed"
)

// An end is how a host is found when the storm is over.
type end struct {
	host string
	// fault that stays, or healthy, or passed.
	fault string
	// reason of the host's condition Ready.
	reason string
	// wrong says what is not as it should be; empty: nothing.
	wrong string
}

// judge looks at a host. on is what the server itself says; stays may be nil.
func judge(host *infrav1.IngotHost, on bool, stays *fault) (reason, wrong string) {
	ready := conditions.Get(host, infrav1.ReadyCondition)
	if ready == nil {
		return "", "it has no condition Ready"
	}
	lack := wants(host, ready, on)
	switch {
	case lack == "":
		return ready.Reason, ""
	case stays == nil:
		return ready.Reason, fmt.Sprintf("%s; Ready says %s: %s", lack, ready.Reason, ready.Message)
	case !slices.Contains(stays.ends, ready.Reason):
		return ready.Reason, fmt.Sprintf("%s; Ready says %s, and not one of %v: %s", lack, ready.Reason, stays.ends, ready.Message)
	}
	return ready.Reason, ""
}

// wants says what a host lacks to be free, or to serve its machine.
func wants(host *infrav1.IngotHost, ready *metav1.Condition, on bool) string {
	claim := host.Spec.Claim
	switch {
	case ready.Status != metav1.ConditionTrue:
		return "it is not ready"
	case ready.Reason == infrav1.ReasonAvailable && claim == nil && host.Spec.Order == nil && !on:
		return ""
	case ready.Reason == infrav1.ReasonProvisioned && claim != nil && claim.State == infrav1.ClaimProvisioned && on:
		return ""
	}
	return fmt.Sprintf("its server is on: %t, its claim: %+v", on, claim)
}

// report is the table of fault, end and count.
func report(ends []end) string {
	type row struct{ fault, reason string }
	counts := map[row]int{}
	for _, e := range ends {
		counts[row{e.fault, e.reason}]++
	}
	var rows []row
	for r := range counts {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.fault, b.fault), cmp.Compare(a.reason, b.reason))
	})
	var text strings.Builder
	fmt.Fprintf(&text, "%-36s %-24s %s", "FAULT", "END", "HOSTS")
	for _, r := range rows {
		fmt.Fprintf(&text, "\n%-36s %-24s %5d", r.fault, r.reason, counts[r])
	}
	return text.String()
}

// wrongs lists at most n of what is wrong.
func wrongs(ends []end, n int) string {
	var texts []string
	for _, e := range ends {
		if e.wrong != "" {
			texts = append(texts, fmt.Sprintf("%s (fault: %s): %s", e.host, e.fault, e.wrong))
		}
	}
	if len(texts) > n {
		texts = append(texts[:n], fmt.Sprintf("and %d more", len(texts)-n))
	}
	return strings.Join(texts, "\n")
}

// TestJudge: the right states, what only a fault excuses, and what nothing does.
func TestJudge(t *testing.T) {
	hang := &fault{name: "hang", ends: []string{infrav1.ReasonBMCTimeout}}
	for name, tc := range map[string]struct {
		reason string
		ready  bool
		claim  infrav1.ClaimState
		on     bool
		stays  *fault
		wrong  string
	}{
		"free":                  {reason: infrav1.ReasonAvailable, ready: true},
		"serving":               {reason: infrav1.ReasonProvisioned, ready: true, claim: infrav1.ClaimProvisioned, on: true},
		"free, with a fault":    {reason: infrav1.ReasonAvailable, ready: true, stays: hang},
		"free and on":           {reason: infrav1.ReasonAvailable, ready: true, on: true, wrong: "is on: true"},
		"serving and off":       {reason: infrav1.ReasonProvisioned, ready: true, claim: infrav1.ClaimProvisioned, wrong: "is on: false"},
		"cause":                 {reason: infrav1.ReasonBMCTimeout, stays: hang},
		"cause, no fault":       {reason: infrav1.ReasonBMCTimeout, wrong: "not ready; Ready says BMCTimeout"},
		"another cause":         {reason: infrav1.ReasonBMCUnreachable, stays: hang, wrong: "not one of [BMCTimeout]"},
		"busy with its machine": {reason: infrav1.ReasonProvisioning, claim: infrav1.ClaimProvisioning, on: true, wrong: "Ready says Provisioning"},
		"unseen":                {wrong: "no condition"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{}
			if tc.claim != "" {
				host.Spec.Claim = &infrav1.HostClaim{State: tc.claim}
			}
			if tc.reason != "" {
				status := metav1.ConditionFalse
				if tc.ready {
					status = metav1.ConditionTrue
				}
				conditions.Set(host, metav1.Condition{Type: infrav1.ReadyCondition, Status: status, Reason: tc.reason})
			}
			reason, wrong := judge(host, tc.on, tc.stays)
			if reason != tc.reason || (wrong == "") != (tc.wrong == "") || !strings.Contains(wrong, tc.wrong) {
				t.Errorf("%q, wrong %q; want %q, %q", reason, wrong, tc.reason, tc.wrong)
			}
		})
	}
}

func TestReport(t *testing.T) {
	got := report([]end{{fault: "hang", reason: "BMCTimeout"}, {fault: healthy, reason: "Available"}, {fault: "hang", reason: "BMCTimeout"}})
	want := "FAULT                                END                      HOSTS\n" +
		"hang                                 BMCTimeout                   2\n" +
		"none                                 Available                    1"
	if got != want {
		t.Errorf("report:\n%s\nwant:\n%s", got, want)
	}
	if text := wrongs([]end{{wrong: "a"}, {}, {wrong: "b"}, {wrong: "c"}}, 2); !strings.HasSuffix(text, "and 1 more") {
		t.Errorf("wrongs: %s", text)
	}
}
