// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// MaxExplanation is the maximum length, in characters, of the texts of Misfit and ReservationPlan.
const MaxExplanation = 1000

// explain returns why no host suits. message has the nearest miss and the requirements. It does
// not depend on which hosts other machines use, so that waiting machines are not written at
// each claim. counts has the number of hosts per criterion that they miss at present.
func (c *criteria) explain(refused []judgement) (message, counts string) {
	where := ""
	if c.FailureDomain != "" {
		where = fmt.Sprintf(" in failure domain %q", inventory.Truncate(c.FailureDomain, 40))
	}
	if len(refused) == 0 {
		return fmt.Sprintf("No host suits: namespace %s has no IngotHost. Register one.", c.Machine.Namespace), ""
	}
	near, suits := nearest(refused)
	message = "No host suits" + where
	if suits {
		message = "All suitable hosts are claimed, busy or reserved" + where
	}
	if near == nil {
		message += "."
	} else {
		message = inventory.WithDetail(message+". Nearest miss: "+near.Host.Name+" (", joinDetails(near.lasting()), ").")
	}
	if asked := c.asked(); asked != "" && len(message) < inventory.MaxText-40 {
		message = inventory.WithDetail(message+" Requirements: ", asked, ".")
	}
	return message, fmt.Sprintf("Of %d hosts: %s.", len(refused), countMisses(refused))
}

// asked lists the selectors and minima.
func (c *criteria) asked() string {
	var words []string
	say := func(name string, selector *metav1.LabelSelector) {
		if selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
			words = append(words, name+" "+inventory.Truncate(metav1.FormatLabelSelector(selector), 120))
		}
	}
	say("cluster labels", c.Cluster.Spec.HostSelector)
	if c.ControlPlane {
		say("control plane labels", c.Cluster.Spec.ControlPlaneSelector)
	}
	say("labels", &metav1.LabelSelector{MatchLabels: c.want.MatchLabels, MatchExpressions: c.want.MatchExpressions})
	if c.Cluster.Spec.BootTrust == infrav1.BootTrustVerified {
		words = append(words, "a verified boot")
	}
	if arch := cmp.Or(c.want.Architecture, c.Architecture); arch != "" {
		words = append(words, arch)
	}
	if n := c.minimum.Cores; n != nil {
		words = append(words, fmt.Sprintf("%d cores", *n))
	}
	if n := c.minimum.Memory; n != nil {
		words = append(words, fmt.Sprintf("%s memory", n))
	}
	if n := c.minimum.Disk; n != nil {
		words = append(words, fmt.Sprintf("a root disk of %s", n))
	}
	if data := c.Machine.Spec.NetworkData; data != nil {
		words = append(words, fmt.Sprintf("%d ethernets in networkData", len(data.Ethernets)))
	}
	return strings.Join(words, ", ")
}

// nearest returns the host with the fewest lasting misses, and whether some hosts have none.
// Among equals it prefers one that is out of service, then the oldest. Nil: all hosts suit.
func nearest(refused []judgement) (near *judgement, suits bool) {
	least := 0
	for i := range refused {
		j := &refused[i]
		n := 2 * len(j.lasting())
		if n == 0 {
			suits = true
			continue
		}
		if lifecycle.IsOutOfService(j.Host) {
			n-- // an operator can return it to service at once
		}
		if near == nil || cmp.Or(cmp.Compare(n, least), j.Host.CreationTimestamp.Compare(near.Host.CreationTimestamp.Time), cmp.Compare(j.Host.Name, near.Host.Name)) < 0 {
			near, least = j, n
		}
	}
	return near, suits
}

// lasting returns the misses that do not pass without a change.
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

// countMisses counts the hosts per missed criterion, the most frequent first. A host counts under
// each criterion that it misses.
func countMisses(refused []judgement) string {
	counts := map[string]int{}
	for _, j := range refused {
		for _, m := range j.misses {
			counts[m.kind]++
		}
	}
	kinds := slices.Collect(maps.Keys(counts))
	slices.SortFunc(kinds, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return strings.Join(kinds, ", ")
}
