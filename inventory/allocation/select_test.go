// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// candidate is a free host of 16 cores and 64 GiB in a rack.
func candidate(name, rack string) Candidate {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: "metal", Name: name, Generation: 1, Labels: map[string]string{infrav1.RackLabel: rack, "kind": "compute"},
	}}
	host.Spec = infrav1.IngotHostSpec{
		BMC:            &infrav1.BMC{Address: "redfish://bmc", CredentialsRef: infrav1.LocalReference{Name: "bmc"}},
		BootMACAddress: "52:54:00:00:00:01",
		NetworkRef:     infrav1.NetworkReference{Name: "net"},
		Cleaning:       infrav1.CleaningMetadata,
		Record:         &infrav1.HostRecord{InspectedTime: metav1.NewTime(day().Add(-24 * time.Hour))},
	}
	host.Status.Conditions = []metav1.Condition{{Type: infrav1.HostAvailableCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonAvailable, ObservedGeneration: 1}}
	hw := &infrav1.IngotHardware{Spec: infrav1.IngotHardwareSpec{Architecture: "amd64", MemoryBytes: 64 << 30,
		CPU: infrav1.HardwareCPU{Cores: 16, Threads: 32}, Disks: []infrav1.HardwareDisk{disk("/dev/sda", 480, "s")}}}
	return Candidate{Host: host, Hardware: hw}
}

func day() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

func disk(name string, gigabytes int64, serial string) infrav1.HardwareDisk {
	return infrav1.HardwareDisk{Name: name, SerialNumber: serial, SizeBytes: new(gigabytes * inventory.BytesPerGB), Rotational: new(false)}
}

func claimOf(state infrav1.ClaimState) *infrav1.HostClaim {
	return &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m1"}, ClusterName: "c1", InstanceID: "i",
		Attempt: 1, State: state, Cleaning: infrav1.CleaningMetadata}
}

func mirror() *infrav1.SoftwareRAID { return &infrav1.SoftwareRAID{Level: infrav1.SoftwareRAIDLevel1} }

func request(change func(*SelectionRequest)) SelectionRequest {
	r := SelectionRequest{ClusterName: "c1", Machine: &infrav1.IngotMachine{}, Cluster: &infrav1.IngotCluster{}}
	r.Machine.Namespace, r.Machine.Name = "metal", "m1"
	r.Cluster.Namespace = "metal"
	change(&r)
	return r
}

// recorded is a host with addresses; an empty one is not recorded.
func recorded(name, ipv4, ipv6 string) Candidate {
	c := candidate(name, "r1")
	if ipv4 != "" {
		c.Hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", IP: ipv4}
	}
	if ipv6 != "" {
		c.Hardware.Spec.IPv6Address = &infrav1.RecordedAddress{NetworkName: "net", IP: ipv6}
	}
	return c
}

// endpoint asks for a machine of a cluster that is reached there.
func endpoint(host string, controlPlane bool) func(*SelectionRequest) {
	return func(r *SelectionRequest) {
		r.Cluster.Spec.ControlPlaneEndpoint.Host, r.ControlPlane = host, controlPlane
	}
}

