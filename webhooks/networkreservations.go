// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// checkReservations refuses reserved addresses that no interface could have on the
// network, or that two would have.
func checkReservations(spec v1beta2.IngotNetworkSpec) field.ErrorList {
	a, _ := parseAddresses(spec) // what does not parse is said already
	if !a.subnet.IsValid() || !a.subnet.Addr().Is4() {
		return nil
	}
	var errs field.ErrorList
	of := map[netip.Addr]string{}
	for i, kept := range spec.Reservations {
		path := field.NewPath("spec", "reservations").Index(i).Child("ip")
		ip, err := netip.ParseAddr(kept.IP)
		if err != nil {
			continue // the schema says so
		}
		refuse := func(format string, args ...any) {
			errs = append(errs, field.Invalid(path, kept.IP, fmt.Sprintf(format, args...)))
		}
		switch mac, taken := of[ip]; {
		case taken:
			refuse("is reserved for %s already; give each interface its own", mac)
		case !a.subnet.Contains(ip):
			refuse("must lie in spec.subnet %s", spec.Subnet)
		case ip == a.network || ip == a.broadcast:
			refuse("is the first or last address of %s, which no interface can have; give another", spec.Subnet)
		case kept.IP == spec.Gateway:
			refuse("is the address of the gateway; give another")
		case a.lent(ip):
			refuse("lies in spec.discover.range, which is lent to unknown machines; give one beside it")
		}
		of[ip] = kept.MAC
	}
	return errs
}

// heldByOthers refuses new reservations of addresses that a host has without the
// interface: recorded for its boot NIC, or given to its system by the claim, which keeps
// it whatever is reserved. Two servers would have them. The host is not named, since it
// may be of somebody else's namespace (decision 0147).
func (v *networkValidator) heldByOthers(ctx context.Context, network *v1beta2.IngotNetwork, before []v1beta2.NetworkReservation) (field.ErrorList, error) {
	if isLetGo(network) {
		return nil, nil
	}
	var errs field.ErrorList
	for i, kept := range network.Spec.Reservations {
		if slices.Contains(before, kept) {
			continue
		}
		why, err := v.heldBy(ctx, kept, before)
		if err != nil {
			return nil, err
		}
		if why != "" {
			errs = append(errs, field.Invalid(field.NewPath("spec", "reservations").Index(i).Child("ip"), kept.IP, why))
		}
	}
	return errs, nil
}

// heldBy says why nobody may have a reserved address but who has it; empty: they may. Of a
// host that has it any interface may, and one that no host is known to have may take the
// place of one of its own: a card is replaced in the inventory before or after the server.
func (v *networkValidator) heldBy(ctx context.Context, kept v1beta2.NetworkReservation, before []v1beta2.NetworkReservation) (string, error) {
	held, err := v.holdersOf(ctx, kept)
	if err != nil {
		return "", err
	}
	former := ""
	if i := slices.IndexFunc(before, func(r v1beta2.NetworkReservation) bool { return r.IP == kept.IP }); i >= 0 {
		former = before[i].MAC
	}
	for _, holder := range held {
		if holder.MAC == kept.MAC {
			continue
		}
		has, err := v.hasNIC(ctx, holder.Host, kept.MAC)
		if err == nil && !has && former != "" {
			has, err = v.replaces(ctx, holder, former, kept.MAC)
		}
		switch {
		case err != nil:
			return "", err
		case has:
		case holder.MAC != "":
			return "is recorded for a host (kubectl get ihw -A shows which); give another, or delete that host first", nil
		default:
			return "is the address of the system that is installed on a host without this interface (spec.claim.network.addresses of IngotHosts show which), " +
				"and stays so until its Machine is replaced; give another, or delete that Machine first", nil
		}
	}
	return "", nil
}

// replaces says whether an interface that nobody is known to have may be the new one of a
// holder, for which the address was reserved by its former one.
func (v *networkValidator) replaces(ctx context.Context, holder addressuse.Holder, former, mac string) (bool, error) {
	if own, err := v.hasNIC(ctx, holder.Host, former); err != nil || !own && holder.MAC != former {
		return false, err
	}
	hosts, facts := &v1beta2.IngotHostList{}, &v1beta2.IngotHardwareList{}
	if err := v.reader.List(ctx, hosts, client.MatchingFields{index.HostByMAC: mac}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("hosts that boot by %s: %w", mac, err)
	}
	if err := v.reader.List(ctx, facts, client.MatchingFields{index.HardwareByNIC: mac}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("hosts with %s: %w", mac, err)
	}
	return len(hosts.Items) == 0 && len(facts.Items) == 0, nil
}

func (v *networkValidator) holdersOf(ctx context.Context, kept v1beta2.NetworkReservation) ([]addressuse.Holder, error) {
	address, err := netip.ParseAddr(kept.IP)
	if err != nil {
		return nil, nil // the schema says so
	}
	held, err := index.HoldersOf(ctx, v.reader, address)
	return held[address], err
}

// hasNIC says whether a host has an interface, by what was inspected or is said of its
// boot NIC. It may have any where nothing was inspected: in a move networks come before that.
func (v *networkValidator) hasNIC(ctx context.Context, name types.NamespacedName, mac string) (bool, error) {
	host := &v1beta2.IngotHost{}
	if err := v.reader.Get(ctx, name, host); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("a host with a reserved address: %w", err)
	}
	if host.Spec.BootMACAddress == mac {
		return true, nil
	}
	hardware := &v1beta2.IngotHardware{}
	err := v.reader.Get(ctx, name, hardware)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("interfaces of a host with a reserved address: %w", err)
	}
	return slices.ContainsFunc(hardware.Spec.NICs, func(nic v1beta2.HardwareNIC) bool { return nic.MAC == mac }), nil
}

// reservationsLeft warns of reservations that go while systems have their addresses. They
// keep them, by their claims: nobody else is given one before.
func (v *networkValidator) reservationsLeft(ctx context.Context, before, after *v1beta2.IngotNetwork) admission.Warnings {
	var stay []string
	for _, kept := range before.Spec.Reservations {
		if slices.ContainsFunc(after.Spec.Reservations, func(r v1beta2.NetworkReservation) bool { return r.IP == kept.IP }) {
			continue // it stays, or is refused
		}
		held, err := v.holdersOf(ctx, kept)
		if err != nil {
			return nil // it is a warning only
		}
		if slices.ContainsFunc(held, func(h addressuse.Holder) bool { return h.MAC == "" }) {
			stay = append(stay, kept.IP)
		}
	}
	if len(stay) == 0 {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("spec.reservations: installed systems keep %s, which are not reserved any more, until their Machines are replaced; "+
		"put them back, or the machines that follow on these servers get none", listed(stay))}
}
