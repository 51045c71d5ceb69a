// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/lab/bmc"
)

// networkConfig is the supported part of cloud-init's network configuration, version 2: one
// interface, and no VLANs.
type networkConfig struct {
	Version   int                     `json:"version"`
	Ethernets map[string]configuredBy `json:"ethernets"`
	Bonds     map[string]configuredBy `json:"bonds"`
}

type configuredBy struct {
	Match struct {
		MACAddress string `json:"macaddress"`
	} `json:"match"`
	SetName    string   `json:"set-name"`
	Interfaces []string `json:"interfaces"`
	DHCP4      bool     `json:"dhcp4"`
	Addresses  []string `json:"addresses"`
	Routes     []struct {
		To  string `json:"to"`
		Via string `json:"via"`
	} `json:"routes"`
}

// configureNetwork configures the interface at each boot from the seed, or with DHCP if the seed
// has no network configuration.
func (s *Server) configureNetwork(ctx context.Context, d *Disk) (lease, error) {
	seed, err := d.readSeed(ctx)
	if err != nil && !errors.Is(err, errNoSeed) {
		return lease{}, err
	}
	if seed.NetworkConfig == "" {
		return s.dhcp(ctx, systemClient, bmc.UEFI)
	}
	address, gateway, asksDHCP, err := readNetworkConfig(seed.NetworkConfig, s.cfg.NIC.MAC().String())
	switch {
	case err != nil:
		return lease{}, fmt.Errorf("%w: network-config: %w", errFinal, err)
	case asksDHCP:
		return s.dhcp(ctx, systemClient, bmc.UEFI)
	}
	if err := s.cfg.NIC.SetAddress(address, gateway); err != nil {
		return lease{}, err
	}
	s.event(EventSystem, "has %s from network-config", address)
	return lease{address: address}, nil
}

// readNetworkConfig returns the first IPv4 address and the default gateway of the interface with a
// MAC address, or of its bond.
func readNetworkConfig(text, mac string) (address netip.Prefix, gateway netip.Addr, asksDHCP bool, err error) {
	config := networkConfig{}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return address, gateway, false, err
	}
	name := ""
	for key, ethernet := range config.Ethernets {
		if ethernet.Match.MACAddress == mac {
			name = key
		}
	}
	if config.Version != 2 || name == "" {
		return address, gateway, false, fmt.Errorf("version %d has no interface %s", config.Version, mac)
	}
	link := config.Ethernets[name]
	if link.SetName != name {
		return address, gateway, false, fmt.Errorf("set-name of %s is %q, but systems differ in which of the names they use", name, link.SetName)
	}
	for _, bond := range config.Bonds {
		if slices.Contains(bond.Interfaces, name) {
			link = bond
		}
	}
	for _, text := range link.Addresses {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4() && !address.IsValid() {
			address = prefix
		}
	}
	for _, route := range link.Routes {
		if route.To == "0.0.0.0/0" {
			if gateway, err = netip.ParseAddr(route.Via); err != nil {
				return address, gateway, false, err
			}
		}
	}
	if !address.IsValid() && !link.DHCP4 {
		return address, gateway, false, fmt.Errorf("%s has neither an IPv4 address nor DHCP", name)
	}
	return address, gateway, !address.IsValid(), nil
}
