// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/server"
)

// story makes versions in the order in which they are told.
type story []Version

func (s story) host(name, machine, instance string, attempt int32, state infrav1.ClaimState) story {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if machine != "" {
		host.Spec.Claim = &infrav1.HostClaim{
			MachineRef: infrav1.LocalReference{Name: machine}, InstanceID: instance, Attempt: attempt, State: state,
		}
	}
	return append(s[:len(s):len(s)], Version{Revision: uint64(len(s) + 1), Host: host})
}

func (s story) machine(name, host, instance string) story {
	machine := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if host != "" {
		machine.Spec.ProviderID = infrav1.ProviderID{Namespace: "ns", Host: host, InstanceID: instance}.String()
	}
	return append(s[:len(s):len(s)], Version{Revision: uint64(len(s) + 1), Machine: machine})
}

func (s story) gone(name string) story {
	s = s.machine(name, "", "")
	s[len(s)-1].Deleted = true
	return s
}

// Instances of the stories.
const (
	one = "11111111-1111-4111-8111-111111111111"
	two = "22222222-2222-4222-8222-222222222222"
)

// TestCheckClaims: the proof of I1 finds each kind of breach, and none in a life
// that is right.
func TestCheckClaims(t *testing.T) {
	claimed := story{}.machine("m", "a", one).host("a", "m", one, 0, infrav1.ClaimProvisioning)
	for name, test := range map[string]struct {
		story story
		want  string
	}{
		"a whole life": {claimed.host("a", "m", one, 1, infrav1.ClaimProvisioned).host("a", "m", one, 1, infrav1.ClaimReleasing).
			gone("m").host("a", "", "", 0, "").machine("n", "a", two).host("a", "n", two, 0, infrav1.ClaimProvisioning), ""},
		"a choice taken back":      {story{}.machine("m", "a", one).machine("m", "", "").machine("m", "b", two), ""},
		"from machine to machine":  {claimed.machine("n", "a", two).host("a", "n", two, 0, infrav1.ClaimProvisioning), "without being free"},
		"another instance":         {claimed.host("a", "m", two, 0, infrav1.ClaimProvisioning), "without being free"},
		"two hosts of one machine": {claimed.host("b", "m", two, 0, infrav1.ClaimProvisioning), "two hosts"},
		"a claim nobody chose":     {story{}.machine("m", "", "").host("a", "m", one, 0, infrav1.ClaimProvisioning), "did not choose"},
		"another choice at once":   {story{}.machine("m", "a", one).machine("m", "b", two), "at once"},
		"a claimed choice cleared": {claimed.machine("m", "", ""), "is its own"},
		"attempts that go back":    {claimed.host("a", "m", one, 2, infrav1.ClaimProvisioning).host("a", "m", one, 1, infrav1.ClaimProvisioning), "after 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := CheckClaims("ns", test.story)
			expect(t, wrong, test.want)
		})
	}
}

// TestCheckDisk: so does the proof of what disks were written.
func TestCheckDisk(t *testing.T) {
	event := func(kind server.DiskEventKind, instance string, attempt int32) server.DiskEvent {
		return server.DiskEvent{Kind: kind, Marker: agentapi.Marker{InstanceID: instance, Attempt: attempt}}
	}
	begun, complete, removed := server.InstallBegun, server.InstallComplete, server.MarkerRemoved
	provisioned := story{}.host("a", "m", one, 1, infrav1.ClaimProvisioning).host("a", "m", one, 1, infrav1.ClaimProvisioned)
	released := provisioned.host("a", "m", one, 1, infrav1.ClaimReleasing)
	for name, test := range map[string]struct {
		story story
		log   []server.DiskEvent
		want  string
	}{
		"installed and wiped":      {released, []server.DiskEvent{event(begun, one, 1), event(complete, one, 1), event(removed, one, 1)}, ""},
		"complete twice":           {provisioned, []server.DiskEvent{event(complete, one, 1), event(complete, one, 1)}, "2 times"},
		"begun after the commit":   {provisioned, []server.DiskEvent{event(complete, one, 1), event(begun, one, 1)}, "was committed"},
		"wiped without a release":  {provisioned, []server.DiskEvent{event(complete, one, 1), event(removed, one, 1)}, "was committed"},
		"never ordered":            {provisioned, []server.DiskEvent{event(complete, one, 1), event(begun, two, 1)}, "never ordered"},
		"provisioned, not written": {provisioned, nil, "written 0 times"},
		"damaged":                  {provisioned, []server.DiskEvent{event(complete, one, 1), event(server.MarkerDamaged, "", 0)}, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := CheckDisk("a", test.log, test.story)
			expect(t, wrong, test.want)
		})
	}
}

// expect wants a finding with those words, or none at all.
func expect(t *testing.T, wrong []string, want string) {
	t.Helper()
	all := strings.Join(wrong, "\n")
	if (want == "") != (len(wrong) == 0) || !strings.Contains(all, want) {
		t.Errorf("found %q, want %q", all, want)
	}
}

func TestDescribeAPI(t *testing.T) {
	const prefix = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/ns/"
	for name, test := range map[string]struct {
		method, path, body string
		want               Write
		unseen             bool
	}{
		"claim": {"PATCH", prefix + "ingothosts/a", `{"metadata":{"resourceVersion":"7","uid":"x"},"spec":{"claim":{"state":"Provisioned","attempt":1},"order":null}}`,
			Write{Host: "a", Resource: "ingothosts", Label: "PATCH ingothosts spec.claim.attempt spec.claim.state=Provisioned spec.order"}, false},
		"choice taken back": {"PATCH", prefix + "ingotmachines/a", `{"spec":{"providerID":null}}`,
			Write{Host: "a", Resource: "ingotmachines", Label: "PATCH ingotmachines spec.providerID", ClearsIntent: true}, false},
		"choice": {"PATCH", prefix + "ingotmachines/a", `{"spec":{"providerID":"x"}}`,
			Write{Host: "a", Resource: "ingotmachines", Label: "PATCH ingotmachines spec.providerID"}, false},
		"status": {"PATCH", prefix + "ingothosts/a/status", `{"status":{"phase":"Available"}}`,
			Write{Host: "a", Resource: "ingothosts", Label: "PATCH ingothosts/status status.phase"}, false},
		"new hardware": {"POST", prefix + "ingothardwares", `{"metadata":{"name":"a"}}`,
			Write{Host: "a", Resource: "ingothardwares", Label: "POST ingothardwares"}, false},
		"credentials": {"PATCH", "/api/v1/namespaces/ns/secrets/a-bmc", `{"metadata":{"labels":{"x":""}}}`,
			Write{Host: "a", Resource: "secrets", Label: "PATCH secrets metadata.labels.x"}, false},
		"an event": {"POST", "/apis/events.k8s.io/v1/namespaces/ns/events", `{}`, Write{}, true},
		"a review": {"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{}`, Write{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, seen := describeAPI(httptest.NewRequest(test.method, test.path, nil), []byte(test.body))
			if seen == test.unseen {
				t.Fatalf("seen: %t", seen)
			}
			if diff := cmp.Diff(test.want, got); seen && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
