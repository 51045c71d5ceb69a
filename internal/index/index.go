// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/addressuse"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// The indexes.
const (
	// HostByMAC finds IngotHosts by spec.bootMACAddress.
	HostByMAC = "spec.bootMACAddress"
	// HostByBMC finds IngotHosts by the key of their BMC (see BMC). A BMC may manage several
	// systems (see SameBMC).
	HostByBMC = "spec.bmc.address"
	// HostByCredentials, HostByCABundle and HostByCASecret find IngotHosts by "<namespace>/<name>"
	// of the Secret with the credentials, and of the ConfigMap or Secret with the CA.
	HostByCredentials = "spec.bmc.credentialsRef"
	HostByCABundle    = "spec.bmc.caBundleRef"
	HostByCASecret    = "spec.bmc.caBundleRef.secret"
	// SecretByHost finds Secrets by the name of each IngotHost that owns them.
	SecretByHost = "metadata.ownerReferences"
	// HostByMachine finds IngotHosts by "<namespace>/<name>" of their claim's machine.
	HostByMachine = "spec.claim.machineRef"
	// HostByNetwork finds IngotHosts by spec.networkRef.name.
	HostByNetwork = "spec.networkRef.name"
	// HostByImage finds IngotHosts by the checksums of their claim: of its image, or of its live
	// system's files.
	HostByImage = "spec.claim.image.checksum"
	// HostByClaimAddress finds IngotHosts by each address that their claim has assigned to the
	// installed system, and HostWithClaimAddress, by Any, those with such an address.
	HostByClaimAddress   = "spec.claim.network.addresses"
	HostWithClaimAddress = "spec.claim.network"
	// HostByEnrollment finds IngotHosts that wait for approval, by the network on which they were
	// enrolled.
	HostByEnrollment = "metadata.labels.enrolled"
	// ClusterByEndpoint finds IngotClusters by the IP address of their control plane endpoint.
	ClusterByEndpoint = "spec.controlPlaneEndpoint.host"
	// HardwareByNIC finds IngotHardwares by the MAC address of each NIC.
	HardwareByNIC = "spec.nics.mac"
	// HardwareByIP finds IngotHardwares by "<network>/<address>" of the recorded address.
	HardwareByIP = "spec.address.ip"
	// HardwareByAddress finds IngotHardwares by a recorded IPv4 or IPv6 address.
	HardwareByAddress = "spec.addresses"
	// HardwareBySystem finds IngotHardwares by "<uuid>/<serial>" of the system.
	HardwareBySystem = "spec.system"
	// HardwareByNetwork finds IngotHardwares by the network of their address.
	HardwareByNetwork = "spec.address.networkName"
	// HardwareByIPv6Network finds IngotHardwares by the network of their IPv6 address.
	HardwareByIPv6Network = "spec.ipv6Address.networkName"
	// MachineByHost finds IngotMachines by "<namespace>/<name>" of the host that their provider ID
	// names.
	MachineByHost = "spec.providerID.host"
	// MachineWithoutHost finds IngotMachines without a host, by their namespace.
	MachineWithoutHost = "spec.providerID"
)

// Any is the only value of indexes that answer yes or no.
const Any = "any"

// fieldIndex is an index of objects of one kind.
type fieldIndex struct {
	object client.Object
	field  string
	values client.IndexerFunc
}

// directory returns the indexes that the boot server needs.
func directory() []fieldIndex {
	return []fieldIndex{
		{&infrav1.IngotHost{}, HostByMAC, ofHost(func(h *infrav1.IngotHost) string { return h.Spec.BootMACAddress })},
		{&infrav1.IngotHost{}, HostByImage, ClaimFiles},
		{&infrav1.IngotHost{}, HostByEnrollment, ofHost(enrolledOn)},
		{&infrav1.IngotHost{}, HostByClaimAddress, claimAddresses},
		{&infrav1.IngotHardware{}, HardwareByNIC, nics},
		{&infrav1.IngotHardware{}, HardwareByIP, ofHardware(recordedIP)},
		{&infrav1.IngotCluster{}, ClusterByEndpoint, endpoint},
	}
}

