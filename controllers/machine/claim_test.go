// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A name that is too long becomes one unique label. Later versions must produce the same label.
func TestHostname(t *testing.T) {
	long := strings.Repeat("a", 70)
	names := map[string]string{} // host names, and the Machines that have them
	for name, tc := range map[string]struct{ machine, asked, want string }{
		"asked for":                  {"m1", "node1", "node1"},
		"asked for, of a long name":  {long, "node1", "node1"},
		"fits":                       {"m1", "", "m1"},
		"fits just so":               {long[:63], "", long[:63]},
		"fits, and has dots":         {"m1.example.com", "", "m1.example.com"},
		"too long by one":            {long[:64], "", long[:54] + "-d96f0f85"},
		"another beginning":          {"b" + long, "", "b" + long[:53] + "-3f08b52b"},
		"another beginning yet":      {"c" + long, "", "c" + long[:53] + "-756584d4"},
		"another end":                {long + "b", "", ""},
		"a dash where a tail begins": {"pool-" + long[:62], "", ""},
		"a dot where a tail begins":  {"pool." + long[:62], "", ""},
		"dots":                       {"db." + long + ".example.com", "", "db-" + long[:51] + "-8a1f287a"},
		"a dash where it is cut":     {long[:53] + "-" + long, "", long[:53] + "-b13ad665"},
		"a dot where it is cut":      {long[:53] + "." + long, "", long[:53] + "-8c6b4f84"},
		"the longest":                {strings.Repeat(long[:50]+".", 4) + long[:49], "", ""},
	} {
		machine, owner := &infrav1.IngotMachine{}, &clusterv1.Machine{}
		machine.Spec.Hostname, owner.Name = tc.asked, tc.machine
		got := hostname(machine, owner)
		if tc.want != "" && got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if len(tc.machine) <= maxHostname || tc.asked != "" {
			continue
		}
		if faults := validation.IsDNS1123Label(got); len(faults) > 0 {
			t.Errorf("%s: %q: %v", name, got, faults)
		}
		if other, taken := names[got]; taken {
			t.Errorf("%s: %q is that of %q too", name, got, other)
		}
		names[got] = tc.machine
	}
}
