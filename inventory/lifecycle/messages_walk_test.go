// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/rules"
	"github.com/ingot-metal/ingot/test/needs"
)

// messageFault returns what is wrong with a message; empty: nothing.
func messageFault(text string) string {
	first, _ := utf8.DecodeRuneInString(text)
	switch {
	case utf8.RuneCountInString(text) > inventory.MaxText:
		return fmt.Sprintf("has %d characters", utf8.RuneCountInString(text))
	case !unicode.IsUpper(first):
		return "does not start with a capital letter"
	case !strings.HasSuffix(text, "."):
		return "does not end with a period"
	case strings.Contains(text, "..") || strings.Contains(text, "  ") || strings.Contains(text, "\n"):
		return "has a doubled period or space, or a line break"
	}
	return ""
}

// messages collects the messages of decisions and conditions, each with its place.
type messages map[string]string

func (m messages) note(host *infrav1.IngotHost, obs Observation, policy Policy) {
	decision := Next(host, obs, policy)
	m[decision.Message] = "rule " + decision.Rule
	for _, c := range Conditions(host, obs, decision) {
		m[c.Message] = "condition " + c.Type + " " + c.Reason + " after rule " + decision.Rule
	}
}

func (m messages) check(t *testing.T) {
	t.Helper()
	failed := map[string]bool{}
	for _, text := range slices.Sorted(maps.Keys(m)) {
		if fault := messageFault(text); fault != "" && !failed[m[text]] {
			failed[m[text]] = true // the rule words its other messages alike
			t.Errorf("%s: the message %s: %s", m[text], fault, text)
		}
	}
}

// longName has 63 characters, which is the limit of most names.
func longName(like string) string { return (like + strings.Repeat("-long", 13))[:63] }

// withLongTexts returns a host and an observation in which every name has 63 characters and
// every text from outside is as long as a bad BMC or agent makes it.
func withLongTexts(t *testing.T, host *infrav1.IngotHost, obs Observation) (*infrav1.IngotHost, Observation) {
	t.Helper()
	host = host.DeepCopy()
	long := strings.Repeat("Internal error: the request failed. ", 30)
	host.Spec.NetworkRef.Name = longName(host.Spec.NetworkRef.Name)
	if host.Spec.BMC != nil {
		host.Spec.BMC.CredentialsRef.Name = longName("bmc")
	}
	if c := host.Spec.Claim; c != nil {
		c.MachineRef.Name, c.ClusterName = longName("machine"), longName("cluster")
	}
	if o := host.Spec.Order; o != nil {
		if o.NetworkName != "" {
			o.NetworkName = longName(o.NetworkName)
		}
		if o.Result != nil && o.Result.Message != "" && o.Result.Reason != infrav1.ReasonStateUnconfirmed && o.Result.Reason != infrav1.ReasonLiveSystemUnresponsive {
			o.Result.Message = inventory.ClipMessage(long)
		}
	}
	if r := host.Spec.Record; r != nil {
		r.LastClusterName = strings.Replace(r.LastClusterName, "a", longName("cluster"), 1)
		if r.Quarantine != nil {
			r.Quarantine.Message = long
		}
		if p := r.Preparation; p != nil && p.Message != "" {
			p.Message = long
		}
		for i := range 4 {
			r.UncleanedStorage = append(r.UncleanedStorage, infrav1.HardwareController{ID: longName("8086"), Address: fmt.Sprint(i)})
		}
	}
	for _, p := range []*string{&obs.BMCMessage, &obs.AddressProblem, &obs.WrongServer, &obs.FirmwareProblem, &obs.Update.Message} {
		if *p != "" {
			*p = long
		}
	}
	if obs.DuplicateOf != "" {
		obs.DuplicateOf = "IngotHost " + strings.Repeat(longName("metal")+"/"+longName("host")+", ", 3) + "and a host of another namespace"
	}
	for i := range 12 {
		obs.KnownMACs = append(obs.KnownMACs, fmt.Sprintf("52:54:00:00:00:%02d", i))
	}
	if f := obs.Firmware; f != nil {
		copied := *f
		copied.Settings = slices.Clone(f.Settings)
		for i := range copied.Settings {
			s := &copied.Settings[i]
			s.Name, s.Value, s.Wanted = longName(s.Name), longName(s.Value), longName(s.Wanted)
		}
		if copied.Refused != "" {
			copied.Refused = long
		}
		if copied.TryError != "" {
			copied.TryError = long
		}
		obs.Firmware = &copied
	}
	obs.HealthDetail = long
	obs.Health = []Health{HealthOK, HealthWarning, HealthCritical}[obs.Now.Minute()%3]
	givers := map[string]map[string]string{}
	for name, value := range host.Annotations {
		givers[inventory.ShortCommandName(name)] = map[string]string{"value": value, "user": "system:serviceaccount:" + longName("ns") + ":" + longName("name")}
	}
	if len(givers) > 0 {
		text, err := json.Marshal(givers)
		if err != nil {
			t.Fatal(err)
		}
		host.Annotations[infrav1.CommandsGivenByAnnotation] = string(text)
	}
	return host, obs
}

