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

// knownAnnotations returns the annotations with Ingot's prefix that an IngotHost may have.
func knownAnnotations() []string {
	return append(inventory.CommandNames(),
		v1beta2.MovePausedAnnotation,      // set and removed by Ingot during a move
		v1beta2.CommandsGivenByAnnotation, // set by the defaulting webhook
	)
}

// checkCommands rejects new commands whose value is malformed or whose time is in the future
// (I24). before is nil for a new host. An expired command is accepted: rejecting it would block
// every apply of a manifest that still contains it.
func checkCommands(before map[string]string, host *v1beta2.IngotHost, now time.Time) field.ErrorList {
	var errs field.ErrorList
	for _, name := range inventory.CommandNames() {
		value, found := host.Annotations[name]
		if old, had := before[name]; !found || had && old == value {
			continue
		}
		c, err := inventory.ParseCommand(name, value)
		if err == nil && c.IsInFuture(now) {
			err = fmt.Errorf("its time is in the future (Ingot's clock: %s); check the clock", now.UTC().Format(time.RFC3339))
		}
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(name), value,
				fmt.Sprintf("%s; to give the command now, run: %s", err, inventory.CommandLine(host, name))))
		}
	}
	return errs
}

// commandWarnings warns that a new command is carried out only once, or has no effect because it
// expired or was carried out before.
func commandWarnings(before map[string]string, host *v1beta2.IngotHost, now time.Time) []string {
	var warnings []string
	for _, name := range inventory.CommandNames() {
		value, found := host.Annotations[name]
		old, had := before[name]
		c, err := inventory.ParseCommand(name, value)
		if !found || had && old == value || err != nil {
			continue
		}
		text, again := "is carried out once, within one hour of its time; do not keep it in a manifest", ""
		if done := inventory.CommandDone(host, name); !c.Time.After(done) {
			text, again = fmt.Sprintf("has no effect: Ingot already handled the command of %s", done.UTC().Format(time.RFC3339)), inventory.CommandLine(host, name)
		} else if c.IsExpired(now) {
			text, again = "has no effect: it expired one hour after its time", inventory.CommandLine(host, name)
		}
		if again != "" {
			again = "; to give the command now, run: " + again
		}
		warnings = append(warnings, fmt.Sprintf("%s: %q %s%s", field.NewPath("metadata", "annotations").Key(name), value, text, again))
	}
	return warnings
}

// ineffectiveCommands warns about new commands that have no effect in the host's state; the
// host controller removes them.
func ineffectiveCommands(before map[string]string, host *v1beta2.IngotHost) []string {
	claim, record := host.Spec.Claim, host.Spec.Record
	quarantined := claim == nil && record != nil && record.Quarantine != nil
	var warnings []string
	for _, c := range []struct {
		key         string
		ineffective bool
		why         string
	}{
		{v1beta2.ForceReleaseAnnotation, claim == nil, "no machine uses this host"},
		{v1beta2.ForceReleaseAnnotation, claim != nil && !claim.FencedTime.IsZero(), "the BMC has confirmed that this host is off"},
		{v1beta2.ForceReleaseAnnotation, claim != nil && claim.State != v1beta2.ClaimReleasing, "it applies only while the Machine of this host is being deleted"},
		{v1beta2.ReleaseAnnotation, claim == nil, "no machine uses this host"},
		{v1beta2.ReleaseAnnotation, claim != nil && claim.State == v1beta2.ClaimReleasing, "this host is being released"},
		{v1beta2.ClearQuarantineAnnotation, !quarantined, "this host is not in quarantine"},
		{v1beta2.ClearQuarantineAnnotation, quarantined && record.Quarantine.Reason == v1beta2.QuarantineNotFenced, "this quarantine ends when the BMC confirms that the host is off"},
	} {
		_, given := inventory.PendingCommand(host, c.key)
		if old, had := before[c.key]; given && (!had || old != host.Annotations[c.key]) && c.ineffective {
			warnings = append(warnings, fmt.Sprintf("%s: has no effect: %s; Ingot removes it", field.NewPath("metadata", "annotations").Key(c.key), c.why))
		}
	}
	return warnings
}

// unknownAnnotations warns about new annotations with Ingot's prefix that Ingot does not read on
// this kind. before is nil for a new object.
func unknownAnnotations(before map[string]string, object client.Object) []string {
	var known []string
	if _, ok := object.(*v1beta2.IngotHost); ok {
		known = knownAnnotations()
	}
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(object.GetAnnotations())) {
		_, existed := before[key]
		if slices.Contains(known, key) || existed || !strings.HasPrefix(key, v1beta2.AnnotationPrefix) {
			continue
		}
		remedy := "remove it, or correct it to one of " + strings.Join(shortNames(known), ", ")
		if slices.Contains(knownAnnotations(), key) {
			remedy = "annotate the IngotHost instead"
		} else if len(known) == 0 {
			remedy = "remove it"
		}
		warnings = append(warnings, fmt.Sprintf("%s: %q has no effect on this kind; %s",
			field.NewPath("metadata", "annotations").Key(key), object.GetAnnotations()[key], remedy))
	}
	return warnings
}

// shortNames returns the sorted names without Ingot's prefix, except the one that only the webhook
// sets.
func shortNames(known []string) []string {
	var out []string
	for _, key := range known {
		if key != v1beta2.CommandsGivenByAnnotation {
			out = append(out, strings.TrimPrefix(key, v1beta2.AnnotationPrefix))
		}
	}
	return slices.Sorted(slices.Values(out))
}
