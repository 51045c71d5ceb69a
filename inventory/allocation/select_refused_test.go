// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// A host that refused the image is selected last. As the best fit it would be selected forever.
func TestSelectRefusingLast(t *testing.T) {
	small, large, elsewhere := candidate("small", "r1"), candidate("large", "r1"), candidate("elsewhere", "r2")
	small.Hardware.Spec.Disks = []infrav1.HardwareDisk{disk("/dev/sda", 32, "a"), disk("/dev/sdb", 400, "b")}
	refs := inventory.DiskRefsOf(small.Hardware.Spec.Disks)
	small.Host.Spec.Record.RefusedImages = []infrav1.RefusedImage{
		{Checksums: []string{"x"}, Disks: refs[:1], Reason: agentapi.FailureDiskTooSmall},
		{Checksums: []string{"x"}, Disks: refs, Reason: agentapi.FailureMirrorRefused},
	}
	large.Hardware.Spec.Disks = []infrav1.HardwareDisk{disk("/dev/sda", 500, "c"), disk("/dev/sdb", 700, "d")}
	names := func(checksum string) func(*SelectionRequest) {
		return func(r *SelectionRequest) { r.Checksums = []string{checksum} }
	}
	for name, tc := range map[string]struct {
		change func(*SelectionRequest)
		hosts  []Candidate
		want   string
	}{
		"before a better fit":   {names("x"), []Candidate{small, large}, "large"},
		"for this image alone":  {names("y"), []Candidate{small, large}, "small"},
		"better than none":      {names("x"), []Candidate{small}, "small"},
		"before a rack in less": {func(r *SelectionRequest) { names("x")(r); r.DomainUse = map[string]int{"r2": 1} }, []Candidate{small, elsewhere}, "elsewhere"},
		"on this disk alone": {func(r *SelectionRequest) {
			names("x")(r)
			r.Machine.Spec.RootDeviceHints = &infrav1.RootDeviceHints{MinSize: new(resource.MustParse("100G"))}
		}, []Candidate{small, large}, "small"},
		"two disks that make no mirror": {func(r *SelectionRequest) { names("y")(r); r.Machine.Spec.SoftwareRAID = mirror() }, []Candidate{small, large}, "large"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Select(request(tc.change), tc.hosts)
			if got.Host == nil || got.Host.Name != tc.want {
				t.Errorf("picked %+v (%s), want %s", got.Host, got.Message, tc.want)
			}
		})
	}
}
