// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// commands are the annotations by which a person talks to Ingot about a host, and
// the values that each takes; nil: any, it is the presence that counts.
func commands() map[string][]string {
	return map[string][]string{
		v1beta2.ApproveAnnotation:           nil,
		v1beta2.ForceReleaseAnnotation:      nil,
		v1beta2.ReleaseDanglingAnnotation:   nil,
		v1beta2.ClearQuarantineAnnotation:   nil,
		v1beta2.InspectAnnotation:           nil,
		v1beta2.RotateCredentialsAnnotation: nil,
		v1beta2.RetryBMCAnnotation:          nil,
		v1beta2.RebootAnnotation:            {"Graceful", "Forced"},
		v1beta2.MovePausedAnnotation:        nil, // set and lifted by Ingot in a move
	}
}

// denials are values by which people mean no.
func denials() []string { return []string{"false", "no", "off", "0", "never", "none", "disabled"} }

// checkCommands refuses commands of a host that would not do what they say: a value
// that means no where the presence counts, or a value that does not exist. before
// is nil for a new host; what stands already is not looked at again.
func checkCommands(before map[string]string, host *v1beta2.IngotHost) field.ErrorList {
	var errs field.ErrorList
	known := commands()
	for _, key := range slices.Sorted(maps.Keys(host.Annotations)) {
		values, ok := known[key]
		value := host.Annotations[key]
		if old, had := before[key]; !ok || had && old == value {
			continue
		}
		path := field.NewPath("metadata", "annotations").Key(key)
		switch {
		case values != nil && !slices.Contains(values, value):
			errs = append(errs, field.NotSupported(path, value, values))
		case values == nil && slices.Contains(denials(), strings.ToLower(value)):
			errs = append(errs, field.Invalid(path, value, "commands by being there, whatever its value; remove the annotation instead"))
		}
	}
	return errs
}

// vainCommands warns of commands that were just given and that nothing will take up:
// Ingot takes them away again. Whether the Machine of a host in use is being deleted, only
// the manager looks.
func vainCommands(before map[string]string, host *v1beta2.IngotHost) []string {
	claim, record := host.Spec.Claim, host.Spec.Record
	quarantined := claim == nil && record != nil && record.Quarantine != nil
	var warnings []string
	for _, c := range []struct {
		key  string
		vain bool
		why  string
	}{
		{v1beta2.ForceReleaseAnnotation, claim == nil, "no machine has this host"},
		{v1beta2.ForceReleaseAnnotation, claim != nil && !claim.FencedAt.IsZero(), "the BMC has confirmed that this host is off"},
		{v1beta2.ForceReleaseAnnotation, claim != nil && claim.State != v1beta2.ClaimReleasing, "counts only while the Machine of this host is being deleted"},
		{v1beta2.ReleaseDanglingAnnotation, claim == nil, "no machine has this host"},
		{v1beta2.ReleaseDanglingAnnotation, claim != nil && claim.State == v1beta2.ClaimReleasing, "this host is being released"},
		{v1beta2.ClearQuarantineAnnotation, !quarantined, "this host is not in quarantine"},
		{v1beta2.ClearQuarantineAnnotation, quarantined && record.Quarantine.Reason == v1beta2.QuarantineNotFenced, "this quarantine ends by itself when the BMC confirms that the host is off"},
	} {
		_, stood := before[c.key]
		if _, given := host.Annotations[c.key]; given && !stood && c.vain {
			warnings = append(warnings, fmt.Sprintf("%s: %s; without effect it is taken away again", field.NewPath("metadata", "annotations").Key(c.key), c.why))
		}
	}
	return warnings
}

// strayCommands warns of annotations with Ingot's prefix that nothing reads: a slip
// in the name, or a host's command on another kind. before is nil for a new object.
func strayCommands(before map[string]string, object client.Object) []string {
	known := map[string][]string{}
	if _, ok := object.(*v1beta2.IngotHost); ok {
		known = commands()
	}
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(object.GetAnnotations())) {
		_, stood := before[key]
		if _, ok := known[key]; ok || stood || !strings.HasPrefix(key, v1beta2.AnnotationPrefix) {
			continue
		}
		remedy := "remove it, or correct it to one of " + strings.Join(shortNames(known), ", ")
		if _, ok := commands()[key]; ok {
			remedy = "annotate the IngotHost"
		} else if len(known) == 0 {
			remedy = "remove it"
		}
		warnings = append(warnings, fmt.Sprintf("%s: %q is read by nobody here; %s",
			field.NewPath("metadata", "annotations").Key(key), object.GetAnnotations()[key], remedy))
	}
	return warnings
}

// shortNames are the names without Ingot's prefix, which people know.
func shortNames(known map[string][]string) []string {
	out := make([]string, 0, len(known))
	for key := range known {
		out = append(out, strings.TrimPrefix(key, v1beta2.AnnotationPrefix))
	}
	slices.Sort(out)
	return out
}