// SetupDirectory registers the indexes of a process that is a boot server only. Each index starts a
// watch, and a boot server may watch hosts and clusters, but no machines.
func SetupDirectory(ctx context.Context, indexer client.FieldIndexer) error {
	return register(ctx, indexer, directory())
}

// Setup registers all indexes.
func Setup(ctx context.Context, indexer client.FieldIndexer) error {
	return register(ctx, indexer, append(directory(), []fieldIndex{
		{&infrav1.IngotHost{}, HostByBMC, ofHost(BMC)},
		{&infrav1.IngotHost{}, HostByCredentials, ofHost(credentials)},
		{&infrav1.IngotHost{}, HostByCABundle, ofHost(caBundle)},
		{&infrav1.IngotHost{}, HostByCASecret, ofHost(caSecret)},
		{&corev1.Secret{}, SecretByHost, owningHosts},
		{&infrav1.IngotHost{}, HostByMachine, ofHost(claimMachine)},
		{&infrav1.IngotHost{}, HostByNetwork, ofHost(func(h *infrav1.IngotHost) string { return h.Spec.NetworkRef.Name })},
		{&infrav1.IngotHost{}, HostWithClaimAddress, withClaimAddress},
		{&infrav1.IngotHardware{}, HardwareByAddress, recordedAddresses},
		{&infrav1.IngotHardware{}, HardwareBySystem, ofHardware(System)},
		{&infrav1.IngotHardware{}, HardwareByNetwork, ofHardware(addressNetwork)},
		{&infrav1.IngotHardware{}, HardwareByIPv6Network, ofHardware(ipv6Network)},
		{&infrav1.IngotMachine{}, MachineByHost, machineHost},
		{&infrav1.IngotMachine{}, MachineWithoutHost, withoutHost},
	}...))
}

func register(ctx context.Context, indexer client.FieldIndexer, indexes []fieldIndex) error {
	for _, i := range indexes {
		if err := indexer.IndexField(ctx, i.object, i.field, i.values); err != nil {
			return fmt.Errorf("index %s: %w", i.field, err)
		}
	}
	return nil
}

// ofHost returns an index of one value. It does not index the empty value.
func ofHost(value func(*infrav1.IngotHost) string) client.IndexerFunc {
	return func(o client.Object) []string {
		host, ok := o.(*infrav1.IngotHost)
		if !ok {
			return nil
		}
		return oneOrNone(value(host))
	}
}

// owningHosts returns the names of the hosts, of any API version, that own an object.
func owningHosts(o client.Object) []string {
	var names []string
	for _, ref := range o.GetOwnerReferences() {
		if inventory.IsOwner(ref, infrav1.GroupVersion.WithKind("IngotHost").GroupKind()) {
			names = append(names, ref.Name)
		}
	}
	return names
}

func ofHardware(value func(*infrav1.IngotHardware) string) client.IndexerFunc {
	return func(o client.Object) []string {
		hardware, ok := o.(*infrav1.IngotHardware)
		if !ok {
			return nil
		}
		return oneOrNone(value(hardware))
	}
}

func oneOrNone(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// BMC returns the key of a host's BMC, which is the same for all addresses that may lead to one system
// (bmcaddress.Address.Key). It returns "" for a host without BMC or with an invalid address.
func BMC(h *infrav1.IngotHost) string {
	if h.Spec.BMC == nil {
		return ""
	}
	address, err := bmcaddress.Parse(h.Spec.BMC.Address)
	if err != nil {
		return ""
	}
	return address.Key()
}

// SameBMC reports whether the addresses of two hosts can lead to the same system (I8).
func SameBMC(a, b *infrav1.IngotHost) bool {
	if a.Spec.BMC == nil || b.Spec.BMC == nil {
		return false
	}
	first, err := bmcaddress.Parse(a.Spec.BMC.Address)
	second, otherErr := bmcaddress.Parse(b.Spec.BMC.Address)
	return err == nil && otherErr == nil && first.SameSystem(second)
}

func credentials(h *infrav1.IngotHost) string {
	if h.Spec.BMC == nil || h.Spec.BMC.CredentialsRef.Name == "" {
		return ""
	}
	return h.Namespace + "/" + h.Spec.BMC.CredentialsRef.Name
}

func caBundle(h *infrav1.IngotHost) string {
	if h.Spec.BMC == nil || h.Spec.BMC.CABundleRef == nil || h.Spec.BMC.CABundleRef.Kind == infrav1.CABundleSecret {
		return ""
	}
	return h.Namespace + "/" + h.Spec.BMC.CABundleRef.Name
}

func caSecret(h *infrav1.IngotHost) string {
	if h.Spec.BMC == nil || h.Spec.BMC.CABundleRef == nil || h.Spec.BMC.CABundleRef.Kind != infrav1.CABundleSecret {
		return ""
	}
	return h.Namespace + "/" + h.Spec.BMC.CABundleRef.Name
}

func claimMachine(h *infrav1.IngotHost) string {
	if h.Spec.Claim == nil {
		return ""
	}
	return h.Namespace + "/" + h.Spec.Claim.MachineRef.Name
}

// ClaimFiles returns the checksums of the files that a host's claim names.
func ClaimFiles(o client.Object) []string {
	h, ok := o.(*infrav1.IngotHost)
	if !ok || h.Spec.Claim == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(h.Spec.Claim.Files()))
}

