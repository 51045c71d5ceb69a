// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Capacity is what the smallest Node that a template can make has.
type Capacity struct {
	// CPUs counts logical processors, as a Node does; MemoryBytes is usable memory.
	CPUs        int64
	MemoryBytes int64
	// Architecture in Go's terms; empty when hosts of several architectures suit.
	Architecture string
}

// TemplateCapacity returns the capacity that any host which a template can select
// has at least: each figure is the least among the hosts whose place and hardware
// suit, whether they are free just now or not, so that the cluster autoscaler can
// count on it and it does not change with every claim (contract rule M65). Hosts
// that have no hardware facts yet do not count; ok is false when none does. image is
// what the template's imageRef names, whose architecture machines ask for; nil: any.
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

// suits says whether place and hardware suit, whatever the host does now.
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
