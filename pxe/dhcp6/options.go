// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
)

// refresh is how long what an Information-request brought holds (RFC 8415 §21.23).
const refresh = 24 * time.Hour

// wants reports an option that the client asks for.
func (ex exchange) wants(code dhcpv6.OptionCode) bool {
	return slices.Contains(ex.req.Options.RequestedOptions(), code)
}

// addNetwork adds what the host needs to know of its network and asks for.
func (ex exchange) addNetwork(r *dhcpv6.Message) {
	h := ex.host
	if ips := toIPs(h.DNS); len(ips) > 0 && ex.wants(dhcpv6.OptionDNSRecursiveNameServer) {
		r.AddOption(dhcpv6.OptDNS(ips...))
	}
	if names := domains(h); len(names) > 0 && ex.wants(dhcpv6.OptionDomainSearchList) {
		r.AddOption(dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: names}))
	}
	if ips := toIPs(h.NTP); len(ips) > 0 && ex.wants(dhcpv6.OptionNTPServer) {
		option := &dhcpv6.OptNTPServer{}
		for _, ip := range ips {
			server := dhcpv6.NTPSuboptionSrvAddr(ip)
			option.Suboptions = append(option.Suboptions, &server)
		}
		r.AddOption(option)
	}
	if ex.req.MessageType == dhcpv6.MessageTypeInformationRequest && ex.wants(dhcpv6.OptionInformationRefreshTime) {
		r.AddOption(dhcpv6.OptInformationRefreshTime(refresh))
	}
}

// addBoot adds where the boot file is (RFC 5970 §3.1). No loader takes parameters
// (option 60): scripts tell them all.
func (ex exchange) addBoot(r *dhcpv6.Message) {
	name := ex.boot.Name
	if name == "" {
		return
	}
	if !strings.Contains(name, "://") {
		name = "tftp://[" + ex.id.address.String() + "]/" + name
	}
	for _, class := range ex.req.Options.VendorClasses() {
		// UEFI takes an HTTP offer only from a server that calls itself so (UEFI 2.10
		// §24.7.3.1), and one for PXE only from one that does not.
		if class.EnterpriseNumber == enterprisePXE && strings.HasPrefix(string(class.Data[0]), classHTTP) {
			r.AddOption(&dhcpv6.OptVendorClass{EnterpriseNumber: enterprisePXE, Data: [][]byte{[]byte(classHTTP)}})
		}
	}
	r.AddOption(dhcpv6.OptBootFileURL(name))
}

// addOrder tells the agent where its session is and proves its order, as DHCP for IPv4
// does (see package dhcp), where it can be known by its IPv6 address.
func (ex exchange) addOrder(r *dhcpv6.Message) {
	if !ex.boot.Agent || ex.host.Plan.Kind != pxe.Agent || !ex.wants(dhcpv6.OptionVendorOpts) {
		return
	}
	boot := ex.host.Plan.Agent
	server := ex.host.AgentServer(true)
	if server == "" || server != boot.ServerIPv6 {
		return
	}
	if boot.Way == pxe.ByDisc || !ex.req.vouched(ex.host) {
		boot.Token = ""
	}
	told := &dhcpv6.OptVendorOpts{EnterpriseNumber: agentapi.Enterprise}
	for _, value := range []struct {
		code dhcpv6.OptionCode
		text string
	}{
		{agentapi.OptionServer, server}, {agentapi.OptionPin, boot.Pin}, {agentapi.OptionToken, boot.Token.Reveal()},
		{agentapi.OptionFiles, ex.id.boot.BaseURL},
	} {
		if value.text != "" {
			told.VendorOpts.Add(&dhcpv6.OptionGeneric{OptionCode: value.code, OptionData: []byte(value.text)})
		}
	}
	r.AddOption(told)
}

const classHTTP = "HTTPClient"

// maxServers of a kind are told; more would crowd out the boot options.
const maxServers = 4

func toIPs(addrs []netip.Addr) []net.IP {
	var ips []net.IP
	for _, a := range addrs {
		if a.Is6() && !a.Is4In6() && len(ips) < maxServers {
			ips = append(ips, a.AsSlice())
		}
	}
	return ips
}

// domains are where names are looked up: the search domains, else the domain.
func domains(h pxe.Host) []string {
	all := h.Search
	if len(all) == 0 && h.Domain != "" {
		all = []string{h.Domain}
	}
	var out []string
	for _, name := range all {
		labels := strings.Split(name, ".")
		if len(name) < 254 && !slices.ContainsFunc(labels, func(l string) bool { return l == "" || len(l) > 63 }) {
			out = append(out, name)
		}
	}
	return out
}
