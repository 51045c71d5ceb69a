// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/addressuse"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// ErrSelectorInvalid means that a label selector of the cluster or the machine does not parse.
var ErrSelectorInvalid = errors.New("invalid selector")

// Candidate is a host with its hardware. Hardware is nil before the inspection.
type Candidate struct {
	Host     *infrav1.IngotHost
	Hardware *infrav1.IngotHardware
}

// Candidates joins the hosts of one namespace with their hardware, by name.
func Candidates(hosts []infrav1.IngotHost, hardware []infrav1.IngotHardware) []Candidate {
	facts := make(map[string]*infrav1.IngotHardware, len(hardware))
	for i := range hardware {
		facts[hardware[i].Name] = &hardware[i]
	}
	candidates := make([]Candidate, 0, len(hosts))
	for i := range hosts {
		candidates = append(candidates, Candidate{Host: &hosts[i], Hardware: facts[hosts[i].Name]})
	}
	return candidates
}

// SelectionRequest has the requirements of a machine.
type SelectionRequest struct {
	// Machine that needs a host, and its IngotCluster.
	Machine *infrav1.IngotMachine
	Cluster *infrav1.IngotCluster
	// ClusterName is the name of the Cluster API Cluster (I12).
	ClusterName string
	// ControlPlane: the machine is a control plane.
	ControlPlane bool
	// FailureDomain that the machine needs. Empty: any, or none (I11).
	FailureDomain string
	// Named has the hosts in the machine's namespace that the providerID of any IngotMachine
	// names (I1).
	Named map[string]bool
	// DomainUse counts, per failure domain, the machines of the same MachineSet or control
	// plane that are not being deleted.
	DomainUse map[string]int
	// DeploymentUse counts, per failure domain, the machines of the same MachineDeployment
	// that are not being deleted. It only decides if DomainUse is equal: during a rollout it
	// includes the machines of the old MachineSet, all of which will be deleted.
	DeploymentUse map[string]int
	// Architecture of the machine's image. Empty: any.
	Architecture string
	// Checksums of the machine's image, or of the files of its live system.
	Checksums []string
	// Reservations are the outstanding reservations, including those of the machine's Cluster (see
	// Outstanding). Select takes no host that one of them needs.
	Reservations []OutstandingReservation
	// Around is what networkData needs in addition to the host. Unused without networkData.
	Around networkdata.Surroundings
}

// Selection is the selected host, or why there is none.
type Selection struct {
	// Host is nil if no host suits.
	Host *infrav1.IngotHost
	// FailureDomain of the host, which the claim fixes (I11). It may be empty.
	FailureDomain string
	// RootDeviceHints in force (the machine's, else the host's), which the claim fixes, and the
	// disk that they select by the present hardware. With softwareRAID it is the first of two.
	RootDeviceHints *infrav1.RootDeviceHints
	RootDisk        infrav1.HardwareDisk
	// Reason and Message explain why there is none: ReasonNoMatchingHost or
	// ReasonSelectorInvalid. The message has at most inventory.MaxText characters, and does not
	// depend on the hosts that other machines use.
	Reason  string
	Message string
	// Counts has the number of hosts per criterion that they miss at present. Empty: no hosts.
	Counts string
}

// Select selects a host for a machine, or explains why there is none. It is pure: the order of
// the candidates does not matter. Of the suitable hosts it takes, in this order:
//   - one that has not refused the machine's image;
//   - one in the failure domain that the MachineSet or control plane uses least;
//   - one in the failure domain that the MachineDeployment uses least;
//   - one that is not in critical health;
//   - the one with the least spare capacity;
//   - one by a hash of machine and host, so that machines that select at once differ.
func Select(request SelectionRequest, candidates []Candidate) Selection {
	criteria, err := newCriteria(request)
	if err != nil {
		return Selection{Reason: infrav1.ReasonSelectorInvalid, Message: inventory.WithDetail("A selector is invalid: ", err.Error(), ".")}
	}
	var best *judgement
	var refused []judgement
	guard := newReservationGuard(criteria, candidates, claimableBut(request.Named))
	for i, candidate := range candidates {
		if candidate.Host.Namespace != request.Machine.Namespace {
			continue
		}
		judged := criteria.judge(candidate)
		if len(judged.misses) == 0 && !guard.allows(i) {
			judged.missForNow("reserved for others", "free, but reserved for a Cluster")
		}
		switch {
		case len(judged.misses) > 0:
			refused = append(refused, judged)
		case best == nil || judged.compare(best) < 0:
			best = &judged
		}
	}
	if best == nil {
		message, counts := criteria.explain(refused)
		return Selection{Reason: infrav1.ReasonNoMatchingHost, Message: message, Counts: counts}
	}
	return Selection{
		Host:            best.Host,
		FailureDomain:   criteria.domain(best.Host),
		RootDeviceHints: criteria.hints(best.Host).DeepCopy(),
		RootDisk:        best.rootDisks[0],
	}
}

