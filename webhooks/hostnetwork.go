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

// refuseRecorded refuses another network, or another boot NIC, for a host while a system
// is being installed that was given the address recorded for it: another would be
// recorded, and the next attempt would install a system with the one that the host no
// longer has there. An installed system keeps what it has, and a host whose claim is being
// released has to be booted wherever it is.
func (v *hostValidator) refuseRecorded(ctx context.Context, before, after *v1beta2.IngotHost) (field.ErrorList, error) {
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
		"the host is being installed for IngotMachine %s with the address recorded for it on IngotNetwork %s; wait until it is installed, or delete its Machine first",
		claim.MachineRef.Name, before.Spec.NetworkRef.Name))}, nil
}

// refuseNetwork refuses a network that does not allow the host's namespace, or no more hosts
// of it, and a boot NIC that is another tenant's (I22). A network that is not there yet is the
// controller's to look at.
func (v *hostValidator) refuseNetwork(ctx context.Context, host *v1beta2.IngotHost) (field.ErrorList, error) {
	if foreign, err := v.isForeignNIC(ctx, host); err != nil || foreign {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "bootMACAddress"), host.Spec.BootMACAddress,
			"is an interface of a host of another namespace; correct it, or, if the interface was moved, have that host inspected again first")}, err
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

// isForeignNIC reports whether the boot MAC address is that of an interface which an inspection
// found in a host of another namespace: that server would be booted for this host. What a machine
// reported that waits for approval does not count, nor what clusterctl moves away.
func (v *hostValidator) isForeignNIC(ctx context.Context, host *v1beta2.IngotHost) (bool, error) {
	facts := &v1beta2.IngotHardwareList{}
	if err := v.hosts.List(ctx, facts, client.MatchingFields{index.HardwareByNIC: host.Spec.BootMACAddress}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("look for the interface %s: %w", host.Spec.BootMACAddress, err)
	}
	for i := range facts.Items {
		if facts.Items[i].Namespace == host.Namespace {
			continue
		}
		other := &v1beta2.IngotHost{}
		err := v.hosts.Get(ctx, client.ObjectKeyFromObject(&facts.Items[i]), other)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("look for the host of interface %s: %w", host.Spec.BootMACAddress, err)
		}
		_, enrolled := other.Labels[v1beta2.EnrolledLabel]
		known := other.Spec.Claim != nil || !isLetGo(other) && (other.Spec.Record != nil || !enrolled)
		if err == nil && known {
			return true, nil
		}
	}
	return false, nil
}

// refuseMove refuses another network, or another boot NIC, as refuseNetwork does. A host that
// joins a network comes after all that are there, however old it is: otherwise the oldest hosts
// could join one after the other, beyond the limit. A host that Ingot knows joins no network
// that does not exist: it would count as there before the network was created.
func (v *hostValidator) refuseMove(ctx context.Context, before, after *v1beta2.IngotHost) (field.ErrorList, error) {
	joins := before.Spec.NetworkRef != after.Spec.NetworkRef
	if !joins && before.Spec.BootMACAddress == after.Spec.BootMACAddress {
		return nil, nil
	}
	if !joins {
		return v.refuseNetwork(ctx, after)
	}
	joining := after.DeepCopy()
	joining.CreationTimestamp = metav1.Time{}
	errs, err := v.refuseNetwork(ctx, joining)
	if err != nil || len(errs) > 0 || after.Spec.Claim == nil && after.Spec.Record == nil {
		return errs, err
	}
	name := after.Spec.NetworkRef.Name
	err = v.hosts.Get(ctx, client.ObjectKey{Name: name}, &v1beta2.IngotNetwork{})
	if apierrors.IsNotFound(err) {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "networkRef", "name"), name,
			"there is no such IngotNetwork; create it before a host that was inspected joins it, or correct the name")}, nil
	}
	return nil, err
}

// ofBootNetwork warns of another boot NIC or network for a host whose system has its address
// by DHCP: the one recorded for it is given to the NIC and on the network of before alone.
func ofBootNetwork(before, host *v1beta2.IngotHost) admission.Warnings {
	claim, path, value := host.Spec.Claim, "spec.bootMACAddress", host.Spec.BootMACAddress
	if before.Spec.BootMACAddress == host.Spec.BootMACAddress {
		path, value = "spec.networkRef.name", host.Spec.NetworkRef.Name
	}
	unchanged := before.Spec.BootMACAddress == host.Spec.BootMACAddress && before.Spec.NetworkRef == host.Spec.NetworkRef
	if unchanged || before.Spec.NetworkRef.Name == "" || claim == nil || claim.State != v1beta2.ClaimProvisioned || claim.Network != nil {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("%s: %q is new, and the system that IngotMachine %q has on the host, if it has its address by DHCP, is given none any more; "+
		"delete the Machine first, and change this once the host is off", path, value, claim.MachineRef.Name)}
}