func TestSelect(t *testing.T) {
	large := candidate("large", "r2")
	large.Hardware.Spec.MemoryBytes = 256 << 30
	with := func(name string, change func(*infrav1.IngotHost)) Candidate {
		c := candidate(name, "r1")
		change(c.Host)
		return c
	}
	for _, tc := range []struct {
		name   string
		change func(*SelectionRequest)
		hosts  []Candidate
		want   string // host, or a part of the message
	}{
		{"best fit", func(*SelectionRequest) {}, []Candidate{large, candidate("small", "r1")}, "small"},
		{"least used rack before best fit", func(r *SelectionRequest) { r.DomainUse = map[string]int{"r1": 2, "r2": 1} }, []Candidate{large, candidate("small", "r1")}, "large"},
		{"strict failure domain", func(r *SelectionRequest) { r.FailureDomain = "r3" }, []Candidate{large},
			`in failure domain "r3". Nearest miss: large (in failure domain "r2")`},
		{"a free host is nearer than one in use", func(r *SelectionRequest) { r.FailureDomain = "r1" },
			[]Candidate{with("a", func(h *infrav1.IngotHost) { h.Spec.Claim = claimOf(infrav1.ClaimProvisioned) }), large}, `Nearest miss: large (in failure domain "r2")`},
		{"a free host is nearer than one about to be in use", func(r *SelectionRequest) { r.FailureDomain, r.Named = "r1", map[string]bool{"a": true} },
			[]Candidate{candidate("a", "r1"), large}, `Nearest miss: large (in failure domain "r2")`},
		{"minimum", func(r *SelectionRequest) {
			r.Machine.Spec.HostSelector = &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Memory: new(resource.MustParse("128Gi"))}}
		}, []Candidate{large, candidate("small", "r1")}, "large"},
		{"cores, disk and architecture too small", func(r *SelectionRequest) {
			r.Machine.Spec.HostSelector = &infrav1.HostSelector{Architecture: "arm64", Minimum: &infrav1.HardwareMinimum{Cores: new(int32(32)), Disk: new(resource.MustParse("500G"))}}
		}, []Candidate{large}, `large (architecture "amd64"; 16 cores of 32; root disk of 480G of 500G)`},
		{"machine's labels", func(r *SelectionRequest) {
			r.Machine.Spec.HostSelector = &infrav1.HostSelector{MatchLabels: map[string]string{"kind": "storage"}}
		}, []Candidate{large}, "1 without the labels asked for"},
		{"cluster's part", func(r *SelectionRequest) {
			r.Cluster.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "storage"}}
		}, []Candidate{large}, "1 not in the cluster's part of the inventory"},
		{"control plane", func(r *SelectionRequest) {
			r.ControlPlane = true
			r.Cluster.Spec.ControlPlaneSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "storage"}}
		}, []Candidate{large}, "1 not for control planes"},
		{"worker ignores the control plane's selector", func(r *SelectionRequest) {
			r.Cluster.Spec.ControlPlaneSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "storage"}}
		}, []Candidate{large}, "large"},
		{"bad selector", func(r *SelectionRequest) {
			r.Cluster.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}}
		}, []Candidate{large}, "hostSelector of the IngotCluster"},
		{"dirty for another cluster", func(*SelectionRequest) {}, []Candidate{with("d", func(h *infrav1.IngotHost) { h.Spec.Record.LastClusterName = "c2" })}, "not cleaned since it served cluster c2"},
		{"dirty for its own", func(*SelectionRequest) {}, []Candidate{with("d", func(h *infrav1.IngotHost) { h.Spec.Record.LastClusterName = "c1" })}, "d"},
		{"named by another machine", func(r *SelectionRequest) { r.Named = map[string]bool{"large": true} }, []Candidate{large}, "All suitable hosts are claimed, busy or reserved. Of 1 hosts: 1 chosen by another machine."},
		{"claimed", func(*SelectionRequest) {}, []Candidate{with("d", func(h *infrav1.IngotHost) { h.Spec.Claim = claimOf(infrav1.ClaimProvisioned) })}, "1 claimed"},
		{"kept off", func(*SelectionRequest) {}, []Candidate{with("d", func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff })}, "kept off"},
		{"maintenance", func(*SelectionRequest) {}, []Candidate{with("d", func(h *infrav1.IngotHost) { h.Spec.Maintenance = new(true) })}, "in maintenance"},
		{"status lost", func(*SelectionRequest) {}, []Candidate{with("d", func(h *infrav1.IngotHost) { h.Status = infrav1.IngotHostStatus{} })}, "not observed"},
		{"spec changed since", func(*SelectionRequest) {}, []Candidate{with("d", func(h *infrav1.IngotHost) { h.Generation++ })}, "not observed"},
		{"paused for a move", func(*SelectionRequest) {}, []Candidate{with("d", func(h *infrav1.IngotHost) { h.Annotations = map[string]string{infrav1.MovePausedAnnotation: ""} })}, "1 paused"},
		{"paused", func(*SelectionRequest) {}, []Candidate{with("d", func(h *infrav1.IngotHost) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })}, "1 paused"},
		{"no root disk", func(r *SelectionRequest) {
			r.Machine.Spec.RootDeviceHints = &infrav1.RootDeviceHints{SerialNumber: "x"}
		}, []Candidate{large}, "without a root disk"},
		{"no facts", func(*SelectionRequest) {}, []Candidate{{Host: large.Host}}, "without hardware facts"},
		{"a worker, where its control plane is reached", endpoint("2001:DB8::7", false), []Candidate{recorded("at", "192.0.2.7", "2001:db8::7")},
			"1 with the endpoint of the cluster"},
		{"one of two, where its control plane is reached", endpoint("192.0.2.7", false), []Candidate{recorded("at", "192.0.2.7", ""), recorded("beside", "192.0.2.8", "")}, "beside"},
		{"a control plane, where it is reached", endpoint("192.0.2.7", true), []Candidate{recorded("at", "192.0.2.7", "")}, "at"},
		{"a worker, and an endpoint by name", endpoint("api.example.com", false), []Candidate{recorded("at", "192.0.2.7", "nonsense")}, "at"},
		{"another namespace", func(r *SelectionRequest) { r.Machine.Namespace = "other" }, []Candidate{large}, "has no IngotHost"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Select(request(tc.change), tc.hosts)
			if got.Host != nil {
				if diff := cmp.Diff([]string{tc.want, "/dev/sda", got.Host.Labels[infrav1.RackLabel]}, []string{got.Host.Name, got.RootDisk.Name, got.FailureDomain}); diff != "" {
					t.Errorf("pick (-want +got):\n%s", diff)
				}
				return
			}
			if text := got.Message + " " + got.Counts; !strings.Contains(text, tc.want) || got.Reason == "" {
				t.Errorf("message %q does not say %q", text, tc.want)
			}
		})
	}
}

