// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Config returns the text for cloud-init: the file network-config of a NoCloud seed, version 2,
// without the key "network", which cloud-init before 23.4 does not accept there.
func (n Network) Config() string {
	root := mapping{{"version", 2}}
	for _, kind := range []string{ethernets, bonds, vlans} {
		var entries mapping
		for _, l := range n.links {
			if l.kind == kind {
				entries = append(entries, entry{l.name, l.entry()})
			}
		}
		if len(entries) > 0 {
			root = append(root, entry{kind, entries})
		}
	}
	var b strings.Builder
	write(&b, root, "")
	return b.String()
}

// entry returns the device definition of a link.
func (l link) entry() mapping {
	var m mapping
	switch l.kind {
	case ethernets:
		m = mapping{{"match", mapping{{"macaddress", l.mac}}}, {"set-name", l.name}}
	case bonds:
		m = mapping{{"interfaces", texts(l.bond.Interfaces)}, {"macaddress", l.mac}, {"parameters", parameters(l.bond)}}
	case vlans:
		m = mapping{{"id", int(l.vlan.ID)}, {"link", l.vlan.Link}}
	}
	if l.config.MTU != nil {
		m = append(m, entry{"mtu", int(*l.config.MTU)})
	}
	if l.config.DHCP == infrav1.DHCPFamilyIPv4 || l.config.DHCP == infrav1.DHCPFamilyDualStack {
		m = append(m, entry{"dhcp4", true})
	}
	if l.config.DHCP == infrav1.DHCPFamilyIPv6 || l.config.DHCP == infrav1.DHCPFamilyDualStack {
		m = append(m, entry{"dhcp6", true})
	}
	if rule := l.config.RouterAdvertisements; rule != "" {
		m = append(m, entry{"accept-ra", rule == infrav1.RouterAdvertisementsAccept})
	}
	if len(l.addresses) > 0 {
		m = append(m, entry{"addresses", prefixes(l.addresses)})
	}
	if len(l.routes) > 0 {
		m = append(m, entry{"routes", routes(l.routes)})
	}
	var servers mapping
	if len(l.config.DNSServers) > 0 {
		servers = append(servers, entry{"addresses", texts(l.config.DNSServers)})
	}
	if len(l.config.SearchDomains) > 0 {
		servers = append(servers, entry{"search", texts(l.config.SearchDomains)})
	}
	if len(servers) > 0 {
		m = append(m, entry{"nameservers", servers})
	}
	return m
}

// defaultMonitor is the interval of link monitoring in ms. By default the kernel does not monitor
// links, and a bond would send into a dead one.
const defaultMonitor = 100

// parameters returns the parameters of a bond for netplan. Intervals without a unit are in ms.
// cloud-init's schema requires mii-monitor-interval as text.
func parameters(bond *infrav1.NetworkBond) mapping {
	monitor := int32(defaultMonitor)
	if bond.MonitorMilliseconds != nil {
		monitor = *bond.MonitorMilliseconds
	}
	m := mapping{{"mode", string(bond.Mode)}, {"mii-monitor-interval", strconv.Itoa(int(monitor))}}
	text := func(key, value string) {
		if value != "" {
			m = append(m, entry{key, value})
		}
	}
	number := func(key string, value *int32) {
		if value != nil {
			m = append(m, entry{key, int(*value)})
		}
	}
	text("lacp-rate", bond.LACPRate)
	number("min-links", bond.MinLinks)
	text("ad-select", bond.Aggregation)
	text("transmit-hash-policy", bond.TransmitHashPolicy)
	text("primary", bond.Primary)
	number("up-delay", bond.UpDelayMilliseconds)
	number("down-delay", bond.DownDelayMilliseconds)
	return m
}

func routes(list []route) []any {
	out := make([]any, 0, len(list))
	for _, r := range list {
		m := mapping{{"to", r.To}, {"via", r.Via}}
		if r.Metric != nil {
			m = append(m, entry{"metric", int(*r.Metric)})
		}
		out = append(out, m)
	}
	return out
}

func texts(list []string) []any {
	out := make([]any, 0, len(list))
	for _, text := range list {
		out = append(out, text)
	}
	return out
}

func prefixes(list []netip.Prefix) []any {
	out := make([]any, 0, len(list))
	for _, p := range list {
		out = append(out, p.String())
	}
	return out
}

// mapping is an ordered YAML mapping. Values are mapping, []any, string, int and bool.
type mapping []entry

type entry struct {
	key   string
	value any
}

// write writes a mapping in block style.
func write(b *strings.Builder, m mapping, indent string) {
	for _, e := range m {
		fmt.Fprintf(b, "%s%s:", indent, scalar(e.key))
		switch value := e.value.(type) {
		case mapping:
			b.WriteString("\n")
			write(b, value, indent+"  ")
		case []any:
			b.WriteString("\n")
			writeList(b, value, indent+"  ")
		default:
			b.WriteString(" " + scalar(value) + "\n")
		}
	}
}

func writeList(b *strings.Builder, list []any, indent string) {
	for _, item := range list {
		m, ok := item.(mapping)
		if !ok {
			b.WriteString(indent + "- " + scalar(item) + "\n")
			continue
		}
		var inner strings.Builder
		write(&inner, m, indent+"  ")
		b.WriteString(indent + "- " + strings.TrimPrefix(inner.String(), indent+"  "))
	}
}

// plain matches texts without quotes. They start with a letter, so that none is a number, a date
// or, like MAC addresses in YAML 1.1, a number of base 60.
var plain = regexp.MustCompile(`^[a-z][a-z0-9.-]*$`)

// reservedWords has plain texts that some YAML parsers read as other types.
var reservedWords = map[string]bool{"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "null": true, "y": true, "n": true}

func scalar(value any) string {
	text, ok := value.(string)
	switch {
	case !ok:
		return fmt.Sprint(value)
	case plain.MatchString(text) && !reservedWords[text]:
		return text
	}
	quoted, err := json.Marshal(text) // JSON's strings are YAML's
	if err != nil {
		return `""` // strings never fail
	}
	return string(quoted)
}
