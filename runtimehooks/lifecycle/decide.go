// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/runtimehooks/mutation"
)

// RetryAfterSeconds is how long Cluster API waits before it asks again about what was
// held. It does not ask earlier (R13).
const RetryAfterSeconds = 15

// A Verdict says whether something is held, and why.
type Verdict struct {
	Hold    bool
	Message string
}

// held is a Verdict that holds if there is anything to say.
func held(messages []string) Verdict {
	messages = slices.DeleteFunc(messages, func(m string) bool { return m == "" })
	return Verdict{Hold: len(messages) > 0, Message: strings.Join(messages, "; ")}
}

// ChooseImage asks the catalogue as mutation does.
func ChooseImage(images []infrav1.IngotImage, wanted mutation.Wanted) (string, error) {
	image, err := inventory.ChooseImage(images, inventory.ImageQuery{KubernetesVersion: wanted.Version, Architecture: wanted.Architecture, OS: wanted.OS})
	if err != nil {
		return "", err
	}
	return image.Name, nil
}

// missingImages names what the catalogue lacks for groups at versions, each once. Of
// groups whose class takes no images of the catalogue, and of live systems, nothing is asked.
func missingImages(images []infrav1.IngotImage, groups []Group, versions []string) []string {
	var out []string
	for _, version := range versions {
		for _, g := range groups {
			if g.Image.Version == "" {
				continue
			}
			asked := g.Image
			asked.Version = version
			if _, err := ChooseImage(images, asked); err != nil && !slices.Contains(out, err.Error()) {
				out = append(out, err.Error())
			}
		}
	}
	return out
}

// Demand is what a wish asks of the inventory.
func Demand(groups []Group, images []infrav1.IngotImage) allocation.Demand {
	var demand allocation.Demand
	for _, g := range groups {
		out := allocation.DemandGroup{Name: g.Name, ControlPlane: g.ControlPlane, Count: g.Count, Template: g.Spec, Architecture: g.Image.Architecture}
		if g.FailureDomain != "" {
			out.FailureDomains = []string{g.FailureDomain}
		}
		if ref := g.Spec.ImageRef; ref != nil && out.Architecture == "" {
			out.Architecture = architectureOf(images, ref.Name)
		}
		demand.Groups = append(demand.Groups, out)
	}
	return demand
}

func architectureOf(images []infrav1.IngotImage, name string) string {
	for i := range images {
		if images[i].Name == name {
			return images[i].Spec.Architecture
		}
	}
	return ""
}

// An Upgrade is what is looked at before machines are replaced by others of another
// version: all of a cluster, its control plane, or its workers.
type Upgrade struct {
	Namespace, ClusterName string
	// Cluster is the spec of the IngotCluster.
	Cluster infrav1.IngotClusterSpec
	// Steps are the groups that are upgraded, and the versions that they go through.
	Steps []Step
	// Groups are all of the Cluster's.
	Groups []Group
	// Snapshot of the namespace, and the catalogue.
	Snapshot allocation.Snapshot
	Images   []infrav1.IngotImage
	// Target is the Kubernetes version that the Cluster is upgraded to. Anyway: a person wants
	// that upgrade to begin without the hosts and the BMCs that it needs.
	Target string
	Anyway bool
}

// A Step is what one group goes through.
type Step struct {
	Group Group
	// Versions of Kubernetes, in their order.
	Versions []string
	// Surge: the group makes a machine before it gives one up.
	Surge bool
}

// Decide holds an upgrade that could not go on: for want of an image, of a host for
// the surge, or of a BMC that answers. Images are needed in any case: without one nothing
// of that version can be made.
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
	return held(append(messages, obstacles...)), nil
}

