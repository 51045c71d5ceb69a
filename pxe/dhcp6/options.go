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

// informationRefreshTime is how long a client may use the options from an Information-request
// (RFC 8415 section 21.23).
const informationRefreshTime = 24 * time.Hour

func (ex exchange) wants(code dhcpv6.OptionCode) bool {
	return slices.Contains(ex.req.Options.RequestedOptions(), code)
}

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
		r.AddOption(dhcpv6.OptInformationRefreshTime(informationRefreshTime))
	}
}

// addBoot adds the URL of the boot file (RFC 5970 section 3.1). No loader needs boot file
// parameters (option 60), because scripts contain them.
func (ex exchange) addBoot(r *dhcpv6.Message) {
	name := ex.boot.Name
	if name == "" {
		return
	}
	if !strings.Contains(name, "://") {
		name = "tftp://[" + ex.id.address.String() + "]/" + name
	}
	for _, class := range ex.req.Options.VendorClasses() {
		// UEFI accepts an HTTP boot offer only with this class (UEFI 2.10 section 24.7.3.1),
		// and a PXE offer only without it.
		if class.EnterpriseNumber == enterprisePXE && strings.HasPrefix(string(class.Data[0]), classHTTP) {
			r.AddOption(&dhcpv6.OptVendorClass{EnterpriseNumber: enterprisePXE, Data: [][]byte{[]byte(classHTTP)}})
		}
	}
	r.AddOption(dhcpv6.OptBootFileURL(name))
}

// addAgentOptions adds the address of the agent's session and the boot token as package dhcp does,
// if the manager can identify the agent by its IPv6 address.
func (ex exchange) addAgentOptions(r *dhcpv6.Message) {
	if !ex.boot.Agent || ex.host.Plan.Kind != pxe.Agent || !ex.wants(dhcpv6.OptionVendorOpts) {
		return
	}
	boot := ex.host.Plan.Agent
	server := ex.host.AgentServer(true)
	if server == "" || server != boot.ServerIPv6 {
		return
	}
	if boot.Method == pxe.BootVirtualMedia || !ex.req.mayGetToken(ex.host) {
		boot.Token = ""
	}
	vendor := &dhcpv6.OptVendorOpts{EnterpriseNumber: agentapi.Enterprise}
	for _, value := range []struct {
		code dhcpv6.OptionCode
		text string
	}{
		{agentapi.OptionServer, server}, {agentapi.OptionPin, boot.Pin}, {agentapi.OptionToken, boot.Token.Reveal()},
		{agentapi.OptionFiles, ex.id.boot.BaseURL},
	} {
		if value.text != "" {
			vendor.VendorOpts.Add(&dhcpv6.OptionGeneric{OptionCode: value.code, OptionData: []byte(value.text)})
		}
	}
	r.AddOption(vendor)
}

const classHTTP = "HTTPClient"

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

// domains returns the valid search domains, or else the host's domain.
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
