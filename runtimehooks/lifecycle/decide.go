// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/runtimehooks/mutation"
)

// RetryAfterSeconds is the interval at which Cluster API repeats a call that was held (R13).
const RetryAfterSeconds = 15

// Verdict is a decision: whether Cluster API must wait, and why.
type Verdict struct {
	Hold    bool
	Message string
}

// holdFor returns a Verdict that holds if there is a message.
func holdFor(messages []string) Verdict {
	messages = slices.DeleteFunc(messages, func(m string) bool { return m == "" })
	return Verdict{Hold: len(messages) > 0, Message: strings.Join(messages, "; ")}
}

// ChooseImage returns the name of the IngotImage for a query.
func ChooseImage(images []infrav1.IngotImage, query mutation.ImageQuery) (string, error) {
	image, err := inventory.ChooseImage(images, inventory.ImageQuery{KubernetesVersion: query.Version, Architecture: query.Architecture, OS: query.OS})
	if err != nil {
		return "", err
	}
	return image.Name, nil
}

// missingImages returns one message for each image that the catalog lacks for the groups and
// versions. It skips live systems and classes that do not use the catalog.
func missingImages(images []infrav1.IngotImage, groups []Group, versions []string) []string {
	var out []string
	for _, version := range versions {
		for _, g := range groups {
			if g.Image.Version == "" {
				continue
			}
			query := g.Image
			query.Version = version
			if _, err := ChooseImage(images, query); err != nil && !slices.Contains(out, err.Error()) {
				out = append(out, err.Error())
			}
		}
	}
	return out
}

// Demand converts groups to the demand of package allocation.
func Demand(groups []Group, images []infrav1.IngotImage) allocation.Demand {
	var demand allocation.Demand
	for _, g := range groups {
		out := allocation.DemandGroup{Name: g.Name, ControlPlane: g.ControlPlane, Count: g.Count, Template: g.Spec, Architecture: g.Image.Architecture}
		if g.FailureDomain != "" {
			out.FailureDomains = []string{g.FailureDomain}
		}
		if ref := g.Spec.ImageRef; ref != nil && out.Architecture == "" {
			if i := slices.IndexFunc(images, func(image infrav1.IngotImage) bool { return image.Name == ref.Name }); i >= 0 {
				out.Architecture = images[i].Spec.Architecture
			}
		}
		demand.Groups = append(demand.Groups, out)
	}
	return demand
}

// Upgrade is the input of the decision about the upgrade of a cluster, its control plane or its
// workers.
type Upgrade struct {
	Namespace, ClusterName string
	// Cluster is the spec of the IngotCluster.
	Cluster infrav1.IngotClusterSpec
	// Steps are the groups to upgrade.
	Steps []Step
	// Groups are all groups of the Cluster.
	Groups []Group
	// Snapshot is the inventory of the namespace, and Images the catalog.
	Snapshot allocation.Snapshot
	Images   []infrav1.IngotImage
	// Target is the target Kubernetes version. Forced reports that the operator wants this upgrade
	// without the required hosts and BMCs.
	Target string
	Forced bool
}

// Step is the upgrade of one group.
type Step struct {
	Group Group
	// Versions are the Kubernetes versions in their order.
	Versions []string
	// Surge reports that the group creates a machine before it deletes one.
	Surge bool
}

// Decide holds an upgrade that would get stuck without an image, without a host for the surge, or
// with a BMC that does not answer. A forced upgrade needs only the images.
func (u Upgrade) Decide() (Verdict, error) {
	var messages []string
	for _, step := range u.Steps {
		for _, missing := range missingImages(u.Images, []Group{step.Group}, step.Versions) {
			if !slices.Contains(messages, missing) {
				messages = append(messages, missing)
			}
		}
	}
	obstacles, err := u.obstacles()
	if err != nil {
		return Verdict{}, err
	}
	return holdFor(append(messages, obstacles...)), nil
}

