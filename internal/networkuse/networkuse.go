// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package networkuse decides whether an IngotHost may boot on an IngotNetwork, by the
// network's spec.allowedNamespaces (I22). Admission uses it for a clear rejection, and the host
// controller at the time of use: admission can be bypassed, and labels of namespaces change.
//
//	why, err := networkuse.Check(ctx, reader, host, network)
//	if why != nil { … }
package networkuse

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Refusal is why a host must not use a network.
type Refusal struct {
	// Reason is ReasonNamespaceNotAllowed or ReasonNetworkQuotaExceeded.
	Reason string
	// Message is what is wrong, Remedy what to do. Neither names another namespace.
	Message, Remedy string
}

// Namespace returns an object of the kind that Check reads: metadata only.
func Namespace() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return out
}

// Check returns why the host must not use the network, or nil. reader must have the indexes of package
// index. It returns errors of the API server.
func Check(ctx context.Context, reader client.Reader, host *infrav1.IngotHost, network *infrav1.IngotNetwork) (*Refusal, error) {
	namespace := Namespace()
	if !isNamed(network.Spec, host.Namespace) {
		if err := reader.Get(ctx, client.ObjectKey{Name: host.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read namespace %s: %w", host.Namespace, err)
		}
	}
	if !Allows(network.Spec, host.Namespace, namespace.Labels) {
		return &Refusal{
			Reason:  infrav1.ReasonNamespaceNotAllowed,
			Message: fmt.Sprintf("IngotNetwork %s does not allow namespace %s", network.Name, host.Namespace),
			Remedy:  remedy(network.Spec),
		}, nil
	}
	maxHosts, field := limit(network.Spec)
	if field == "" {
		return nil, nil
	}
	// All namespaces: the cache of a manager with --namespace refuses to list another one.
	list := &infrav1.IngotHostList{}
	if err := reader.List(ctx, list, client.MatchingFields{index.HostByNetwork: network.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts on network %s: %w", network.Name, err)
	}
	withAddress, err := hostsWithAddress(ctx, reader, host.Namespace, network.Name)
	if err != nil {
		return nil, err
	}
	if countEarlier(list.Items, host, withAddress) < maxHosts {
		return nil, nil
	}
	return &Refusal{
		Reason:  infrav1.ReasonNetworkQuotaExceeded,
		Message: fmt.Sprintf("IngotNetwork %s allows namespace %s %d hosts (%s)", network.Name, host.Namespace, maxHosts, field),
		Remedy:  "delete unused hosts, or have the network's administrator raise the limit",
	}, nil
}

// remedy returns how to allow a namespace.
func remedy(spec infrav1.IngotNetworkSpec) string {
	allowed := ptr.Deref(spec.AllowedNamespaces, infrav1.NetworkNamespaces{})
	if len(allowed.Names) == 0 && allowed.Selector == nil {
		return fmt.Sprintf("label it %s=%s or list it in spec.allowedNamespaces", infrav1.NetworksLabel, infrav1.NetworksAllowed)
	}
	return "add it to spec.allowedNamespaces of the network"
}

// isNamed reports whether the network names the namespace, so that its labels do not matter.
func isNamed(spec infrav1.IngotNetworkSpec, namespace string) bool {
	return spec.Discover != nil && spec.Discover.Namespace == namespace ||
		spec.AllowedNamespaces != nil && slices.Contains(spec.AllowedNamespaces.Names, namespace)
}

// Allows reports whether hosts of a namespace with these labels may use the network. An invalid selector
// selects nothing.
func Allows(spec infrav1.IngotNetworkSpec, namespace string, of map[string]string) bool {
	allowed := ptr.Deref(spec.AllowedNamespaces, infrav1.NetworkNamespaces{})
	switch {
	case isNamed(spec, namespace):
		return true
	case allowed.Selector != nil:
		selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
		return err == nil && selector.Matches(labels.Set(of))
	case len(allowed.Names) == 0:
		return of[infrav1.NetworksLabel] == infrav1.NetworksAllowed
	}
	return false
}

// limit returns how many hosts of one namespace may use the network, and the field with that limit; empty
// if there is none.
func limit(spec infrav1.IngotNetworkSpec) (maxHosts int, field string) {
	allowed := ptr.Deref(spec.AllowedNamespaces, infrav1.NetworkNamespaces{})
	if allowed.MaxHosts != nil {
		maxHosts, field = int(*allowed.MaxHosts), "spec.allowedNamespaces.maxHosts"
	}
	size := rangeSize(spec.Range)
	if allowed.MaxRangePercent == nil || size == 0 {
		return maxHosts, field
	}
	if share := max(size*int(*allowed.MaxRangePercent)/100, 1); field == "" || share < maxHosts {
		maxHosts, field = share, "spec.allowedNamespaces.maxRangePercent"
	}
	return maxHosts, field
}

// rangeSize returns the number of addresses of a range; 0 without a range.
func rangeSize(r infrav1.AddressRange) int {
	start, startErr := netip.ParseAddr(r.Start)
	end, endErr := netip.ParseAddr(r.End)
	if startErr != nil || endErr != nil || !start.Is4() || !end.Is4() || end.Less(start) {
		return 0
	}
	first, last := start.As4(), end.As4()
	return int(binary.BigEndian.Uint32(last[:])-binary.BigEndian.Uint32(first[:])) + 1
}

// hostsWithAddress returns the names of the namespace's hosts with an address recorded on a network.
func hostsWithAddress(ctx context.Context, reader client.Reader, namespace, network string) (map[string]bool, error) {
	names := map[string]bool{}
	for _, by := range []string{index.HardwareByNetwork, index.HardwareByIPv6Network} {
		list := &infrav1.IngotHardwareList{}
		if err := reader.List(ctx, list, client.MatchingFields{by: network}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list addresses on network %s: %w", network, err)
		}
		for i := range list.Items {
			if list.Items[i].Namespace == namespace {
				names[list.Items[i].Name] = true
			}
		}
	}
	return names, nil
}

// countEarlier counts the namespace's hosts that take precedence over host: those with an address on the
// network, then the older ones. A host that is not created yet is the youngest.
func countEarlier(hosts []infrav1.IngotHost, host *infrav1.IngotHost, withAddress map[string]bool) (count int) {
	for i := range hosts {
		other := &hosts[i]
		if other.Namespace != host.Namespace || other.Name == host.Name {
			continue
		}
		first := host.CreationTimestamp.IsZero() || isOlder(other, host)
		if withAddress[other.Name] != withAddress[host.Name] {
			first = withAddress[other.Name]
		}
		if first {
			count++
		}
	}
	return count
}

func isOlder(a, b *infrav1.IngotHost) bool {
	return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// Established reports whether a host already uses its network: it is claimed, has an address recorded
// there, or was inspected with its present boot NIC and has no address on any network, as in mode Proxy.
// It continues to work if the network no longer allows it, for example after an upgrade.
func Established(host *infrav1.IngotHost, hardware *infrav1.IngotHardware) bool {
	if host.Spec.Claim != nil {
		return true
	}
	if hardware == nil {
		return false
	}
	elsewhere := false
	for _, entry := range []*infrav1.RecordedAddress{hardware.Spec.Address, hardware.Spec.IPv6Address} {
		if entry != nil && entry.MAC == host.Spec.BootMACAddress && entry.NetworkName == host.Spec.NetworkRef.Name {
			return true
		}
		elsewhere = elsewhere || entry != nil && entry.NetworkName != host.Spec.NetworkRef.Name
	}
	inspected := !elsewhere && host.Spec.Record != nil && !host.Spec.Record.InspectedTime.IsZero()
	return inspected && slices.ContainsFunc(hardware.Spec.NICs, func(nic infrav1.HardwareNIC) bool { return nic.MAC == host.Spec.BootMACAddress })
}
