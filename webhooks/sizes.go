// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// The smallest sizes that a user can mean. A smaller one is almost always a number without a unit.
// CEL rules cannot check this: the API server assumes a string of unlimited length for a quantity.
var (
	minMemory   = resource.MustParse("1Gi")
	minDiskSize = resource.MustParse("1G")
)

// checkMinimum rejects sizes that are too small. nil is valid.
func checkMinimum(path *field.Path, minimum *v1beta2.HardwareMinimum) field.ErrorList {
	if minimum == nil {
		return nil
	}
	return append(checkSize(path.Child("memory"), minimum.Memory, minMemory, "64Gi"),
		checkSize(path.Child("disk"), minimum.Disk, minDiskSize, "480G")...)
}

// checkChangedDisks rejects invalid sizes in the root device hints and RAID members that differ
// from before.
func checkChangedDisks(path *field.Path, before, after v1beta2.IngotMachineSpec) field.ErrorList {
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(before.RootDeviceHints, after.RootDeviceHints) {
		errs = checkHints(path.Child("rootDeviceHints"), after.RootDeviceHints)
	}
	if !equality.Semantic.DeepEqual(before.SoftwareRAID, after.SoftwareRAID) {
		errs = append(errs, checkRAID(path.Child("softwareRAID"), after.SoftwareRAID)...)
	}
	return errs
}

// checkRAID rejects invalid sizes in the hints of the members. nil is valid.
func checkRAID(path *field.Path, raid *v1beta2.SoftwareRAID) field.ErrorList {
	if raid == nil {
		return nil
	}
	var errs field.ErrorList
	for i := range raid.Members {
		errs = append(errs, checkHints(path.Child("members").Index(i), &raid.Members[i])...)
	}
	return errs
}

// checkHostDisks rejects invalid sizes in the hints of a host that differ from before. before is
// nil for a new host.
func checkHostDisks(before, host *v1beta2.IngotHost) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if before == nil || !equality.Semantic.DeepEqual(before.Spec.RootDeviceHints, host.Spec.RootDeviceHints) {
		errs = checkHints(path.Child("rootDeviceHints"), host.Spec.RootDeviceHints)
	}
	if before == nil || !equality.Semantic.DeepEqual(before.Spec.DiskCleaning, host.Spec.DiskCleaning) {
		for i := range host.Spec.DiskCleaning {
			errs = append(errs, checkHints(path.Child("diskCleaning").Index(i).Child("hints"), &host.Spec.DiskCleaning[i].Hints)...)
		}
	}
	return errs
}

// checkHints rejects sizes that are too small, and a range that no disk can be in. nil is valid.
func checkHints(path *field.Path, hints *v1beta2.RootDeviceHints) field.ErrorList {
	if hints == nil {
		return nil
	}
	errs := append(checkSize(path.Child("minSize"), hints.MinSize, minDiskSize, "480G"),
		checkSize(path.Child("maxSize"), hints.MaxSize, minDiskSize, "480G")...)
	if len(errs) == 0 && hints.MinSize != nil && hints.MaxSize != nil && hints.MinSize.Cmp(*hints.MaxSize) > 0 {
		errs = append(errs, field.Invalid(path.Child("minSize"), hints.MinSize.String(),
			fmt.Sprintf("must not be above maxSize %s; lower minSize or raise maxSize", hints.MaxSize)))
	}
	return errs
}

func checkSize(path *field.Path, size *resource.Quantity, least resource.Quantity, example string) field.ErrorList {
	if size == nil || size.Cmp(least) >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, size.Value(), // as typed without a unit
		fmt.Sprintf("must be at least %s; write the unit, for example %s", &least, example))}
}