func TestSelectSpreadsAndIsDeterministic(t *testing.T) {
	var hosts []Candidate
	for i := range 50 {
		hosts = append(hosts, candidate(fmt.Sprintf("host-%d", i), "r1"))
	}
	picked := map[string]bool{}
	for i := range 200 {
		r := request(func(r *SelectionRequest) { r.Machine.Name = fmt.Sprintf("m-%d", i) })
		first := Select(r, hosts).Host.Name
		slices.Reverse(hosts)
		if again := Select(r, hosts).Host.Name; again != first {
			t.Fatalf("the order of the candidates matters: %s, %s", first, again)
		}
		picked[first] = true
	}
	if len(picked) < 40 {
		t.Errorf("200 machines want only %d of 50 equal hosts", len(picked))
	}
}

func TestSelectExplanationIsBounded(t *testing.T) {
	var hosts []Candidate
	for i := range 300 {
		c := candidate(strings.Repeat("x", 60)+fmt.Sprint(i), strings.Repeat("r", 63))
		c.Host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
		hosts = append(hosts, c)
	}
	selector := map[string]string{}
	for i := range 32 {
		selector[fmt.Sprintf("key-%d", i)] = strings.Repeat("v", 60)
	}
	got := Select(request(func(r *SelectionRequest) {
		r.FailureDomain = strings.Repeat("f", 256)
		r.Machine.Spec.HostSelector = &infrav1.HostSelector{MatchLabels: selector, Architecture: "arm64"}
	}), hosts)
	if n := utf8.RuneCountInString(got.Message); n > inventory.MaxText || !strings.Contains(got.Message, "Nearest miss") || got.Counts != "Of 300 hosts: 300 claimed, 300 in another failure domain, 300 of another architecture, 300 without the labels asked for." {
		t.Errorf("%d characters: %s", n, got.Message)
	}
}

// Select skips a host with one disk for a mirror, and explains that.
func TestSelectWithMirror(t *testing.T) {
	one, two := candidate("one", "r1"), candidate("two", "r1")
	two.Hardware.Spec.Disks = []infrav1.HardwareDisk{disk("/dev/sda", 480, "A"), disk("/dev/sdb", 240, "B")}
	asks := func(least string) SelectionRequest {
		return request(func(r *SelectionRequest) {
			r.Machine.Spec.SoftwareRAID = mirror()
			r.Machine.Spec.HostSelector = &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Disk: new(resource.MustParse(least))}}
		})
	}
	if got := Select(asks("200G"), []Candidate{one, two}); got.Host == nil || got.Host.Name != "two" || got.RootDisk.SerialNumber != "B" {
		t.Errorf("%+v", got)
	}
	if got := Select(asks("200G"), []Candidate{one}); got.Host != nil || !strings.Contains(got.Message, "softwareRAID needs two disks") {
		t.Errorf("%+v", got)
	}
	if got := Select(asks("300G"), []Candidate{two}); got.Host != nil || !strings.Contains(got.Message, "root disk of 240G of 300G") {
		t.Errorf("the smaller disk does not count: %+v", got)
	}
}

// A host in critical health is claimable, but selected last.
func TestSelectCriticalHealthLast(t *testing.T) {
	ill := func(name, reason string) Candidate {
		c := candidate(name, "r1")
		c.Host.Status.Conditions = append(c.Host.Status.Conditions, metav1.Condition{Type: infrav1.HostHealthyCondition, Status: metav1.ConditionFalse, Reason: reason})
		return c
	}
	large := candidate("large", "r1")
	large.Hardware.Spec.MemoryBytes = 256 << 30
	elsewhere := candidate("elsewhere", "r2")
	busy := func(r *SelectionRequest) { r.DomainUse = map[string]int{"r2": 1} }
	for name, tc := range map[string]struct {
		change func(*SelectionRequest)
		hosts  []Candidate
		want   string
	}{
		"before a better fit":          {func(*SelectionRequest) {}, []Candidate{ill("ill", infrav1.ReasonHealthCritical), large}, "large"},
		"a warning is none":            {func(*SelectionRequest) {}, []Candidate{ill("ill", infrav1.ReasonHealthWarning), large}, "ill"},
		"better than none":             {func(*SelectionRequest) {}, []Candidate{ill("ill", infrav1.ReasonHealthCritical)}, "ill"},
		"the domains are spread first": {busy, []Candidate{ill("ill", infrav1.ReasonHealthCritical), elsewhere}, "ill"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Select(request(tc.change), tc.hosts)
			if got.Host == nil || got.Host.Name != tc.want {
				t.Errorf("picked %+v (%s), want %s", got.Host, got.Message, tc.want)
			}
		})
	}
}
