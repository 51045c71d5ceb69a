// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// routeProtocol marks our routes, so that those of nodes that went are found.
	routeProtocol = netlink.RouteProtocol(98)
	// repeatAfter is how often the plan is carried out again, in case somebody
	// flushed what was there.
	repeatAfter = time.Minute
)

// Options of Run.
type Options struct {
	// Node is the name of the Node that it runs on.
	Node string
	// Pods is the network of all pods of the cluster.
	Pods netip.Prefix
	// ConfigurationDir is where containerd looks for CNI configurations.
	ConfigurationDir string
	// Client reads Nodes.
	Client kubernetes.Interface
}

// Run keeps the node's network as PlanFor says until ctx ends. It returns an error
// when the kernel refuses something; whoever started it starts it again.
func Run(ctx context.Context, o Options) error {
	if err := hide(ctx, o.Pods); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(o.Client, 0)
	nodes := factory.Core().V1().Nodes()
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	tick := time.NewTicker(repeatAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		}
		all, err := nodes.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		plan, err := PlanFor(o.Node, describe(all))
		if err != nil {
			return err
		}
		if err := errors.Join(route(plan.Routes), configure(o.ConfigurationDir, plan.Configuration)); err != nil {
			return err
		}
	}
}

// describe takes from Nodes what is IPv4.
func describe(nodes []*corev1.Node) []Node {
	var all []Node
	for _, n := range nodes {
		node := Node{Name: n.Name}
		for _, cidr := range append([]string{n.Spec.PodCIDR}, n.Spec.PodCIDRs...) {
			if prefix, err := netip.ParsePrefix(cidr); err == nil && prefix.Addr().Is4() {
				node.Pods = prefix
				break
			}
		}
		for _, a := range n.Status.Addresses {
			if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && address.Is4() {
				node.Address = address
				break
			}
		}
		all = append(all, node)
	}
	return all
}

// configure writes the configuration, in one step, if it is another one.
func configure(dir string, configuration []byte) error {
	if len(configuration) == 0 {
		return nil
	}
	path := filepath.Join(dir, "10-podnet.conflist")
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, configuration) {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// containerd reads nothing of that ending.
	next := path + ".next"
	if err := os.WriteFile(next, configuration, 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// route makes the routes, and removes ours that are not among them.
func route(routes []Route) error {
	wanted := map[string]bool{}
	for _, r := range routes {
		to := &net.IPNet{IP: r.To.Addr().AsSlice(), Mask: net.CIDRMask(r.To.Bits(), 32)}
		wanted[to.String()] = true
		err := netlink.RouteReplace(&netlink.Route{Dst: to, Gw: r.Via.AsSlice(), Protocol: routeProtocol})
		if err != nil {
			return fmt.Errorf("route %s by %s: %w", r.To, r.Via, err)
		}
	}
	there, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range there {
		if r.Dst != nil && !wanted[r.Dst.String()] {
			if err := netlink.RouteDel(&r); err != nil {
				return fmt.Errorf("remove the route to %s: %w", r.Dst, err)
			}
		}
	}
	return nil
}

// hide puts pods behind their node's address towards what is not in the cluster.
func hide(ctx context.Context, cluster netip.Prefix) error {
	restore := exec.CommandContext(ctx, "iptables-restore", "--wait", "--noflush")
	restore.Stdin = strings.NewReader(masquerade(cluster))
	if out, err := restore.CombinedOutput(); err != nil {
		return fmt.Errorf("iptables-restore: %w: %s", err, out)
	}
	jump := []string{"POSTROUTING", "-j", chain}
	if exec.CommandContext(ctx, "iptables", append([]string{"-w", "-t", "nat", "-C"}, jump...)...).Run() == nil {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "iptables", append([]string{"-w", "-t", "nat", "-A"}, jump...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables: %w: %s", err, out)
	}
	return nil
}
