// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// promise reserves hosts for MachineDeployment "md" of a Cluster.
func (s *site) promise(cluster string, count int32) {
	s.t.Helper()
	r := &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: cluster}}
	r.Spec.Groups = []infrav1.ReservedGroup{{Name: "md", Count: count}}
	s.create(r)
	if r.Spec.State != infrav1.ReservationReserved {
		s.t.Errorf("the state of a reservation that a person writes is %q", r.Spec.State)
	}
}

func inDeployment(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
	m.Labels[clusterv1.MachineDeploymentNameLabel] = "md"
}

// Machines get no hosts reserved for other Clusters; machines of the reserving Cluster do.
func testReservations(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h1", "")
	s.promise("other", 1)
	s.machine("m1")
	s.settle("m1")
	s.want("m1", infrav1.MachineHostClaimedCondition, metav1.ConditionFalse, infrav1.ReasonNoMatchingHost, "All suitable hosts are claimed, busy or reserved")
	s.host("h2", "")
	if hosts := s.settleOn("m1"); len(hosts) != 1 {
		t.Errorf("one of two is left, and m1 has %v", hosts)
	}
	s.promise("c", 1)
	s.host("h3", "")
	s.machine("m2", inDeployment)
	if hosts := s.settleOn("m2"); len(hosts) != 1 {
		t.Errorf("it was promised to its Cluster, and m2 has %v", hosts)
	}
	s.machine("m3", inDeployment)
	if hosts := s.settleOn("m3"); len(hosts) != 0 {
		t.Errorf("the rest was promised to another, and m3 has %v", hosts)
	}
	s.must(s.api.Delete(s.ctx, &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "other"}}))
	if hosts := s.settleOn("m3"); len(hosts) != 1 {
		t.Errorf("the promise has ended, and m3 has %v", hosts)
	}
}

func (s *site) settleOn(name string) []string {
	s.t.Helper()
	s.settle(name)
	return s.claimsOn(name)
}

// A reservation made between selection and claim clears the intent.
func testReservationAfterTheSelection(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h1", "")
	s.machine("m1", func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "h1", InstanceID: "1b0e5e0c-9c3e-4b59-9a6c-6a1f0c3f6f11"}.String()
	})
	s.promise("other", 1)
	for range 4 { // finalizer, conditions and the rejected claim
		s.step("m1")
	}
	if s.get("m1").Spec.ProviderID != "" || len(s.claimsOn("m1")) != 0 {
		t.Errorf("claimed what was promised: %+v", s.get("m1").Spec)
	}
	if s.eventCount(infrav1.ReasonNotClaimed) != 1 {
		t.Errorf("events: %q", s.recorded)
	}
}

// A missing IngotImage is waited for, its architecture restricts the hosts, and the claim copies
// it.
func testImageReference(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h1", "")
	name := "os-" + s.ns
	s.machine("m1", func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Spec.Image, m.Spec.ImageRef = infrav1.Image{}, &infrav1.ImageReference{Name: name}
	})
	s.settle("m1")
	s.want("m1", infrav1.MachineHostClaimedCondition, metav1.ConditionFalse, infrav1.ReasonImageMissing, "IngotImage "+name+" of spec.imageRef does not exist. Create it")
	if s.eventCount(infrav1.ReasonImageMissing) != 1 {
		t.Errorf("events: %q", s.recorded)
	}
	arm := s.catalogue(name, "arm64")
	s.settle("m1")
	s.want("m1", infrav1.MachineHostClaimedCondition, metav1.ConditionFalse, infrav1.ReasonNoMatchingHost, `h1 (architecture "amd64")`)
	if got := s.machinesOfImage(s.ctx, arm); len(got) != 1 || got[0].Name != "m1" {
		t.Errorf("the image brings up %v", got)
	}
	s.must(s.api.Delete(s.ctx, arm))
	image := s.catalogue(name, "amd64")
	s.settle("m1")
	if diff := cmp.Diff(image.Spec.Image(), s.getHost("h1").Spec.Claim.Image); diff != "" {
		t.Errorf("image of the claim (-want +got):\n%s", diff)
	}
	if got := s.machinesOfImage(s.ctx, image); len(got) != 0 {
		t.Errorf("m1 has its host, and the image brings up %v", got)
	}
}

// A host that rejected the image is not selected while another is free.
func testImageThatAHostRejected(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	for _, name := range []string{"h1", "h2", "h3"} {
		s.host(name, "")
	}
	for _, name := range []string{"h1", "h2"} {
		s.editHost(name, func(h *infrav1.IngotHost) {
			h.Spec.Record.RefusedImages = []infrav1.RefusedImage{{Checksums: []string{image().Checksum}, Reason: "DiskTooSmall",
				Disks: []infrav1.DiskReference{{SerialNumber: "d-" + name, SizeBytes: ptr.To[int64](500e9)}}}}
		})
		s.available(name)
	}
	catalogued := "refused-" + s.ns
	s.catalogue(catalogued, "amd64")
	s.machine("m1", func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Spec.Image, m.Spec.ImageRef = infrav1.Image{}, &infrav1.ImageReference{Name: catalogued}
	})
	s.machine("m2")
	got := append(s.settleOn("m1"), s.settleOn("m2")...)
	if len(got) != 2 || got[0] != "h3" {
		t.Errorf("m1 and m2 have %v, want h3, which may take the image, and then one of the others", got)
	}
}