// criteria is a request with parsed selectors.
type criteria struct {
	SelectionRequest
	label        string
	cluster      labels.Selector
	controlPlane labels.Selector
	machine      labels.Selector
	want         infrav1.HostSelector
	minimum      infrav1.HardwareMinimum
}

func newCriteria(request SelectionRequest) (*criteria, error) {
	c := &criteria{SelectionRequest: request, label: inventory.FailureDomainLabel(request.Cluster)}
	if request.Machine.Spec.HostSelector != nil {
		c.want = *request.Machine.Spec.HostSelector
	}
	if c.want.Minimum != nil {
		c.minimum = *c.want.Minimum
	}
	var err error
	if c.cluster, err = parseSelector("hostSelector of the IngotCluster", request.Cluster.Spec.HostSelector); err != nil {
		return nil, err
	}
	if c.controlPlane, err = parseSelector("controlPlaneSelector of the IngotCluster", request.Cluster.Spec.ControlPlaneSelector); err != nil {
		return nil, err
	}
	c.machine, err = parseSelector("hostSelector of the IngotMachine",
		&metav1.LabelSelector{MatchLabels: c.want.MatchLabels, MatchExpressions: c.want.MatchExpressions})
	return c, err
}

// Misfit returns which requirements a selected host no longer meets, as Select judges them.
// Empty: it meets all. It ignores other machines, reservations, and the addresses of networkData,
// which the claim assigns. It fails with ErrSelectorInvalid.
func Misfit(request SelectionRequest, candidate Candidate) (string, error) {
	request.Named = nil
	criteria, err := newCriteria(request)
	if err != nil {
		return "", err
	}
	j := judgement{Candidate: candidate}
	criteria.judgePlace(&j)
	criteria.judgeHardware(&j)
	criteria.judgeEndpoint(&j)
	criteria.judgeState(&j)
	return inventory.Truncate(joinDetails(j.misses), MaxExplanation), nil
}

// SelectsLabels reports whether the labels of a host match a machine's selector. An invalid
// selector matches any, so that Select reports it.
func SelectsLabels(selector *infrav1.HostSelector, set map[string]string) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: selector.MatchLabels, MatchExpressions: selector.MatchExpressions})
	return err != nil || parsed.Matches(labels.Set(set))
}

// parseSelector parses a selector. Nil selects everything.
func parseSelector(name string, selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return labels.Everything(), nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSelectorInvalid, name, err)
	}
	return parsed, nil
}

func (c *criteria) domain(host *infrav1.IngotHost) string { return host.Labels[c.label] }

// hints returns the hints in force: the machine's override the host's.
func (c *criteria) hints(host *infrav1.IngotHost) *infrav1.RootDeviceHints {
	if c.Machine.Spec.RootDeviceHints != nil {
		return c.Machine.Spec.RootDeviceHints
	}
	return host.Spec.RootDeviceHints
}

// miss is one criterion that a host does not meet.
type miss struct {
	// kind is equal for all hosts, to count them by it. detail has the values of this host.
	kind, detail string
	// passing: the miss ends without a change to hosts or selectors, for example when another
	// machine releases the host. The nearest miss does not depend on it.
	passing bool
}

