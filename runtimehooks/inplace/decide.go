// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// Fields of an IngotMachine that are changed live.
const (
	fieldCleaning = "cleaning"
	fieldSelector = "hostSelector"
)

// An Operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Changes returns the operations that bring a spec to what is desired, if all that
// differs can be changed live on servers with these labels; else none. path leads to
// the spec.
func Changes(path string, current, desired map[string]any, servers []map[string]string) []Operation {
	var out []Operation
	for _, field := range differing(current, desired) {
		switch {
		case field == fieldCleaning && desired[field] != nil:
			// Unset, it would be what the host said when it was claimed: not known any more.
		case field == fieldSelector && sameHosts(current[field], desired[field], servers):
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

// differing are the fields of two specs that are not the same, sorted.
func differing(a, b map[string]any) []string {
	var out []string
	for field := range a {
		if !reflect.DeepEqual(a[field], b[field]) {
			out = append(out, field)
		}
	}
	for field := range b {
		if _, ok := a[field]; !ok {
			out = append(out, field)
		}
	}
	slices.Sort(out)
	return out
}

// sameHosts says whether a selector differs in labels only, and all servers meet it
// as it is desired. Without a server nothing is known.
func sameHosts(current, desired any, servers []map[string]string) bool {
	was, okWas := selectorOf(current)
	is, okIs := selectorOf(desired)
	if !okWas || !okIs || was.Arch != is.Arch || !equality.Semantic.DeepEqual(was.Minimum, is.Minimum) || len(servers) == 0 {
		return false
	}
	for _, labels := range servers {
		if !allocation.SelectsLabels(&is, labels) {
			return false
		}
	}
	return true
}

func selectorOf(value any) (infrav1.HostSelector, bool) {
	var out infrav1.HostSelector
	data, err := json.Marshal(value)
	if err != nil {
		return out, false
	}
	return out, json.Unmarshal(data, &out) == nil
}

// Progress of UpdateMachine.
type Progress struct {
	// Wait: not everything is in force.
	Wait bool
	// Failed: it never will be.
	Failed bool
	// Message says what is waited for, or what failed.
	Message string
}

// Decide says whether what a machine desires is in force at its host: nil, if it has
// none. current is the machine as it is, with its status; nil: it is gone.
func Decide(desired, current *infrav1.IngotMachine, host *infrav1.IngotHost) Progress {
	if desired.Spec.Cleaning == "" {
		return Progress{}
	}
	inForce := host != nil && host.Spec.Claim != nil && host.Spec.Claim.MachineRef.Name == desired.Name
	switch {
	case inForce && host.Spec.Claim.Cleaning == desired.Spec.Cleaning:
		return Progress{}
	case current == nil || failed(current):
		// Nothing is done for it any more (M46): to wait would be to wait for ever.
		return Progress{Failed: true, Message: "the IngotMachine has failed, or is gone, and nothing of it is changed any more; delete the Machine to replace it"}
	case conditions.IsTrue(current, infrav1.PausedCondition):
		return Progress{Wait: true, Message: "waiting until the IngotMachine is no longer paused"}
	case !inForce:
		return Progress{Wait: true, Message: "waiting until the machine has its host again"}
	}
	return Progress{Wait: true, Message: "waiting until IngotHost " + host.Name + " has the cleaning " + string(desired.Spec.Cleaning) + " in its claim"}
}

// failed says whether a machine has failed for good, as its reconciler does.
func failed(machine *infrav1.IngotMachine) bool {
	deprecated := machine.Status.Deprecated
	return deprecated != nil && deprecated.V1Beta1 != nil &&
		(deprecated.V1Beta1.FailureReason != nil || deprecated.V1Beta1.FailureMessage != nil)
}