// Every message that a walk comes to is a sentence of at most inventory.MaxText characters,
// with the short names of the walk and with long ones.
func TestWalkedMessagesAreShortSentences(t *testing.T) {
	seen, st := messages{}, newStats()
	st.decided = func(host *infrav1.IngotHost, obs Observation) {
		seen.note(host, obs, walkPolicy())
		host, obs = withLongTexts(t, host, obs)
		seen.note(host, obs, walkPolicy())
	}
	for seed := range needs.Sample(700) {
		walk(hostRules(), seed, 120, st)
	}
	seen.check(t)
	all := 0
	for _, m := range rules.Mutants(hostRules()) {
		if m.Condition == "" && m.Leaf {
			all++
		}
	}
	t.Logf("%d messages of %d rules, of %d rules in all", len(seen), len(st.rules), all)
	if needs.IsFull() && len(st.rules) < all*9/10 {
		t.Errorf("the walks came to %d rules of %d", len(st.rules), all)
	}
}

// The messages about a BMC's problem are short sentences for every problem, also while the
// host is deleted. The fingerprint of a certificate is never shortened.
func TestBMCMessagesAreShortSentences(t *testing.T) {
	presented := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	seen := messages{}
	for _, problem := range append(bmcProblems(), BMCAddressNotAllowed, BMCNamespaceTerminating, "Unknown") {
		for _, text := range []string{
			"", "BMC redfish://10.0.0.1: dial tcp 10.0.0.1:443: connect: no route to host",
			"BMC redfish://10.0.0.1: BMC certificate is not trusted: it is signed by an authority that is not among the trusted ones (presented: " + presented + ")",
			"BMC certificate is not trusted: none was presented", strings.Repeat("Internal error. ", 40),
		} {
			for _, deleting := range []bool{false, true} {
				s := newScene(func(s *scene) {
					s.obs.BMC, s.obs.BMCMessage, s.obs.FailingSince, s.obs.Deleting = problem, text, day(), deleting
					s.host.Spec.BMC.TrustOnFirstUse = new(deleting)
					s.host.Spec.BMC.CredentialsRef.Name = longName("bmc")
					s.host.Spec.Order = orderOf(infrav1.OrderInspect)
				})
				seen.note(s.host, s.obs, DefaultPolicy())
				certificate := problem == BMCCertificateInvalid || problem == BMCCertificateChanged
				if got := Next(s.host, s.obs, DefaultPolicy()).Message; certificate && strings.Contains(text, presented) && !strings.Contains(got, presented) {
					t.Errorf("%s: the fingerprint is not in the message: %s", problem, got)
				}
			}
		}
	}
	seen.check(t)
}

// Messages that no walk comes to.
func TestOtherMessagesAreShortSentences(t *testing.T) {
	seen := messages{}
	note := func(change func(*scene)) {
		s := newScene(change)
		seen.note(s.host, s.obs, DefaultPolicy())
		host, obs := withLongTexts(t, s.host, s.obs)
		seen.note(host, obs, DefaultPolicy())
	}
	for _, reason := range []string{agentapi.FailureImageInvalid, agentapi.FailureDiskTooSmall, agentapi.FailureSectorsDiffer,
		agentapi.FailureOldSystem, agentapi.FailureMirrorRefused, agentapi.FailureLiveRefused} {
		note(func(s *scene) {
			s.host.Spec.Claim, s.host.Spec.Order = claimOf(infrav1.ClaimProvisioning), orderOf(infrav1.OrderInstall)
			s.host.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: reason, Message: "40 GB of image, 32 GB of disk", CompletionTime: metav1.Time{Time: day()}}
		})
	}
	for _, method := range []infrav1.BootMethod{infrav1.BootMethodPXE, infrav1.BootMethodHTTP, infrav1.BootMethodVirtualMedia} {
		for _, mode := range []infrav1.BootMode{"", infrav1.BootModeUEFISecureBoot} {
			for _, insecure := range []bool{false, true} {
				note(func(s *scene) {
					s.host.Spec.BootMethod, s.host.Spec.BootMode, s.host.Spec.BMC.InsecureSkipVerify = method, mode, &insecure
					s.host.Spec.Claim = claimOf(infrav1.ClaimProvisioning)
					s.host.Spec.Claim.BootTrust = infrav1.BootTrustVerified
				})
			}
		}
	}
	for _, managed := range []bool{true, false} {
		for _, approved := range []bool{true, false} {
			note(func(s *scene) {
				s.host.Labels, s.host.Spec.Record = map[string]string{infrav1.EnrolledLabel: ""}, nil
				if !managed {
					s.host.Spec.BMC = nil
				}
				if approved {
					s.host.Annotations = map[string]string{infrav1.ApproveAnnotation: s.obs.Now.Format(time.RFC3339)}
				}
			})
		}
	}
	note(func(s *scene) {
		s.host.Spec.Record.SanitizedTime = metav1.Time{Time: day()}
		s.host.Spec.Record.UncleanedStorage = []infrav1.HardwareController{{ID: "8086:2826", Address: "0000:00:17.0"}}
	})
	for _, ways := range []UpdateWays{{}, {Fetch: true, Protocols: []string{"HTTP"}}, {Push: true}} {
		_, why := DeliveryOf(infrav1.FirmwareComponent{URL: "ftp://a/b"}, ways, 0)
		if len(why) > 120 {
			t.Errorf("%d characters: %s", len(why), why)
		}
	}
	seen.check(t)
}
