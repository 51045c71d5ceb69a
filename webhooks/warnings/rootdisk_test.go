// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// New root device hints that match none of the host's disks cause a warning.
func TestRootDisk(t *testing.T) {
	two := hardware("h", "amd64", 8, 64, 500)
	second := two.Spec.Disks[0]
	second.Name, second.SerialNumber, second.SizeBytes = "/dev/sdb", "S-h2", new(int64(2_000_000_000_000))
	two.Spec.Disks = append(two.Spec.Disks, second)
	alike := two.DeepCopy()
	alike.Spec.Disks[1].SerialNumber = "S-h"
	small := two.DeepCopy()
	small.Spec.Disks = small.Spec.Disks[:1]
	small.Spec.Disks[0].SizeBytes = new(int64(2_000_000_000))
	diskless := two.DeepCopy()
	diskless.Spec.Disks = nil
	hinting := func(hints v1beta2.RootDeviceHints) *v1beta2.IngotHost {
		h := host("h")
		h.Spec.RootDeviceHints = &hints
		return h
	}
	named := func(serial string) *v1beta2.IngotHost {
		return hinting(v1beta2.RootDeviceHints{SerialNumber: serial})
	}
	otherwise := named("S-9")
	otherwise.Finalizers = []string{"x"}
	const remedy = "; correct it, or add such a disk and annotate the host with ingot.infrastructure.cluster.x-k8s.io/inspect=$(date -u +%FT%TZ) while it is free: " +
		"until then only machines with their own hints or softwareRAID.members get the host"
	strange := []string{`spec.rootDeviceHints.serialNumber: "S-9" matches none of the inspected disks: /dev/sda "S-h", /dev/sdb "S-h2"` + remedy}
	tests := []struct {
		name         string
		exist        []client.Object
		before, host *v1beta2.IngotHost
		want         []string
	}{
		{"nobody has inspected it", nil, nil, named("S-9"), nil},
		{"it has no more than an address", []client.Object{recorded("h")}, nil, named("S-9"), nil},
		{"another host was inspected", []client.Object{hardware("other", "amd64", 8, 64, 500)}, nil, named("S-9"), nil},
		{"without hints", []client.Object{small}, nil, host("h"), nil},
		{"a disk that it has", []client.Object{two}, nil, named("S-h2"), nil},
		{"made with a disk that it has not", []client.Object{two}, nil, named("S-9"), strange},
		{"given a disk that it has not", []client.Object{two}, host("h"), named("S-9"), strange},
		{"from one to one that it has not", []client.Object{two}, named("S-h"), named("S-9"), strange},
		{"wrong, and changed otherwise", []client.Object{two}, named("S-9"), otherwise, nil},
		{"wrong, and mended", []client.Object{two}, named("S-9"), named("S-h"), nil},
		{"wrong, and taken away", []client.Object{two}, named("S-9"), host("h"), nil},
		{"two hints that hold for none", []client.Object{two}, nil,
			hinting(v1beta2.RootDeviceHints{MinSize: new(resource.MustParse("3000G")), Rotational: new(true)}), []string{
				"spec.rootDeviceHints.minSize: \"3T\" matches none of the inspected disks: /dev/sda (500G), /dev/sdb (2T)" + remedy,
				"spec.rootDeviceHints.rotational: true matches none of the inspected disks: /dev/sda false, /dev/sdb false" + remedy}},
		{"each holds for another disk", []client.Object{two}, nil,
			hinting(v1beta2.RootDeviceHints{SerialNumber: "S-h", MinSize: new(resource.MustParse("1000G"))}), []string{
				"spec.rootDeviceHints: no disk suits: root device hints serialNumber S-h, minSize 1T, of /dev/sda (500G), /dev/sdb (2T)" + remedy}},
		{"too small to be meant", []client.Object{small}, nil, hinting(v1beta2.RootDeviceHints{Rotational: new(false)}), []string{
			"spec.rootDeviceHints: no disk suits: root device hints rotational false, of /dev/sda (2G)" + remedy}},
		{"two disks of one name", []client.Object{alike}, nil, named("S-h"), []string{
			`spec.rootDeviceHints: disk cannot be told from another: /dev/sda and /dev/sdb have the same serial number "S-h" and WWN ""; several paths to one disk are not supported` + remedy}},
		{"no disks", []client.Object{diskless}, nil, hinting(v1beta2.RootDeviceHints{Model: "x"}), []string{
			`spec.rootDeviceHints.model: "x" matches none of the inspected disks: none` + remedy}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.want, newChecker(t, tt.exist...).RootDisk(t.Context(), tt.before, tt.host))
		})
	}
}
