// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package networkuse decides whether an IngotHost may boot on an IngotNetwork, by the
// network's spec.allowedNamespaces (I22). Admission asks it for a clear refusal, and the
// host controller at the time of use: admission can be bypassed, and the labels of
// namespaces change.
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

// Refusal is why a host may not use a network.
type Refusal struct {
	// Reason is ReasonNamespaceNotAllowed or ReasonNetworkQuotaExceeded.
	Reason string
	// Message says what is wrong, and Remedy what to do. Neither names another namespace.
	Message, Remedy string
}

// Namespace is the kind of object that Check reads: metadata alone.
func Namespace() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return out
}

// Check returns why the host may not use the network; nil: it may. The reader has the
// indexes of package index. An error is the API server's.
func Check(ctx context.Context, reader client.Reader, host *infrav1.IngotHost, network *infrav1.IngotNetwork) (*Refusal, error) {
	namespace := Namespace()
	if !isNamed(network.Spec, host.Namespace) {
		if err := reader.Get(ctx, client.ObjectKey{Name: host.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("namespace %s: %w", host.Namespace, err)
		}
	}
	if !Allows(network.Spec, host.Namespace, namespace.Labels) {
		return &Refusal{
			Reason:  infrav1.ReasonNamespaceNotAllowed,
			Message: fmt.Sprintf("IngotNetwork %s does not allow namespace %s", network.Name, host.Namespace),
			Remedy:  remedy(network.Spec),
		}, nil
	}
	most, by := limit(network.Spec)
	if by == "" {
		return nil, nil
	}
	// Of all namespaces: the cache of a manager with --namespace refuses to list another one.
	list := &infrav1.IngotHostList{}
	if err := reader.List(ctx, list, client.MatchingFields{index.HostByNetwork: network.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("hosts on network %s: %w", network.Name, err)
	}
	there, err := settled(ctx, reader, host.Namespace, network.Name)
	if err != nil {
		return nil, err
	}
	if earlier(list.Items, host, there) < most {
		return nil, nil
	}
	return &Refusal{
		Reason:  infrav1.ReasonNetworkQuotaExceeded,
		Message: fmt.Sprintf("IngotNetwork %s allows namespace %s %d hosts (%s)", network.Name, host.Namespace, most, by),
		Remedy:  "delete hosts that are gone, or have the network's administrator raise the limit",
	}, nil
}

// remedy is what lets a namespace in.
func remedy(spec infrav1.IngotNetworkSpec) string {
	allowed := ptr.Deref(spec.AllowedNamespaces, infrav1.NetworkNamespaces{})
	if len(allowed.Names) == 0 && allowed.Selector == nil {
		return fmt.Sprintf("label it %s=%s or list it in spec.allowedNamespaces", infrav1.NetworksLabel, infrav1.NetworksAllowed)
	}
	return "add it to spec.allowedNamespaces of the network"
}

// isNamed reports a namespace that the network names, so that no label decides.
func isNamed(spec infrav1.IngotNetworkSpec, namespace string) bool {
	return spec.Discover != nil && spec.Discover.Namespace == namespace ||
		spec.AllowedNamespaces != nil && slices.Contains(spec.AllowedNamespaces.Names, namespace)
}

// Allows reports whether hosts of a namespace with these labels may use the network. A
// selector that cannot be read selects nothing.
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

// limit is how many hosts of one namespace may use the network, and the field that says so;
// empty: none does.
func limit(spec infrav1.IngotNetworkSpec) (most int, by string) {
	allowed := ptr.Deref(spec.AllowedNamespaces, infrav1.NetworkNamespaces{})
	if allowed.MaxHosts != nil {
		most, by = int(*allowed.MaxHosts), "spec.allowedNamespaces.maxHosts"
	}
	size := rangeSize(spec.Range)
	if allowed.MaxRangePercent == nil || size == 0 {
		return most, by
	}
	if share := max(size*int(*allowed.MaxRangePercent)/100, 1); by == "" || share < most {
		most, by = share, "spec.allowedNamespaces.maxRangePercent"
	}
	return most, by
}

// rangeSize is how many addresses a range has; 0: there is none.
func rangeSize(r infrav1.AddressRange) int {
	start, startErr := netip.ParseAddr(r.Start)
	end, endErr := netip.ParseAddr(r.End)
	if startErr != nil || endErr != nil || !start.Is4() || !end.Is4() || end.Less(start) {
		return 0
	}
	first, last := start.As4(), end.As4()
	return int(binary.BigEndian.Uint32(last[:])-binary.BigEndian.Uint32(first[:])) + 1
}

// settled finds the names of the hosts of a namespace that have an address recorded on a
// network.
func settled(ctx context.Context, reader client.Reader, namespace, network string) (map[string]bool, error) {
	names := map[string]bool{}
	for _, by := range []string{index.HardwareByNetwork, index.HardwareByIPv6Network} {
		list := &infrav1.IngotHardwareList{}
		if err := reader.List(ctx, list, client.MatchingFields{by: network}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("addresses on network %s: %w", network, err)
		}
		for i := range list.Items {
			if list.Items[i].Namespace == namespace {
				names[list.Items[i].Name] = true
			}
		}
	}
	return names, nil
}

// earlier counts the hosts of the namespace that come before one: those that have an address
// on the network, then the oldest, so that a host takes no other's place. A host that is not
// created yet is the youngest.
func earlier(hosts []infrav1.IngotHost, host *infrav1.IngotHost, settled map[string]bool) (count int) {
	for i := range hosts {
		other := &hosts[i]
		if other.Namespace != host.Namespace || other.Name == host.Name {
			continue
		}
		first := host.CreationTimestamp.IsZero() || before(other, host)
		if settled[other.Name] != settled[host.Name] {
			first = settled[other.Name]
		}
		if first {
			count++
		}
	}
	return count
}

func before(a, b *infrav1.IngotHost) bool {
	return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// Established reports a host that uses its network already: it is claimed, has an address
// recorded there, or was inspected with its present boot NIC and has an address nowhere, as
// in mode Proxy. It continues to work when it is outside of what the network allows, as after
// an upgrade; a new one is not served.
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
	inspected := !elsewhere && host.Spec.Record != nil && !host.Spec.Record.InspectedAt.IsZero()
	return inspected && slices.ContainsFunc(hardware.Spec.NICs, func(nic infrav1.HardwareNIC) bool { return nic.MAC == host.Spec.BootMACAddress })
}