// obstacles are what it would meet on its way, and how a person lets it begin all the same.
func (u Upgrade) obstacles() ([]string, error) {
	if u.Anyway {
		return nil, nil
	}
	var messages []string
	for _, step := range u.Steps {
		message, err := u.spare(step)
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
	messages = slices.DeleteFunc(append(messages, u.unreachable()), func(m string) bool { return m == "" })
	if len(messages) > 0 {
		messages = append(messages, fmt.Sprintf("to upgrade all the same: kubectl annotate --overwrite cluster -n %s %s %s=%s", u.Namespace, u.ClusterName, infrav1.UpgradeAnywayAnnotation, u.Target))
	}
	return messages, nil
}

// spare says what is missing for the surge of one group. Groups are upgraded one after
// the other, and each gives back what it took: so each is asked for alone.
func (u Upgrade) spare(step Step) (message string, err error) {
	if !step.Surge {
		return "", nil
	}
	group := step.Group
	group.Count = 1
	snapshot := u.Snapshot
	if own := u.own(); own != nil && own.Spec.Purpose == infrav1.ReservationUpgrade {
		// What was kept for the upgrade, when it was asked about before, is what it may have.
		snapshot.Reservations = slices.DeleteFunc(slices.Clone(snapshot.Reservations), func(r infrav1.IngotReservation) bool {
			return r.Namespace == own.Namespace && r.Name == own.Name
		})
	}
	plan, err := allocation.PlanPromise(allocation.PromiseRequest{
		Namespace: u.Namespace, ClusterName: u.ClusterName, Cluster: u.Cluster, Surge: true, Demand: Demand([]Group{group}, u.Images),
	}, snapshot)
	if err != nil || plan.Satisfied {
		return "", err
	}
	return "the upgrade makes a machine before it removes one: " + plan.Message, nil
}

// own is what the Cluster was promised and has not expired; nil: nothing.
func (u Upgrade) own() *infrav1.IngotReservation {
	for i := range u.Snapshot.Reservations {
		r := &u.Snapshot.Reservations[i]
		if r.Namespace == u.Namespace && r.Name == u.ClusterName && allocation.Stands(r, u.Snapshot.Now) {
			return r
		}
	}
	return nil
}

// Promises are what the Cluster may be promised for its upgrade, the best first: as many
// hosts as it has, so that each which it gives up comes back, with those that it was
// promised before and does not have yet, and one for each group that surges. The last of
// them asks for nothing that is not there: no upgrade is held for these.
func (u Upgrade) Promises() []allocation.PromiseRequest {
	surges, former := map[string]int{}, map[string]int{}
	for _, step := range u.Steps {
		if step.Surge {
			surges[step.Group.Name] = 1
		}
	}
	if own := u.own(); own != nil {
		for _, g := range own.Spec.Groups {
			former[g.Name] = int(g.Count)
		}
	}
	has := u.holding()
	var out []allocation.PromiseRequest
	for _, surge := range []bool{true, false} {
		for _, before := range []bool{true, false} {
			groups := slices.Clone(u.Groups)
			for i := range groups {
				g := &groups[i]
				asked := g.Count
				g.Count = has[i]
				if before {
					g.Count = max(has[i], min(former[g.Name], asked))
				}
				if surge {
					g.Count += surges[g.Name]
				}
			}
			out = append(out, allocation.PromiseRequest{Namespace: u.Namespace, ClusterName: u.ClusterName, Cluster: u.Cluster,
				Purpose: infrav1.ReservationUpgrade, Demand: Demand(groups, u.Images)})
		}
	}
	return out
}

// holding counts, for each of the Cluster's groups, the machines that have their host.
func (u Upgrade) holding() []int {
	return allocation.Holding(u.Namespace, u.ClusterName, Demand(u.Groups, u.Images), u.Snapshot.Machines)
}

// maxNamed bounds how many hosts a message names.
const maxNamed = 5

// unreachable names the hosts of the upgrade's machines whose BMC does not answer: an
// upgrade would end at the first that is to be let go.
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
		if !silent(host) {
			continue
		}
		m := machines[host.Spec.Claim.MachineRef.Name]
		if m == nil || !m.DeletionTimestamp.IsZero() {
			continue // given up: the upgrade has nothing to do with it any more
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

// silent says whether a host's BMC is known not to answer.
func silent(host *infrav1.IngotHost) bool {
	for _, c := range host.Status.Conditions {
		if c.Type == infrav1.HostBMCReachableCondition {
			return c.Status == "False"
		}
	}
	return false
}

// decideDelete holds the deletion of a Cluster that somebody wants to keep.
func decideDelete(cluster *clusterv1.Cluster) Verdict {
	if !says(cluster, infrav1.RetainAnnotation) {
		return Verdict{}
	}
	return Verdict{Hold: true, Message: fmt.Sprintf("the Cluster is to be retained; to let the deletion go on: kubectl annotate cluster -n %s %s %s-",
		cluster.Namespace, cluster.Name, infrav1.RetainAnnotation)}
}

// says whether a Cluster has an annotation, and not to say no by it.
func says(cluster *clusterv1.Cluster, annotation string) bool {
	value, ok := cluster.Annotations[annotation]
	return ok && value != "false"
}

// upgradesAnyway reports whether a person has consented to the upgrade that is asked for. The
// consent names its version: one that was given for an earlier upgrade, or stands in a
// manifest, does not let the next one through (decision 0359).
func upgradesAnyway(cluster *clusterv1.Cluster) bool {
	consent, target := cluster.Annotations[infrav1.UpgradeAnywayAnnotation], cluster.Spec.Topology.Version
	return target != "" && strings.TrimPrefix(strings.TrimSpace(consent), "v") == strings.TrimPrefix(target, "v")
}