// judgement is a candidate with the criteria that it misses.
type judgement struct {
	Candidate
	misses []miss
	// rootDisks has one disk, or the members of a mirror.
	rootDisks []infrav1.HardwareDisk
	rank      rank
}

// rank orders the suitable hosts. Less is better.
type rank struct {
	refused, domainUse, deploymentUse, ailing int

	memory, cores, disk int64
	hash                uint64
	name                string
}

func (j *judgement) compare(other *judgement) int {
	a, b := j.rank, other.rank
	return cmp.Or(
		cmp.Compare(a.refused, b.refused), // first, since an install there fails in any domain
		cmp.Compare(a.domainUse, b.domainUse),
		cmp.Compare(a.deploymentUse, b.deploymentUse),
		cmp.Compare(a.ailing, b.ailing),
		cmp.Compare(a.memory, b.memory),
		cmp.Compare(a.cores, b.cores),
		cmp.Compare(a.disk, b.disk),
		cmp.Compare(a.hash, b.hash),
		cmp.Compare(a.name, b.name),
	)
}

func (c *criteria) judge(candidate Candidate) judgement {
	j := judgement{Candidate: candidate}
	c.judgePlace(&j)
	c.judgeHardware(&j)
	c.judgeEndpoint(&j)
	c.judgeState(&j)
	c.judgeAddresses(&j)
	if len(j.misses) > 0 {
		return j
	}
	domain := c.domain(candidate.Host)
	j.rank = rank{
		refused:       lifecycle.RefusedImageRank(candidate.Host, c.Checksums, j.rootDisks),
		domainUse:     c.DomainUse[domain],
		deploymentUse: c.DeploymentUse[domain],
		ailing:        lifecycle.IsCriticalRank(candidate.Host),
		memory:        inventory.MemoryBytes(candidate.Hardware.Spec),
		cores:         int64(candidate.Hardware.Spec.CPU.Cores),
		disk:          inventory.RootBytes(j.rootDisks) / inventory.BytesPerGB,
		hash:          pairHash(c.Machine.Namespace+"/"+c.Machine.Name, candidate.Host.Namespace+"/"+candidate.Host.Name),
		name:          candidate.Host.Name,
	}
	return j
}

// judgePlace checks labels, failure domain (I11) and boot trust.
func (c *criteria) judgePlace(j *judgement) {
	set := labels.Set(j.Host.Labels)
	if !c.cluster.Matches(set) {
		j.miss("not in the cluster's part of the inventory", "not selected by hostSelector of the IngotCluster")
	}
	if c.ControlPlane && !c.controlPlane.Matches(set) {
		j.miss("not for control planes", "not selected by controlPlaneSelector of the IngotCluster")
	}
	if c.FailureDomain != "" && c.domain(j.Host) != c.FailureDomain {
		j.miss("in another failure domain", fmt.Sprintf("in failure domain %q", c.domain(j.Host)))
	}
	if trust, _, why := lifecycle.BootTrustOf(j.Host); c.Cluster.Spec.BootTrust == infrav1.BootTrustVerified && trust != infrav1.BootTrustVerified {
		j.miss("without a verified boot", "no verified boot, which the IngotCluster requires: "+strings.TrimSuffix(why, "."))
	}
	if !c.machine.Matches(set) {
		j.miss("without the labels asked for", "not selected by hostSelector of the IngotMachine")
	}
}

// judgeHardware checks the hardware.
func (c *criteria) judgeHardware(j *judgement) {
	if j.Hardware == nil {
		j.miss("without hardware facts", "its IngotHardware does not exist")
		return
	}
	spec := j.Hardware.Spec
	if c.want.Architecture != "" && spec.Architecture != c.want.Architecture || c.Architecture != "" && spec.Architecture != c.Architecture {
		j.miss("of another architecture", fmt.Sprintf("architecture %q", spec.Architecture))
	}
	if least := c.minimum.Cores; least != nil && spec.CPU.Cores < *least {
		j.miss("with too few cores", fmt.Sprintf("%d cores of %d", spec.CPU.Cores, *least))
	}
	if least := c.minimum.Memory; least != nil && least.CmpInt64(inventory.MemoryBytes(spec)) > 0 {
		j.miss("with too little memory", fmt.Sprintf("%s memory of %s", inventory.MemoryQuantity(inventory.MemoryBytes(spec)), least))
	}
	c.judgeInterfaces(j)
	disks, err := inventory.SelectRootDisks(spec.Disks, c.hints(j.Host), c.Machine.Spec.SoftwareRAID)
	if err != nil {
		j.miss("without a root disk that suits", err.Error())
		return
	}
	j.rootDisks = disks
	if least := c.minimum.Disk; least != nil && least.CmpInt64(inventory.RootBytes(disks)) > 0 {
		j.miss("with too small a root disk", fmt.Sprintf("root disk of %s of %s", inventory.DiskQuantity(inventory.RootBytes(disks)), least))
	}
}

