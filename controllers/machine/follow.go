// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// followInstall shows how the install goes. From the commit point on the machine
// is provisioned, for ever (I4, M21, M22).
func (r *Reconciler) followInstall(_ context.Context, s *scope) (outcome, error) {
	if s.host.Spec.Claim.State == infrav1.ClaimProvisioning {
		s.set(infrav1.MachineInstalledCondition, metav1.ConditionFalse, infrav1.ReasonProvisioning, installMessage(s.host))
		return stop(0), nil
	}
	s.set(infrav1.MachineInstalledCondition, metav1.ConditionTrue, infrav1.ReasonInstalled, "")
	s.machine.Status.Initialization.Provisioned = ptr.To(true)
	return next, nil
}

// installMessage says what the host is doing, without numbers that change all the
// time: those are in the host's own status.
func installMessage(host *infrav1.IngotHost) string {
	message := fmt.Sprintf("IngotHost %s is being installed, attempt %d", host.Name, max(host.Spec.Claim.Attempt, 1))
	if operation := host.Status.Operation; operation != nil && operation.Step != "" {
		message += ": " + operation.Step
	}
	if ready := conditions.Get(host, infrav1.ReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse && ready.Message != "" {
		message += "; " + ready.Message
	}
	return message
}

// followBoot shows the first boot and the addresses of the installed system.
func (r *Reconciler) followBoot(ctx context.Context, s *scope) (outcome, error) {
	hardware := &infrav1.IngotHardware{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(s.host), hardware); client.IgnoreNotFound(err) != nil {
		return next, fmt.Errorf("hardware of host %s: %w", s.host.Name, err)
	}
	report, reported := reportOf(s.host, hardware)
	s.machine.Status.Addresses = addressesOf(s.host, hardware, machineOwn(s.cluster, s.host, hardware, reported))
	if report == nil {
		s.set(infrav1.MachineBootedCondition, metav1.ConditionUnknown, infrav1.ReasonWaitingForBoot,
			"The installed system has not reported yet. Images without cloud-init or curl never do; the machine works all the same")
		return next, nil
	}
	reason, message := infrav1.ReasonBooted, ""
	if !s.owner.Status.NodeRef.IsDefined() {
		reason, message = firstBootOf(report, s.host.Spec.Claim, s.owner)
	}
	status := metav1.ConditionTrue
	if reason != infrav1.ReasonBooted {
		status = metav1.ConditionFalse
	}
	if s.set(infrav1.MachineBootedCondition, status, reason, message) && reason == infrav1.ReasonBootstrapFailed {
		r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, reason, action, "%s", message)
	}
	return next, nil
}

// firstBootOf says how the first boot of a machine that has no Node ended: the reason, and
// what people are told.
func firstBootOf(report *infrav1.BootedStatus, claim *infrav1.HostClaim, owner *clusterv1.Machine) (reason, message string) {
	const then = "A MachineHealthCheck replaces such a Machine; without one, delete Machine "
	switch {
	case ptr.Deref(report.Interrupted, false):
		return infrav1.ReasonFirstBootInterrupted,
			"The first boot was cut off before cloud-init had ended, which leaves out for good what it had begun (it may be kubeadm), and no Node has joined. " + then + owner.Name
	case inventory.BootstrapFailed(report, claim, inventory.LeavesSentinel(owner)):
		return infrav1.ReasonBootstrapFailed, fmt.Sprintf(
			"cloud-init has ended without the sentinel file of %s %s, and no Node has joined: kubeadm failed, and is not begun anew. On the server, /var/log/cloud-init-output.log says why. %s",
			owner.Spec.Bootstrap.ConfigRef.Kind, owner.Spec.Bootstrap.ConfigRef.Name, then+owner.Name)
	}
	return infrav1.ReasonBooted, ""
}

// reportOf is the report of the system that the claim installed, nil before there is one,
// and which addresses it has. It reports once: what IngotHardware keeps survives a lost
// status and a move, and counts first.
func reportOf(host *infrav1.IngotHost, hardware *infrav1.IngotHardware) (report *infrav1.BootedStatus, addresses []string) {
	instance := host.Spec.Claim.InstanceID
	if kept := hardware.Spec.Booted; kept != nil && kept.InstanceID == instance {
		return inventory.SummarizeBooted(*kept), kept.Addresses
	}
	if shown := host.Status.Booted; shown != nil && shown.InstanceID == instance {
		return shown, host.Status.Addresses
	}
	return nil, host.Status.Addresses
}

