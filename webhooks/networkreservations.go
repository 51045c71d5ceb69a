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

// checkReservations rejects reserved addresses that no interface can use on the network, or that
// are reserved twice.
func checkReservations(spec v1beta2.IngotNetworkSpec) field.ErrorList {
	a, _ := parseAddresses(spec) // checkAddresses reports the errors
	if !a.subnet.IsValid() || !a.subnet.Addr().Is4() {
		return nil
	}
	var errs field.ErrorList
	macs := map[netip.Addr]string{}
	for i, kept := range spec.StaticLeases {
		path := field.NewPath("spec", "staticLeases").Index(i).Child("ip")
		ip, err := netip.ParseAddr(kept.IP)
		if err != nil {
			continue // rejected by the schema
		}
		reject := func(format string, args ...any) {
			errs = append(errs, field.Invalid(path, kept.IP, fmt.Sprintf(format, args...)))
		}
		switch mac, taken := macs[ip]; {
		case taken:
			reject("is already reserved for %s; reserve another address", mac)
		case !a.subnet.Contains(ip):
			reject("must be in spec.subnet %s", spec.Subnet)
		case ip == a.network || ip == a.broadcast:
			reject("is the first or last address of %s, which no interface can have; reserve another address", spec.Subnet)
		case kept.IP == spec.Gateway:
			reject("is the address of the gateway; reserve another address")
		case a.isForDiscovery(ip):
			reject("is in spec.discover.range, which is for unknown clients; reserve another address")
		}
		macs[ip] = kept.MAC
	}
	return errs
}

// checkHolders rejects new reservations of addresses that a host without the interface has, by its
// record or by its claim: two servers would have the address. The message does not name the host,
// which may be in another namespace.
func (v *networkValidator) checkHolders(ctx context.Context, network *v1beta2.IngotNetwork, before []v1beta2.StaticLease) (field.ErrorList, error) {
	if isDeletedForMove(network) {
		return nil, nil
	}
	var errs field.ErrorList
	for i, kept := range network.Spec.StaticLeases {
		if slices.Contains(before, kept) {
			continue
		}
		why, err := v.checkHolder(ctx, kept, before)
		if err != nil {
			return nil, err
		}
		if why != "" {
			errs = append(errs, field.Invalid(field.NewPath("spec", "staticLeases").Index(i).Child("ip"), kept.IP, why))
		}
	}
	return errs, nil
}

// checkHolder returns why an address cannot be reserved for an interface, or "". It can if the
// interface belongs to the host that has the address, or may replace one of that host's
// interfaces: a NIC can be replaced in the inventory before or after the server.
func (v *networkValidator) checkHolder(ctx context.Context, kept v1beta2.StaticLease, before []v1beta2.StaticLease) (string, error) {
	held, err := v.holdersOf(ctx, kept)
	if err != nil {
		return "", err
	}
	former := ""
	if i := slices.IndexFunc(before, func(r v1beta2.StaticLease) bool { return r.IP == kept.IP }); i >= 0 {
		former = before[i].MAC
	}
	for _, holder := range held {
		if holder.MAC == kept.MAC {
			continue
		}
		has, err := v.hasNIC(ctx, holder.Host, kept.MAC)
		if err == nil && !has && former != "" {
			has, err = v.isReplacement(ctx, holder, former, kept.MAC)
		}
		switch {
		case err != nil:
			return "", err
		case has:
		case holder.MAC != "":
			return "is recorded for a host (see: kubectl get ihw -A); reserve another address, or delete that host first", nil
		default:
			return "is used by the installed system of a host without this interface (see spec.claim.network.addresses of the IngotHosts); " +
				"reserve another address, or delete that host's Machine first", nil
		}
	}
	return "", nil
}

// isReplacement reports whether mac, which no known host has, may replace the holder's interface
// former, for which the address was reserved.
func (v *networkValidator) isReplacement(ctx context.Context, holder addressuse.Owner, former, mac string) (bool, error) {
	if own, err := v.hasNIC(ctx, holder.Host, former); err != nil || !own && holder.MAC != former {
		return false, err
	}
	hosts, facts := &v1beta2.IngotHostList{}, &v1beta2.IngotHardwareList{}
	if err := v.reader.List(ctx, hosts, client.MatchingFields{index.HostByMAC: mac}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the hosts that boot from %s: %w", mac, err)
	}
	if err := v.reader.List(ctx, facts, client.MatchingFields{index.HardwareByNIC: mac}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the hardware with %s: %w", mac, err)
	}
	return len(hosts.Items) == 0 && len(facts.Items) == 0, nil
}

func (v *networkValidator) holdersOf(ctx context.Context, kept v1beta2.StaticLease) ([]addressuse.Owner, error) {
	address, err := netip.ParseAddr(kept.IP)
	if err != nil {
		return nil, nil // rejected by the schema
	}
	held, err := index.OwnersOf(ctx, v.reader, address)
	return held[address], err
}

// hasNIC reports whether a host has an interface, according to its inspection or its boot MAC
// address. It is true for a host without inspection, because clusterctl moves networks before
// IngotHardware.
func (v *networkValidator) hasNIC(ctx context.Context, name types.NamespacedName, mac string) (bool, error) {
	host := &v1beta2.IngotHost{}
	if err := v.reader.Get(ctx, name, host); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get IngotHost %s: %w", name, err)
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
		return false, fmt.Errorf("get IngotHardware %s: %w", name, err)
	}
	return slices.ContainsFunc(hardware.Spec.NICs, func(nic v1beta2.HardwareNIC) bool { return nic.MAC == mac }), nil
}

// removedReservationWarnings warns about removed reservations whose addresses installed systems
// use. The systems keep them, and Ingot assigns them to no other host until then.
func (v *networkValidator) removedReservationWarnings(ctx context.Context, before, after *v1beta2.IngotNetwork) admission.Warnings {
	var inUse []string
	for _, kept := range before.Spec.StaticLeases {
		if slices.ContainsFunc(after.Spec.StaticLeases, func(r v1beta2.StaticLease) bool { return r.IP == kept.IP }) {
			continue // still reserved, or rejected
		}
		held, err := v.holdersOf(ctx, kept)
		if err != nil {
			return nil // only a warning is lost
		}
		if slices.ContainsFunc(held, func(h addressuse.Owner) bool { return h.MAC == "" }) {
			inUse = append(inUse, kept.IP)
		}
	}
	if len(inUse) == 0 {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("spec.staticLeases: installed systems keep the removed addresses %s until their Machines are replaced; "+
		"restore them, or the next machines on these servers get no address", shorten(inUse))}
}