// withoutNetwork is the miss of a host that networkData of the machine does not fit.
const withoutNetwork = "without the network asked for"

// judgeInterfaces checks that the host has the interfaces of networkData. That is all that can be
// checked for a machine that does not exist yet.
func (c *criteria) judgeInterfaces(j *judgement) {
	host := networkdata.Host{BootMAC: j.Host.Spec.BootMACAddress, NICs: j.Hardware.Spec.NICs}
	if err := networkdata.Fit(c.Machine.Spec.NetworkData, host); err != nil {
		j.miss(withoutNetwork, err.Error())
	}
}

// judgeEndpoint checks that a worker's host does not have the address of the control plane. The
// host of a control plane may have it on purpose.
func (c *criteria) judgeEndpoint(j *judgement) {
	endpoint := addressuse.EndpointOf(c.Cluster)
	if c.ControlPlane || j.Hardware == nil || !endpoint.IsValid() {
		return
	}
	for _, entry := range []*infrav1.RecordedAddress{j.Hardware.Spec.Address, j.Hardware.Spec.IPv6Address} {
		if entry == nil {
			continue
		}
		if address, err := netip.ParseAddr(entry.IP); err == nil && address == endpoint {
			j.miss("with the endpoint of the cluster", fmt.Sprintf("recorded with %s, the endpoint of the cluster. Delete the IngotHost and register it again to change its address", endpoint))
			return
		}
	}
}

// judgeAddresses checks that networkData resolves on the host. It takes longest, so it only checks
// hosts that meet all other criteria.
func (c *criteria) judgeAddresses(j *judgement) {
	data := c.Machine.Spec.NetworkData
	if data == nil || j.Hardware == nil || len(j.misses) > 0 {
		return
	}
	if _, err := networkdata.Resolve(data, networkdata.SourcesOf(j.Host, j.Hardware, c.Around)); err != nil {
		j.miss(withoutNetwork, err.Error())
	}
}

// judgeState checks that this cluster can claim the host now (I1, I12).
func (c *criteria) judgeState(j *judgement) {
	claimable, why := lifecycle.IsClaimable(j.Host)
	switch {
	case claimable:
	case lifecycle.IsOutOfService(j.Host):
		j.miss(why, why)
	default:
		j.missForNow(why, why)
	}
	if foreignData(j.Host, c.ClusterName) {
		j.misses = append(j.misses, miss{"holding another cluster's data", "not cleaned since it served cluster " + j.Host.Spec.Record.LastClusterName, !claimable})
	}
	if c.Named[j.Host.Name] && j.Host.Spec.Claim == nil {
		j.missForNow("chosen by another machine", "named by the providerID of another machine")
	}
}

// foreignData reports whether the host was not cleaned since another cluster used it (I12).
func foreignData(host *infrav1.IngotHost, clusterName string) bool {
	record := host.Spec.Record
	return record != nil && record.LastClusterName != "" && record.LastClusterName != clusterName
}

func (j *judgement) miss(kind, detail string) {
	j.misses = append(j.misses, miss{kind: kind, detail: detail})
}

// missForNow adds a miss that ends without a change.
func (j *judgement) missForNow(kind, detail string) {
	j.misses = append(j.misses, miss{kind: kind, detail: detail, passing: true})
}

func pairHash(machine, host string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(machine + "\x00" + host))
	return inventory.Mix(h.Sum64())
}
