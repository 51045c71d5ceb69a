// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// large is an inventory of thousands of hosts, every one with a label of its own.
func large(hosts, others int) (Snapshot, PlanRequest) {
	snapshot := Snapshot{Now: promisedAt}
	for i := range hosts {
		c := candidate(fmt.Sprintf("h%05d", i), fmt.Sprintf("r%02d", i%40))
		c.Host.Labels["asset"] = fmt.Sprint(i)
		c.Hardware.Spec.MemoryBytes = int64(64<<(i%4)) << 30
		snapshot.Candidates = append(snapshot.Candidates, c)
	}
	big := &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Memory: new(resource.MustParse("256Gi"))}}
	for i := range others {
		racks := []string{fmt.Sprintf("r%02d", i%40), fmt.Sprintf("r%02d", (i+1)%40)}
		big := infrav1.ReservedGroup{Name: "big", Count: 10, HostSelector: big}
		snapshot.Reservations = append(snapshot.Reservations, reservation(fmt.Sprintf("c%03d", i),
			infrav1.ReservedGroup{Name: "cp", ControlPlane: new(true), Count: 3}, workers("md", 10, racks...), big))
	}
	request := demand(DemandGroup{Name: "cp", ControlPlane: true, Count: 3},
		DemandGroup{Name: "r1", Count: 60, FailureDomains: []string{"r01"}}, DemandGroup{Name: "md", Count: 300},
		DemandGroup{Name: "big", Count: 200, Template: infrav1.IngotMachineSpec{HostSelector: big}})
	return snapshot, request
}

// BenchmarkPlanPromise plans from a list, and from an index of it that other plans share.
func BenchmarkPlanPromise(b *testing.B) {
	for _, others := range []int{0, 10, 50} {
		for _, from := range []string{"list", "index"} {
			b.Run(fmt.Sprintf("5000-hosts-%d-promises-%s", others, from), func(b *testing.B) {
				snapshot, request := large(5000, others)
				if from == "index" {
					snapshot.Index = NewHostIndex("metal", snapshot.Candidates)
				}
				b.ReportAllocs()
				for b.Loop() {
					if plan, err := PlanReservation(request, snapshot); err != nil || !plan.Satisfied {
						b.Fatalf("%+v, %v", plan, err)
					}
				}
			})
		}
	}
}

func BenchmarkSelectWithPromises(b *testing.B) {
	for _, others := range []int{0, 10} {
		b.Run(fmt.Sprintf("5000-hosts-%d-promises", others), func(b *testing.B) {
			snapshot, _ := large(5000, others)
			r := request(func(r *SelectionRequest) { r.Reservations = Outstanding(snapshot, HoldsHost) })
			for b.Loop() {
				if got := Select(r, snapshot.Candidates); got.Host == nil {
					b.Fatal(got.Message)
				}
			}
		})
	}
}
