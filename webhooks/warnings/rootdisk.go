// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// RootDisk warns about root device hints that match none of the disks of the host's inspection.
// before is nil for a new host; unchanged hints are not checked.
func (c Checker) RootDisk(ctx context.Context, before, host *v1beta2.IngotHost) []string {
	hints := host.Spec.RootDeviceHints
	if hints == nil || before != nil && equality.Semantic.DeepEqual(before.Spec.RootDeviceHints, hints) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	hardware := &v1beta2.IngotHardware{}
	err := c.Reader.Get(ctx, client.ObjectKeyFromObject(host), hardware, client.UnsafeDisableDeepCopy)
	if err != nil || !inventory.IsInspected(hardware) {
		return nil
	}
	_, err = inventory.SelectRootDisk(hardware.Spec.Disks, hints)
	if err == nil {
		return nil
	}
	path := field.NewPath("spec", "rootDeviceHints")
	var warnings []string
	warn := func(text string) {
		warnings = append(warnings, fmt.Sprintf("%s; correct it, or add such a disk and annotate the host with %s while it is free: "+
			"until then only machines with their own hints or softwareRAID.members get the host", inventory.Truncate(text, maxDetail), inventory.CommandText(v1beta2.InspectAnnotation)))
	}
	unmet := inventory.UnmetHints(hardware.Spec.Disks, hints)
	for _, h := range unmet {
		warn(fmt.Sprintf("%s matches none of the inspected disks: %s", hintValue(path, h), h.Disks))
	}
	if len(unmet) == 0 {
		warn(fmt.Sprintf("%s: %v", path, err))
	}
	return warnings
}

func hintValue(path *field.Path, h inventory.UnmetHint) valued {
	if text, ok := h.Value.(string); ok {
		return valued{path.Child(h.Field), fmt.Sprintf("%q", text)}
	}
	return valued{path.Child(h.Field), fmt.Sprint(h.Value)}
}
