// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// MaxExplanation bounds Selection.Message, in characters.
const MaxExplanation = 1000

// explain says why no host suits. message has where one was looked for, what was asked for and
// the nearest miss; it does not depend on which hosts other machines use, so that machines
// that wait are not written each time one is claimed. counts has how many hosts miss which
// criterion at this moment.
func (c *criteria) explain(refused []judgement) (message, counts string) {
	var b strings.Builder
	fmt.Fprintf(&b, "no host for IngotMachine %s", c.Machine.Name)
	if c.FailureDomain != "" {
		fmt.Fprintf(&b, " in failure domain %q (label %s)", c.FailureDomain, c.label)
	}
	if asked := c.asked(); asked != "" {
		b.WriteString("; asked for " + asked)
	}
	if len(refused) == 0 {
		fmt.Fprintf(&b, "; namespace %s has no IngotHost; register one", c.Machine.Namespace)
		return inventory.Truncate(b.String(), MaxExplanation), ""
	}
	near, suits := nearest(refused)
	if suits {
		b.WriteString("; the hosts that suit are claimed, busy or reserved")
	}
	if near != nil {
		fmt.Fprintf(&b, "; nearest miss: %s (%s)", near.Host.Name, inventory.Truncate(joinDetails(near.lasting()), 250))
	}
	return inventory.Truncate(b.String(), MaxExplanation), fmt.Sprintf("of %d hosts %s", len(refused), countMisses(refused))
}

// asked describes the selectors and minima in a few words.
func (c *criteria) asked() string {
	var words []string
	say := func(name string, selector *metav1.LabelSelector) {
		if selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
			words = append(words, name+" "+inventory.Truncate(metav1.FormatLabelSelector(selector), 120))
		}
	}
	say("hosts of the cluster with", c.Cluster.Spec.HostSelector)
	if c.ControlPlane {
		say("control planes with", c.Cluster.Spec.ControlPlaneSelector)
	}
	say("labels", &metav1.LabelSelector{MatchLabels: c.want.MatchLabels, MatchExpressions: c.want.MatchExpressions})
	if c.Cluster.Spec.BootTrust == infrav1.BootTrustVerified {
		words = append(words, "a verified boot")
	}
	if arch := cmp.Or(c.want.Arch, c.Architecture); arch != "" {
		words = append(words, arch)
	}
	if n := c.minimum.Cores; n != nil {
		words = append(words, fmt.Sprintf("%d cores", *n))
	}
	if n := c.minimum.MemoryGiB; n != nil {
		words = append(words, fmt.Sprintf("%d GiB memory", *n))
	}
	if n := c.minimum.DiskGB; n != nil {
		words = append(words, fmt.Sprintf("a root disk of %d GB", *n))
	}
	if data := c.Machine.Spec.NetworkData; data != nil {
		words = append(words, fmt.Sprintf("%d ethernets by networkData", len(data.Ethernets)))
	}
	return strings.Join(words, ", ")
}

// nearest returns the host with the fewest lasting misses, of equal ones one that is out of
// service, then the oldest; and whether some hosts have none: these suit, and are in use.
// nil: all hosts suit.
func nearest(refused []judgement) (near *judgement, suits bool) {
	least := 0
	for i := range refused {
		j := &refused[i]
		n := 2 * len(j.lasting())
		if n == 0 {
			suits = true
			continue
		}
		if lifecycle.OutOfService(j.Host) {
			n-- // a person can return it to service at once
		}
		if near == nil || cmp.Or(cmp.Compare(n, least), j.Host.CreationTimestamp.Compare(near.Host.CreationTimestamp.Time), cmp.Compare(j.Host.Name, near.Host.Name)) < 0 {
			near, least = j, n
		}
	}
	return near, suits
}

// lasting returns the misses that do not pass by themselves.
func (j *judgement) lasting() []miss {
	return slices.DeleteFunc(slices.Clone(j.misses), func(m miss) bool { return m.passing })
}

func joinDetails(misses []miss) string {
	details := make([]string, 0, len(misses))
	for _, m := range misses {
		details = append(details, m.detail)
	}
	return strings.Join(details, "; ")
}

// countMisses counts the hosts per criterion failed, the most frequent first. A host
// counts under each criterion that it fails.
func countMisses(refused []judgement) string {
	counts := map[string]int{}
	for _, j := range refused {
		for _, m := range j.misses {
			counts[m.kind]++
		}
	}
	kinds := make([]string, 0, len(counts))
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return strings.Join(kinds, ", ")
}
