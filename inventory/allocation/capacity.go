// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Capacity is that of the smallest Node that a template can create.
type Capacity struct {
	// CPUs is the number of logical processors. MemoryBytes is the usable memory.
	CPUs        int64
	MemoryBytes int64
	// Architecture as GOARCH. Empty: hosts of several architectures suit.
	Architecture string
}

// TemplateCapacity returns the least CPUs and memory of the hosts that a template can select, for
// the cluster autoscaler (contract rule M65). It includes hosts that are in use, so that the
// result does not change with each claim, and omits hosts without hardware facts. ok is false if
// no host is left. image is the template's image, whose architecture counts. Nil: any.
//
// It fails with ErrSelectorInvalid.
func TemplateCapacity(template *infrav1.IngotMachineTemplate, cluster *infrav1.IngotCluster, image *infrav1.IngotImage, candidates []Candidate) (capacity Capacity, ok bool, err error) {
	machine := &infrav1.IngotMachine{Spec: template.Spec.Template.Spec}
	machine.Namespace = template.Namespace
	request := SelectionRequest{Machine: machine, Cluster: cluster}
	if image != nil {
		request.Architecture = image.Spec.Architecture
	}
	criteria, err := newCriteria(request)
	if err != nil {
		return Capacity{}, false, err
	}
	for _, candidate := range candidates {
		if candidate.Host.Namespace != template.Namespace || !criteria.suits(candidate) {
			continue
		}
		has := capacityOf(candidate.Hardware.Spec)
		if !ok {
			capacity, ok = has, true
			continue
		}
		capacity.CPUs = min(capacity.CPUs, has.CPUs)
		capacity.MemoryBytes = min(capacity.MemoryBytes, has.MemoryBytes)
		if capacity.Architecture != has.Architecture {
			capacity.Architecture = ""
		}
	}
	return capacity, ok, nil
}

// suits reports whether place and hardware suit. It ignores the state of the host.
func (c *criteria) suits(candidate Candidate) bool {
	j := judgement{Candidate: candidate}
	c.judgePlace(&j)
	c.judgeHardware(&j)
	return len(j.misses) == 0
}

func capacityOf(spec infrav1.IngotHardwareSpec) Capacity {
	cpus := int64(spec.CPU.Threads)
	if cpus == 0 {
		cpus = int64(spec.CPU.Cores)
	}
	return Capacity{CPUs: cpus, MemoryBytes: spec.MemoryBytes, Architecture: spec.Architecture}
}
