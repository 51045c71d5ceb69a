// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/dial"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	"github.com/ingot-metal/ingot/bmc/redfish"
	"github.com/ingot-metal/ingot/bmc/vendor"
)

// The manager connects to addresses from IngotHosts. It reads these objects to exclude Services and
// the API server.
// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,resourceNames=kubernetes,verbs=get

// parseBMCSources parses --bmc-sources, whose default in the manifests is a space.
func (o *Options) parseBMCSources() (bmc.Sources, error) {
	var entries []string
	for _, entry := range o.BMCSources {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	sources, err := bmc.ParseSources(entries)
	if err != nil {
		return sources, fmt.Errorf("--bmc-sources: %w", err)
	}
	return sources, nil
}

// bmcSources returns --bmc-sources without the Service networks and API server addresses of the
// cluster at the start of the process. It logs networks and addresses that it cannot read.
func (o *Options) bmcSources(ctx context.Context, reader client.Reader, config *rest.Config) (bmc.Sources, error) {
	sources, err := o.parseBMCSources()
	if err != nil {
		return sources, err
	}
	services, err := serviceNetworks(ctx, reader)
	if err != nil {
		return sources, err
	}
	servers, err := apiServers(ctx, reader, config)
	if err != nil {
		return sources, err
	}
	return sources.Excluding(services...).Excluding(servers...), nil
}

// serviceNetworks returns the networks of ServiceCIDRs, which exist since Kubernetes 1.33.
func serviceNetworks(ctx context.Context, reader client.Reader) ([]netip.Prefix, error) {
	list := &networkingv1.ServiceCIDRList{}
	if err := reader.List(ctx, list); isHidden(err) {
		ctrl.LoggerFrom(ctx).Info("Service networks are unknown; exclude them with --bmc-sources, for example !10.96.0.0/12", "reason", err.Error())
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list the ServiceCIDRs: %w", err)
	}
	var networks []netip.Prefix
	for _, item := range list.Items {
		for _, cidr := range item.Spec.CIDRs {
			if network, err := netip.ParsePrefix(cidr); err == nil {
				networks = append(networks, network.Masked())
			}
		}
	}
	return networks, nil
}

// apiServers returns the addresses of the API server for Pods and for this process, except loopback
// addresses, which are always excluded.
func apiServers(ctx context.Context, reader client.Reader, config *rest.Config) ([]netip.Prefix, error) {
	hosts := []string{os.Getenv("KUBERNETES_SERVICE_HOST")}
	if u, err := url.Parse(config.Host); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	}
	slice := &discoveryv1.EndpointSlice{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, slice)
	switch {
	case isHidden(err):
		ctrl.LoggerFrom(ctx).Info("Endpoint addresses of the API server are unknown; exclude them with --bmc-sources", "reason", err.Error())
	case err != nil:
		return nil, fmt.Errorf("get the endpoints of the API server: %w", err)
	}
	for _, endpoint := range slice.Endpoints {
		hosts = append(hosts, endpoint.Addresses...)
	}
	var networks []netip.Prefix
	for _, host := range hosts {
		for _, a := range addressesOf(ctx, host) {
			if a = a.Unmap().WithZone(""); !a.IsLoopback() {
				networks = append(networks, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	return networks, nil
}

// addressesOf returns the addresses of a host name or IP address, or nil if it does not resolve.
func addressesOf(ctx context.Context, host string) []netip.Addr {
	if host == "" {
		return nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Failed to resolve the API server; exclude its addresses with --bmc-sources", "server", host, "reason", err.Error())
	}
	return found
}

// isHidden reports whether the cluster lacks an object or kind, or denies access to it.
func isHidden(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err)
}

// NewDialer returns a dialer with all drivers. It tries Redfish and then IPMI for an address without a
// scheme.
func NewDialer() *dial.Dialer {
	return dial.New(slices.Concat([]bmc.Driver{redfish.Driver(), redfish.PlainDriver(), ipmi.Driver()}, vendor.Drivers())...)
}