// machineOwn is what a system reports without what belongs to its Cluster: the report may
// come days after the first boot, when the manager was away. Pods go first: beside them
// alone the endpoint's address is the only one that there is.
func machineOwn(cluster *clusterv1.Cluster, host *infrav1.IngotHost, hardware *infrav1.IngotHardware, reported []string) []string {
	var known []string
	if network := host.Spec.Claim.Network; network != nil {
		known = append(known, network.Addresses...)
	}
	for _, recorded := range []*infrav1.RecordedAddress{hardware.Spec.Address, hardware.Spec.IPv6Address} {
		if recorded != nil {
			known = append(known, recorded.IP)
		}
	}
	return withoutEndpoint(cluster, hardware, withoutPods(cluster, known, reported))
}

// withoutPods leaves out what lies in the Cluster's networks of Pods and Services, as the
// interfaces of a CNI and of IPVS do. Some sites have their Pods in the servers' own
// network: one that holds an address known to be the host's counts for nothing, and where
// all addresses of a family would go, they stay.
func withoutPods(cluster *clusterv1.Cluster, known, reported []string) []string {
	network := cluster.Spec.ClusterNetwork
	var ranges []netip.Prefix
	for _, text := range slices.Concat(network.Pods.CIDRBlocks, network.Services.CIDRBlocks) {
		prefix, err := netip.ParsePrefix(text)
		if err == nil && !slices.ContainsFunc(known, func(text string) bool { return prefix.Contains(addressOf(text)) }) {
			ranges = append(ranges, prefix)
		}
	}
	within := func(ip netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	stays := map[bool]bool{} // whether one of IPv4, and one of IPv6, does
	for _, text := range reported {
		if ip := addressOf(text); !within(ip) {
			stays[ip.Is4()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(reported), func(text string) bool {
		ip := addressOf(text)
		return within(ip) && stays[ip.Is4()]
	})
}

// addressOf is in no network where the text is no address.
func addressOf(text string) netip.Addr {
	ip, _ := netip.ParseAddr(text)
	return ip.Unmap()
}

// withoutEndpoint leaves out the address of the Cluster's API server, which the system of
// a first control plane reports where kube-vip or keepalived gave it to it: it moves, and
// two machines must not have one address. It stays where it is the machine's own: one
// recorded for its host, or the only one that it has. Addresses are compared, not texts:
// people write IPv6 ones in more than one way.
func withoutEndpoint(cluster *clusterv1.Cluster, hardware *infrav1.IngotHardware, reported []string) []string {
	endpoint, err := netip.ParseAddr(cluster.Spec.ControlPlaneEndpoint.Host)
	if err != nil { // a name, or none yet
		return reported
	}
	is := func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err == nil && ip.Unmap() == endpoint.Unmap()
	}
	for _, recorded := range []*infrav1.RecordedAddress{hardware.Spec.Address, hardware.Spec.IPv6Address} {
		if recorded != nil && is(recorded.IP) {
			return reported
		}
	}
	own := slices.DeleteFunc(slices.Clone(reported), is)
	if len(own) == 0 {
		return reported
	}
	return own
}

// addressesOf lists the machine's addresses (M19, M20): the reported ones when
// known, else the recorded one.
func addressesOf(host *infrav1.IngotHost, hardware *infrav1.IngotHardware, reported []string) []clusterv1.MachineAddress {
	name := host.Spec.Claim.Hostname
	addresses := []clusterv1.MachineAddress{
		{Type: clusterv1.MachineHostName, Address: name},
		{Type: clusterv1.MachineInternalDNS, Address: name},
	}
	for _, ip := range internalIPs(host, hardware, reported) {
		addresses = append(addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: ip})
	}
	return addresses
}

// internalIPs are the addresses that the machine was assigned, and those that its system
// reports. A system that was assigned none, and has not reported, has the one recorded
// for its host: the IPv4 address, or, on a network where none is, the IPv6 address.
func internalIPs(host *infrav1.IngotHost, hardware *infrav1.IngotHardware, reported []string) []string {
	var assigned []string
	if network := host.Spec.Claim.Network; network != nil {
		assigned = network.Addresses
	}
	if len(assigned) > 0 {
		ips := slices.Clone(assigned)
		for _, ip := range reported {
			if !slices.Contains(ips, ip) {
				ips = append(ips, ip)
			}
		}
		return ips
	}
	if len(reported) > 0 {
		return reported
	}
	for _, recorded := range []*infrav1.RecordedAddress{hardware.Spec.Address, hardware.Spec.IPv6Address} {
		if recorded != nil && recorded.NetworkName == host.Spec.NetworkRef.Name {
			return []string{recorded.IP}
		}
	}
	return nil
}