// obstacles lists the missing hosts and BMCs of an upgrade, and how to force it.
func (u Upgrade) obstacles() ([]string, error) {
	if u.Forced {
		return nil, nil
	}
	var messages []string
	for _, step := range u.Steps {
		message, err := u.missingSurgeHost(step)
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
	messages = slices.DeleteFunc(append(messages, u.unreachable()), func(m string) bool { return m == "" })
	if len(messages) > 0 {
		messages = append(messages, fmt.Sprintf("to upgrade anyway, run: kubectl annotate --overwrite cluster -n %s %s %s=%s", u.Namespace, u.ClusterName, infrav1.UpgradeAnywayAnnotation, u.Target))
	}
	return messages, nil
}

// missingSurgeHost returns why no host is available for the surge of a group, or "". It checks each
// group alone, because Cluster API upgrades one group after the other.
func (u Upgrade) missingSurgeHost(step Step) (message string, err error) {
	if !step.Surge {
		return "", nil
	}
	group := step.Group
	group.Count = 1
	snapshot := u.Snapshot
	if own := u.reservation(); own != nil && own.Spec.Purpose == infrav1.ReservationUpgrade {
		// An earlier call for the same upgrade may have reserved this host.
		snapshot.Reservations = slices.DeleteFunc(slices.Clone(snapshot.Reservations), func(r infrav1.IngotReservation) bool {
			return r.Namespace == own.Namespace && r.Name == own.Name
		})
	}
	plan, err := allocation.PlanReservation(allocation.PlanRequest{
		Namespace: u.Namespace, ClusterName: u.ClusterName, Cluster: u.Cluster, Surge: true, Demand: Demand([]Group{group}, u.Images),
	}, snapshot)
	if err != nil || plan.Satisfied {
		return "", err
	}
	return "the upgrade creates a machine before it deletes one: " + plan.Message, nil
}

// reservation returns the Cluster's reservation that has not expired, or nil.
func (u Upgrade) reservation() *infrav1.IngotReservation {
	for i := range u.Snapshot.Reservations {
		r := &u.Snapshot.Reservations[i]
		if r.Namespace == u.Namespace && r.Name == u.ClusterName && allocation.IsInForce(r, u.Snapshot.Now) {
			return r
		}
	}
	return nil
}

// ReservationRequests returns the possible reservations for the upgrade, the largest first. Each
// contains as many hosts as the Cluster has, so that released hosts return to it. The larger ones add
// one host for each surging group, and the hosts that were reserved before but are not used yet. The
// smallest needs no free host.
func (u Upgrade) ReservationRequests() []allocation.PlanRequest {
	surges, reserved := map[string]int{}, map[string]int{}
	for _, step := range u.Steps {
		if step.Surge {
			surges[step.Group.Name] = 1
		}
	}
	if own := u.reservation(); own != nil {
		for _, g := range own.Spec.Groups {
			reserved[g.Name] = int(g.Count)
		}
	}
	has := u.machineCounts()
	var out []allocation.PlanRequest
	for _, surge := range []bool{true, false} {
		for _, before := range []bool{true, false} {
			groups := slices.Clone(u.Groups)
			for i := range groups {
				g := &groups[i]
				desired := g.Count
				g.Count = has[i]
				if before {
					g.Count = max(has[i], min(reserved[g.Name], desired))
				}
				if surge {
					g.Count += surges[g.Name]
				}
			}
			out = append(out, allocation.PlanRequest{Namespace: u.Namespace, ClusterName: u.ClusterName, Cluster: u.Cluster,
				Purpose: infrav1.ReservationUpgrade, Demand: Demand(groups, u.Images)})
		}
	}
	return out
}

// machineCounts returns, for each group of the Cluster, the number of machines with a host.
func (u Upgrade) machineCounts() []int {
	return allocation.CountSelected(u.Namespace, u.ClusterName, Demand(u.Groups, u.Images), u.Snapshot.Machines)
}

// maxNamed limits how many hosts a message names.
const maxNamed = 5

// unreachable returns a message about hosts of the upgraded machines whose BMC does not answer: the
// upgrade would get stuck at their release.
func (u Upgrade) unreachable() string {
	controlPlane, workers := false, false
	for _, step := range u.Steps {
		controlPlane, workers = controlPlane || step.Group.ControlPlane, workers || !step.Group.ControlPlane
	}
	machines := map[string]*infrav1.IngotMachine{}
	for i := range u.Snapshot.Machines {
		if m := &u.Snapshot.Machines[i]; m.Namespace == u.Namespace {
			machines[m.Name] = m
		}
	}
	var names []string
	for _, host := range u.Snapshot.ClaimedBy(u.Namespace, u.ClusterName) {
		if !isBMCUnreachable(host) {
			continue
		}
		m := machines[host.Spec.Claim.MachineRef.Name]
		if m == nil || !m.DeletionTimestamp.IsZero() {
			continue // already being released
		}
		_, isControlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
		if isControlPlane && controlPlane || !isControlPlane && workers {
			names = append(names, host.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - maxNamed; n > 0 {
		names, more = names[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("the BMCs of hosts %s%s do not answer; see their condition %s", strings.Join(names, ", "), more, infrav1.HostBMCReachableCondition)
}

func isBMCUnreachable(host *infrav1.IngotHost) bool {
	return meta.IsStatusConditionFalse(host.Status.Conditions, infrav1.HostBMCReachableCondition)
}

// decideDelete holds the deletion of a Cluster with the retain annotation.
func decideDelete(cluster *clusterv1.Cluster) Verdict {
	if value, ok := cluster.Annotations[infrav1.RetainAnnotation]; !ok || value == "false" {
		return Verdict{}
	}
	return Verdict{Hold: true, Message: fmt.Sprintf("the Cluster is retained by annotation; to delete it, run: kubectl annotate cluster -n %s %s %s-",
		cluster.Namespace, cluster.Name, infrav1.RetainAnnotation)}
}

// isUpgradeForced reports whether the annotation upgrade-anyway names the target version. An
// annotation for another version does not force this upgrade.
func isUpgradeForced(cluster *clusterv1.Cluster) bool {
	forced, target := cluster.Annotations[infrav1.UpgradeAnywayAnnotation], cluster.Spec.Topology.Version
	return target != "" && strings.TrimPrefix(strings.TrimSpace(forced), "v") == strings.TrimPrefix(target, "v")
}
