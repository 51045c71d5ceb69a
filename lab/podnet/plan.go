// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"text/template"
)

// Image is the name under which the image of a node holds this program.
const Image = "ingot.lab/podnet:v1"

// A Node is what of a Node decides the network.
type Node struct {
	Name string
	// Pods are the addresses of its pods; zero as long as it has none.
	Pods netip.Prefix
	// Address is its own, where its pods are reached; zero as long as unknown.
	Address netip.Addr
}

// A Route leads to the pods of another node.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// A Plan is what one node's network has to be.
type Plan struct {
	// Configuration is that of CNI; empty as long as the node has no addresses for
	// pods.
	Configuration []byte
	// Routes are in the order of their destinations.
	Routes []Route
}

// PlanFor is the plan of one of the nodes. Nodes that lack something are left out
// until they have it.
func PlanFor(self string, nodes []Node) (Plan, error) {
	var plan Plan
	for _, n := range nodes {
		switch {
		case !n.Pods.IsValid():
		case n.Name == self:
			configuration, err := configuration(n.Pods)
			if err != nil {
				return Plan{}, err
			}
			plan.Configuration = configuration
		case n.Address.IsValid():
			plan.Routes = append(plan.Routes, Route{To: n.Pods, Via: n.Address})
		}
	}
	slices.SortFunc(plan.Routes, func(a, b Route) int { return a.To.Addr().Compare(b.To.Addr()) })
	return plan, nil
}

// configuration is a list of CNI plugins (CNI specification 1.0.0).
func configuration(pods netip.Prefix) ([]byte, error) {
	type object = map[string]any
	return json.MarshalIndent(object{
		"cniVersion": "1.0.0", "name": "pods",
		"plugins": []object{
			{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
				"ipam": object{
					"type": "host-local", "ranges": [][]object{{{"subnet": pods.String()}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
}

// masquerade is what iptables-restore is given: pods of the cluster speak to each
// other as they are, and to everybody else under their node's address.
func masquerade(cluster netip.Prefix) string {
	return strings.Join([]string{
		"*nat",
		":" + chain + " - [0:0]",
		fmt.Sprintf("-A %s -s %s -d %s -j RETURN", chain, cluster, cluster),
		fmt.Sprintf("-A %s -s %s ! -d 224.0.0.0/4 -j MASQUERADE", chain, cluster),
		"COMMIT", "",
	}, "\n")
}

// chain is our own in the table nat, which POSTROUTING calls.
const chain = "PODNET"

//go:embed manifest.yaml
var manifest string

// Manifest is what is applied to a cluster whose pods have addresses in that
// network, which must be IPv4. endpoint is the host and port of the API server; empty:
// the address of its Service, for which kube-proxy must run first. Where a node cannot
// have kube-proxy's image yet, as in the upgrade of a cluster without a registry, only
// the endpoint makes it ready.
func Manifest(pods, endpoint string) ([]byte, error) {
	prefix, err := netip.ParsePrefix(pods)
	if err != nil || !prefix.Addr().Is4() {
		return nil, fmt.Errorf("network of pods %q is no IPv4 prefix", pods)
	}
	host, port := "", ""
	if endpoint != "" {
		if host, port, err = net.SplitHostPort(endpoint); err != nil {
			return nil, fmt.Errorf("endpoint of the API server: %w", err)
		}
	}
	parsed, err := template.New("manifest.yaml").Option("missingkey=error").Parse(manifest)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = parsed.Execute(&b, map[string]string{"Image": Image, "Pods": prefix.Masked().String(), "Host": host, "Port": port})
	return b.Bytes(), err
}
