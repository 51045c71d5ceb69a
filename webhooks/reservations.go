// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/index"
)

// checkReservations refuses reserved addresses that no interface could have on the
// network, or that two would have.
func checkReservations(spec v1beta2.IngotNetworkSpec) field.ErrorList {
	subnet, err := netip.ParsePrefix(spec.Subnet)
	if err != nil || !subnet.Addr().Is4() {
		return nil // said already
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
		case !subnet.Contains(ip):
			refuse("must lie in spec.subnet %s", spec.Subnet)
		case ip == subnet.Masked().Addr() || ip == lastAddress(subnet):
			refuse("is the first or last address of %s, which no interface can have; give another", spec.Subnet)
		case kept.IP == spec.Gateway:
			refuse("is the address of the gateway; give another")
		case lentTo(spec, ip):
			refuse("lies in spec.discover.range, which is lent to unknown machines; give one beside it")
		}
		of[ip] = kept.MAC
	}
	return errs
}

func lentTo(spec v1beta2.IngotNetworkSpec, ip netip.Addr) bool {
	if spec.Discover == nil {
		return false
	}
	first, firstErr := netip.ParseAddr(spec.Discover.Range.Start)
	last, lastErr := netip.ParseAddr(spec.Discover.Range.End)
	return firstErr == nil && lastErr == nil && !ip.Less(first) && !last.Less(ip)
}

// recordedElsewhere refuses new reservations of addresses that are recorded for the boot
// NIC of a host: two servers would have them. The host is not named, since it may be of
// somebody else's namespace (decision 0147).
func (v *networkValidator) recordedElsewhere(ctx context.Context, network *v1beta2.IngotNetwork, before []v1beta2.NetworkReservation) (field.ErrorList, error) {
	if isLetGo(network) {
		return nil, nil
	}
	var errs field.ErrorList
	for i, kept := range network.Spec.Reservations {
		if slices.Contains(before, kept) {
			continue
		}
		hardware := &v1beta2.IngotHardwareList{}
		if err := v.reader.List(ctx, hardware, client.MatchingFields{index.HardwareByIP: network.Name + "/" + kept.IP}); err != nil {
			return nil, fmt.Errorf("look for hosts with address %s of IngotNetwork %s: %w", kept.IP, network.Name, err)
		}
		for j := range hardware.Items {
			if recorded := hardware.Items[j].Spec.Address; recorded != nil && recorded.MAC != kept.MAC {
				errs = append(errs, field.Invalid(field.NewPath("spec", "reservations").Index(i).Child("ip"), kept.IP,
					"is recorded for a host that boots on this network (kubectl get ihw -A shows which); give another, or delete that host first"))
				break
			}
		}
	}
	return errs, nil
}
