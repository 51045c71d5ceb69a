// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/runtimehooks/mutation"
)

// Fields of an IngotMachine that can change in place.
const (
	fieldCleaning = "cleaning"
	fieldSelector = "hostSelector"
)

// Operation is an operation of a JSON patch (RFC 6902).
type Operation = mutation.Operation

// Changes returns the operations that change current to desired, if all differing fields can change
// in place on hosts with these labels, and none otherwise. path is the path of the spec.
func Changes(path string, current, desired map[string]any, hosts []map[string]string) []Operation {
	var out []Operation
	for _, field := range differing(current, desired) {
		switch {
		case field == fieldCleaning && desired[field] != nil:
			// An unset value would mean the host's value at the time of the claim, which is unknown.
		case field == fieldSelector && sameHosts(current[field], desired[field], hosts):
		default:
			return nil
		}
		value, ok := desired[field]
		if !ok {
			out = append(out, Operation{Op: "remove", Path: path + "/" + field})
			continue
		}
		out = append(out, Operation{Op: "add", Path: path + "/" + field, Value: value})
	}
	return out
}

// differing returns the sorted fields that differ between two specs.
func differing(a, b map[string]any) []string {
	fields := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(fields)
	return slices.DeleteFunc(slices.Compact(fields), func(field string) bool {
		_, ok := a[field]
		return ok && reflect.DeepEqual(a[field], b[field])
	})
}

// sameHosts reports whether a selector differs only in its labels, and all hosts match the desired
// selector. It is false without hosts.
func sameHosts(current, desired any, hosts []map[string]string) bool {
	was, okWas := selectorOf(current)
	is, okIs := selectorOf(desired)
	if !okWas || !okIs || was.Architecture != is.Architecture || !equality.Semantic.DeepEqual(was.Minimum, is.Minimum) || len(hosts) == 0 {
		return false
	}
	return !slices.ContainsFunc(hosts, func(labels map[string]string) bool { return !allocation.SelectsLabels(&is, labels) })
}

func selectorOf(value any) (infrav1.HostSelector, bool) {
	var out infrav1.HostSelector
	data, err := json.Marshal(value)
	if err != nil {
		return out, false
	}
	return out, json.Unmarshal(data, &out) == nil
}

// Progress is the progress of UpdateMachine. The zero value means done.
type Progress struct {
	// Wait reports that the update is not applied yet, Failed that it never will be.
	Wait, Failed bool
	// Message is the reason.
	Message string
}

// Decide returns whether the desired cleaning of a machine is applied to its host. host is nil if
// the machine has none. current is the stored machine, nil if it is deleted.
func Decide(desired, current *infrav1.IngotMachine, host *infrav1.IngotHost) Progress {
	if desired.Spec.Cleaning == "" {
		return Progress{}
	}
	claimed := host != nil && host.Spec.Claim != nil && host.Spec.Claim.MachineRef.Name == desired.Name
	switch {
	case claimed && host.Spec.Claim.Cleaning == desired.Spec.Cleaning:
		return Progress{}
	case current == nil || failed(current):
		// Ingot no longer reconciles it (M46), so waiting would never end.
		return Progress{Failed: true, Message: "the IngotMachine has failed or is deleted, so that Ingot no longer changes it; delete the Machine to replace it"}
	case conditions.IsTrue(current, infrav1.PausedCondition):
		return Progress{Wait: true, Message: "waiting until the IngotMachine is unpaused"}
	case !claimed:
		return Progress{Wait: true, Message: "waiting until an IngotHost is claimed by the machine"}
	}
	return Progress{Wait: true, Message: "waiting until spec.claim.cleaning of IngotHost " + host.Name + " is " + string(desired.Spec.Cleaning)}
}

// failed reports whether a machine has failed permanently.
func failed(machine *infrav1.IngotMachine) bool {
	deprecated := machine.Status.Deprecated
	return deprecated != nil && deprecated.V1Beta1 != nil &&
		(deprecated.V1Beta1.FailureReason != nil || deprecated.V1Beta1.FailureMessage != nil)
}