func claimAddresses(o client.Object) []string {
	host, ok := o.(*infrav1.IngotHost)
	if !ok {
		return nil
	}
	var out []string
	for _, ip := range addressuse.InLedger(host) {
		out = appendAddress(out, ip)
	}
	return out
}

func withClaimAddress(o client.Object) []string {
	if len(claimAddresses(o)) == 0 {
		return nil
	}
	return []string{Any}
}

func recordedAddresses(o client.Object) []string {
	hardware, ok := o.(*infrav1.IngotHardware)
	if !ok {
		return nil
	}
	var out []string
	for _, entry := range []*infrav1.RecordedAddress{hardware.Spec.Address, hardware.Spec.IPv6Address} {
		if entry != nil {
			out = appendAddress(out, entry.IP)
		}
	}
	return out
}

// appendAddress appends an address in its canonical form. It leaves out invalid ones.
func appendAddress(list []string, text string) []string {
	address, err := netip.ParseAddr(text)
	if err != nil || slices.Contains(list, address.String()) {
		return list
	}
	return append(list, address.String())
}

// System identifies a server by its UUID and serial number. It returns "" if they cannot distinguish two
// servers (I8).
func System(h *infrav1.IngotHardware) string {
	if !inventory.IsDistinct(h.Spec.System.UUID, h.Spec.System.SerialNumber) {
		return ""
	}
	return h.Spec.System.UUID + "/" + h.Spec.System.SerialNumber
}

// enrolledOn returns the network of a host that waits for approval.
func enrolledOn(h *infrav1.IngotHost) string {
	if _, enrolled := h.Labels[infrav1.EnrolledLabel]; !enrolled {
		return ""
	}
	return h.Spec.NetworkRef.Name
}

func nics(o client.Object) []string {
	hardware, ok := o.(*infrav1.IngotHardware)
	if !ok {
		return nil
	}
	var macs []string
	for _, nic := range hardware.Spec.NICs {
		macs = append(macs, nic.MAC)
	}
	return macs
}

func recordedIP(h *infrav1.IngotHardware) string {
	if h.Spec.Address == nil || h.Spec.Address.IP == "" {
		return ""
	}
	return h.Spec.Address.NetworkName + "/" + h.Spec.Address.IP
}

func addressNetwork(h *infrav1.IngotHardware) string {
	if h.Spec.Address == nil {
		return ""
	}
	return h.Spec.Address.NetworkName
}

func ipv6Network(h *infrav1.IngotHardware) string {
	if h.Spec.IPv6Address == nil {
		return ""
	}
	return h.Spec.IPv6Address.NetworkName
}

func machineHost(o client.Object) []string {
	machine, ok := o.(*infrav1.IngotMachine)
	if !ok {
		return nil
	}
	id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
	if err != nil {
		return nil
	}
	return []string{id.Namespace + "/" + id.Host}
}

func withoutHost(o client.Object) []string {
	if _, ok := o.(*infrav1.IngotMachine); !ok || machineHost(o) != nil {
		return nil
	}
	return []string{o.GetNamespace()}
}