// An image that is deleted between selection and claim clears the intent.
func testImageGone(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h1", "")
	s.machine("m1", func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Spec.Image, m.Spec.ImageRef = infrav1.Image{}, &infrav1.ImageReference{Name: "never"}
		m.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "h1", InstanceID: "1b0e5e0c-9c3e-4b59-9a6c-6a1f0c3f6f11"}.String()
	})
	s.settle("m1")
	s.want("m1", infrav1.MachineHostClaimedCondition, metav1.ConditionFalse, infrav1.ReasonImageMissing, "never")
	if s.get("m1").Spec.ProviderID != "" || len(s.claimsOn("m1")) != 0 {
		t.Errorf("claimed without an image: %+v", s.get("m1").Spec)
	}
}

// catalogue creates an IngotImage, which is cluster-scoped, until the test ends.
func (s *site) catalogue(name, arch string) *infrav1.IngotImage {
	s.t.Helper()
	inline := image()
	i := &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.IngotImageSpec{
		KubernetesVersion: "v1.34.2", OS: "ubuntu-24.04", Architecture: arch, URL: inline.URL, Checksum: inline.Checksum}}
	s.create(i)
	return i
}

func testImageOrReference(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	for name, change := range map[string]func(*infrav1.IngotMachineSpec){
		"neither": func(m *infrav1.IngotMachineSpec) { m.Image = infrav1.Image{} },
		"both":    func(m *infrav1.IngotMachineSpec) { m.ImageRef = &infrav1.ImageReference{Name: "os"} },
	} {
		m := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
		m.Spec.Image = image()
		change(&m.Spec)
		if err := s.api.Create(s.ctx, m); err == nil {
			t.Errorf("%s: admitted", name)
		}
	}
}

func TestCapacityReleased(t *testing.T) {
	shows := func(claimed, outstanding int32, change ...func(*infrav1.IngotReservation)) *infrav1.IngotReservation {
		r := &infrav1.IngotReservation{Status: infrav1.IngotReservationStatus{Claimed: new(claimed), Outstanding: new(outstanding)}}
		for _, c := range change {
			c(r)
		}
		return r
	}
	for name, tc := range map[string]struct {
		from, to *infrav1.IngotReservation
		want     bool
	}{
		"is looked at first":           {&infrav1.IngotReservation{}, shows(0, 5), false},
		"is touched":                   {shows(0, 5), shows(0, 5, func(r *infrav1.IngotReservation) { r.Labels = map[string]string{"a": "b"} }), false},
		"is changed":                   {shows(0, 5), shows(0, 5, func(r *infrav1.IngotReservation) { r.Generation = 2 }), true},
		"a host is claimed":            {shows(0, 5), shows(1, 4), false},
		"three at once":                {shows(0, 5), shows(3, 2), false},
		"expires":                      {shows(2, 3), shows(2, 0), true},
		"expires as a host is claimed": {shows(2, 3), shows(3, 0), true},
		"a machine is deleted":         {shows(2, 3), shows(1, 4), false},
		"asks for less":                {shows(2, 3), shows(2, 1), true},
		"asks for less, has less":      {shows(2, 3), shows(1, 2), true},
	} {
		if got := capacityReleased().Update(event.UpdateEvent{ObjectOld: tc.from, ObjectNew: tc.to}); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	old := shows(0, 5)
	if capacityReleased().Create(event.CreateEvent{Object: old}) || !capacityReleased().Delete(event.DeleteEvent{Object: old}) || capacityReleased().Update(event.UpdateEvent{ObjectOld: &infrav1.IngotHost{}, ObjectNew: &infrav1.IngotHost{}}) {
		t.Error("a promise leaves room when it ends, not when it is made")
	}
}

// Of two selections the later one counts the earlier, with or without memory.
func TestCheckIsUnsureWithAnOldCache(t *testing.T) {
	s := &scope{machine: &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", UID: "1"}},
		owner: &clusterv1.Machine{}, cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, ingotCluster: &infrav1.IngotCluster{}}
	id := infrav1.ProviderID{Namespace: "n", Host: "h", InstanceID: "i"}
	in := inventorySnapshot{machines: []infrav1.IngotMachine{*s.machine.DeepCopy()}, reservations: []infrav1.IngotReservation{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "other"}, Spec: infrav1.IngotReservationSpec{Groups: []infrav1.ReservedGroup{{Name: "md", Count: 1}}}}}}
	var p recentSelections
	for _, tc := range []struct {
		providerID string
		want       verdict
	}{{"", unsure}, {"ingot://n/elsewhere/i", unsure}, {id.String(), violated}} {
		in.machines[0].Spec.ProviderID = tc.providerID
		if got, err := p.check(s, in, time.Now(), id); err != nil || got != tc.want {
			t.Errorf("cache shows %q: %v, %v; want %v", tc.providerID, got, err, tc.want)
		}
	}
	in.reservations = nil
	if got, err := p.check(s, in, time.Now(), id); err != nil || got != respected {
		t.Errorf("nothing promised: %v, %v", got, err)
	}
}
