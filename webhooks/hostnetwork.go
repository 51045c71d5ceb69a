// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/networkuse"
)

// checkRecordedAddress rejects another network or boot NIC during an installation that uses the
// host's recorded address: Ingot would record another address, and the next attempt would install
// the old one. An installed system keeps its addresses. A host that is being released must boot
// wherever it is.
func (v *hostValidator) checkRecordedAddress(ctx context.Context, before, after *v1beta2.IngotHost) (field.ErrorList, error) {
	claim := after.Spec.Claim
	sameNIC, sameNetwork := before.Spec.BootMACAddress == after.Spec.BootMACAddress, before.Spec.NetworkRef == after.Spec.NetworkRef
	if sameNIC && sameNetwork || claim == nil || claim.Network == nil || claim.State != v1beta2.ClaimProvisioning {
		return nil, nil
	}
	hardware := &v1beta2.IngotHardware{}
	if err := v.hosts.Get(ctx, client.ObjectKeyFromObject(after), hardware); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	has := func(entry *v1beta2.RecordedAddress) bool {
		return entry != nil && entry.MAC == before.Spec.BootMACAddress && entry.NetworkName == before.Spec.NetworkRef.Name &&
			slices.Contains(claim.Network.Addresses, entry.IP)
	}
	if !has(hardware.Spec.Address) && !has(hardware.Spec.IPv6Address) {
		return nil, nil
	}
	path, value := field.NewPath("spec", "bootMACAddress"), after.Spec.BootMACAddress
	if sameNIC {
		path, value = field.NewPath("spec", "networkRef", "name"), after.Spec.NetworkRef.Name
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf(
		"Ingot is installing the host for IngotMachine %s with its recorded address on IngotNetwork %s; wait until the installation ends, or delete the Machine first",
		claim.MachineRef.Name, before.Spec.NetworkRef.Name))}, nil
}

// checkNetwork rejects a network that does not allow the host's namespace or has reached its limit,
// and a boot NIC of another tenant (I22). The host controller checks a network that does not exist
// yet.
func (v *hostValidator) checkNetwork(ctx context.Context, host *v1beta2.IngotHost) (field.ErrorList, error) {
	if foreign, err := v.isForeignNIC(ctx, host); err != nil || foreign {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "bootMACAddress"), host.Spec.BootMACAddress,
			"is an interface of a host in another namespace; correct it, or, if the interface was moved, inspect that host again first")}, err
	}
	network := &v1beta2.IngotNetwork{}
	if err := v.hosts.Get(ctx, client.ObjectKey{Name: host.Spec.NetworkRef.Name}, network); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	why, err := networkuse.Check(ctx, v.hosts, host, network)
	if err != nil || why == nil {
		return nil, err
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "networkRef", "name"), network.Name, why.Message+"; "+why.Remedy)}, nil
}

// isForeignNIC reports whether an inspection found the boot MAC address in a host of another
// namespace: Ingot would boot that server for this host. Discovered hosts that wait for approval
// and hosts that clusterctl move deletes do not count.
func (v *hostValidator) isForeignNIC(ctx context.Context, host *v1beta2.IngotHost) (bool, error) {
	facts := &v1beta2.IngotHardwareList{}
	if err := v.hosts.List(ctx, facts, client.MatchingFields{index.HardwareByNIC: host.Spec.BootMACAddress}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the hardware with interface %s: %w", host.Spec.BootMACAddress, err)
	}
	for i := range facts.Items {
		if facts.Items[i].Namespace == host.Namespace {
			continue
		}
		other := &v1beta2.IngotHost{}
		err := v.hosts.Get(ctx, client.ObjectKeyFromObject(&facts.Items[i]), other)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get the host with interface %s: %w", host.Spec.BootMACAddress, err)
		}
		_, enrolled := other.Labels[v1beta2.EnrolledLabel]
		if err == nil && (other.Spec.Claim != nil || !isDeletedForMove(other) && (other.Spec.Record != nil || !enrolled)) {
			return true, nil
		}
	}
	return false, nil
}

// checkNetworkChange applies checkNetwork to another network or boot NIC. A host that joins a
// network counts as the newest host there: otherwise old hosts could join beyond the limit. An
// inspected host cannot join a network that does not exist: it would count as a host from before
// the network's creation.
func (v *hostValidator) checkNetworkChange(ctx context.Context, before, after *v1beta2.IngotHost) (field.ErrorList, error) {
	joins := before.Spec.NetworkRef != after.Spec.NetworkRef
	if !joins && before.Spec.BootMACAddress == after.Spec.BootMACAddress {
		return nil, nil
	}
	if !joins {
		return v.checkNetwork(ctx, after)
	}
	joining := after.DeepCopy()
	joining.CreationTimestamp = metav1.Time{}
	errs, err := v.checkNetwork(ctx, joining)
	if err != nil || len(errs) > 0 || after.Spec.Claim == nil && after.Spec.Record == nil {
		return errs, err
	}
	name := after.Spec.NetworkRef.Name
	err = v.hosts.Get(ctx, client.ObjectKey{Name: name}, &v1beta2.IngotNetwork{})
	if apierrors.IsNotFound(err) {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "networkRef", "name"), name,
			"IngotNetwork does not exist; create it before an inspected host joins it, or correct the name")}, nil
	}
	return nil, err
}

// bootNetworkWarnings warns about another boot NIC or network of a host whose system may use DHCP:
// Ingot serves the recorded address only to the previous NIC on the previous network.
func bootNetworkWarnings(before, host *v1beta2.IngotHost) admission.Warnings {
	claim, path, value := host.Spec.Claim, "spec.bootMACAddress", host.Spec.BootMACAddress
	if before.Spec.BootMACAddress == host.Spec.BootMACAddress {
		path, value = "spec.networkRef.name", host.Spec.NetworkRef.Name
	}
	unchanged := before.Spec.BootMACAddress == host.Spec.BootMACAddress && before.Spec.NetworkRef == host.Spec.NetworkRef
	if unchanged || before.Spec.NetworkRef.Name == "" || claim == nil || claim.State != v1beta2.ClaimProvisioned || claim.Network != nil {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("%s: with %q the installed system of IngotMachine %q loses its address if it uses DHCP; "+
		"delete the Machine first, and change this when the host is off", path, value, claim.MachineRef.Name)}
}
