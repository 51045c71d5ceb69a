// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// knownAnnotations are the annotations with Ingot's prefix that an IngotHost may have.
func knownAnnotations() []string {
	return append(inventory.CommandNames(),
		v1beta2.MovePausedAnnotation,      // set and lifted by Ingot in a move
		v1beta2.CommandsGivenByAnnotation, // set by the defaulting webhook
	)
}

// checkCommands refuses commands of a host that do not say when they were given, or how, and
// those of a time to come (I24). before is nil for a new host; what stands already is not
// looked at again. A command that has expired is not refused: a manifest in a repository that
// repeats one could never be applied again.
func checkCommands(before map[string]string, host *v1beta2.IngotHost, now time.Time) field.ErrorList {
	var errs field.ErrorList
	for _, name := range inventory.CommandNames() {
		value, found := host.Annotations[name]
		if old, had := before[name]; !found || had && old == value {
			continue
		}
		c, err := inventory.ParseCommand(name, value)
		if err == nil && c.Ahead(now) {
			err = fmt.Errorf("its time lies in the future, where it is %s for Ingot; check the clock", now.UTC().Format(time.RFC3339))
		}
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(name), value,
				fmt.Sprintf("%s; to give the command now: %s", err, inventory.CommandLine(host, name))))
		}
	}
	return errs
}

// commandWarnings warns of commands that were just given whose time has passed, and that no
// manifest in a repository repeats one.
func commandWarnings(before map[string]string, host *v1beta2.IngotHost, now time.Time) []string {
	var warnings []string
	for _, name := range inventory.CommandNames() {
		value, found := host.Annotations[name]
		old, had := before[name]
		c, err := inventory.ParseCommand(name, value)
		if !found || had && old == value || err != nil {
			continue
		}
		text, again := "is carried out once, within an hour of its time; do not keep it in a manifest", ""
		if done := inventory.CommandDone(host, name); !c.Time.After(done) {
			text, again = fmt.Sprintf("has no effect: the command of %s was carried out, or refused, already", done.UTC().Format(time.RFC3339)), inventory.CommandLine(host, name)
		} else if c.Expired(now) {
			text, again = "has no effect: it expired an hour after its time", inventory.CommandLine(host, name)
		}
		if again != "" {
			again = "; to give the command now: " + again
		}
		warnings = append(warnings, fmt.Sprintf("%s: %q %s%s", field.NewPath("metadata", "annotations").Key(name), value, text, again))
	}
	return warnings
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
		_, given := inventory.PendingCommand(host, c.key)
		if stood, had := before[c.key]; given && (!had || stood != host.Annotations[c.key]) && c.vain {
			warnings = append(warnings, fmt.Sprintf("%s: %s; without effect it is taken away again", field.NewPath("metadata", "annotations").Key(c.key), c.why))
		}
	}
	return warnings
}

// strayCommands warns of annotations with Ingot's prefix that nothing reads: a slip
// in the name, or a host's command on another kind. before is nil for a new object.
func strayCommands(before map[string]string, object client.Object) []string {
	var known []string
	if _, ok := object.(*v1beta2.IngotHost); ok {
		known = knownAnnotations()
	}
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(object.GetAnnotations())) {
		_, stood := before[key]
		if slices.Contains(known, key) || stood || !strings.HasPrefix(key, v1beta2.AnnotationPrefix) {
			continue
		}
		remedy := "remove it, or correct it to one of " + strings.Join(shortNames(known), ", ")
		if slices.Contains(knownAnnotations(), key) {
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
func shortNames(known []string) []string {
	out := make([]string, 0, len(known))
	for _, key := range known {
		if key == v1beta2.CommandsGivenByAnnotation {
			continue // only the webhook sets it
		}
		out = append(out, strings.TrimPrefix(key, v1beta2.AnnotationPrefix))
	}
	slices.Sort(out)
	return out
}
