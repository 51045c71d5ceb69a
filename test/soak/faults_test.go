// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"net/http"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/ipmi"
)

// A fault is one way in which a BMC fails.
type fault struct {
	name string
	// begin makes the BMC fail; the cure is the same for all.
	begin func(*faultyBMC)
	// passes: the fault ends by itself, and cannot stay.
	passes bool
	// ends are the reasons of Ready that a host may end with while the fault stays,
	// beside the right state. Each names the cause, or what Ingot saw of it.
	ends []string
}

// A faultyBMC is a BMC with faults, and what ends them: one that speaks Redfish, or one that
// speaks IPMI; the other is nil.
type faultyBMC struct {
	bmc       *bmc.BMC
	ipmi      *ipmi.BMC
	authority *bmc.Authority
	password  string
	// other is an authority that nobody trusts.
	other *bmc.Authority
}

// cure ends every fault.
func (p *faultyBMC) cure() error {
	if p.ipmi != nil {
		p.ipmi.SetFaults(ipmi.Faults{})
		return nil
	}
	p.bmc.SetFaults()
	p.bmc.SetPassword(p.password)
	p.bmc.SetAuthority(p.authority)
	return p.bmc.Up()
}

const (
	// slow is the latency of one answer: below the shortened deadline of a call, and
	// above it for a call of many requests.
	slow = 400 * time.Millisecond
	// drip is the time between two bytes of an answer: an answer takes longer than any
	// deadline.
	drip  = 20 * time.Millisecond
	third = 1.0 / 3
	// gone is how long a BMC restarts.
	gone = 3 * time.Second
)

// set makes a fault of requests.
func set(f bmc.Faults) func(*faultyBMC) {
	return func(p *faultyBMC) { p.bmc.SetFaults(f) }
}

// again is set, and the sessions are gone: the next request has to log in.
func again(f bmc.Faults) func(*faultyBMC) {
	f.ForgetSessions = true
	return set(f)
}

func isRead(method, _ string) bool { return method == http.MethodGet }

// isChange: neither a read nor the begin or end of a session.
func isChange(method, path string) bool {
	return method != http.MethodGet && !strings.Contains(path, "/SessionService/")
}

// catalogue is every fault that a BMC has which speaks Redfish. The lies about power can end in what Ingot
// rightly does about a server that is not as it should be.
func catalogue() []fault {
	const (
		unreachable, timeout, busy = infrav1.ReasonBMCUnreachable, infrav1.ReasonBMCTimeout, infrav1.ReasonBMCBusy
		broken, rejected           = infrav1.ReasonBMCError, infrav1.ReasonCredentialsRejected
	)
	lie := lies()
	return []fault{
		{name: "latency", begin: set(bmc.Faults{Latency: slow}), ends: []string{timeout}},
		{name: "hang", begin: set(bmc.Faults{Hang: true}), ends: []string{timeout}},
		{name: "drop", begin: set(bmc.Faults{Drop: true}), ends: []string{unreachable}},
		{name: "drop of a third", begin: set(bmc.Faults{Drop: true, Share: third}), ends: []string{unreachable, timeout}},
		{name: "replies to changes lost", begin: set(bmc.Faults{LoseReply: true, Match: isChange}), ends: []string{timeout}},
		{name: "401", begin: set(bmc.Faults{Status: 401}), ends: []string{rejected}},
		{name: "401 to a third of the reads", begin: set(bmc.Faults{Status: 401, Share: third, Match: isRead}), ends: []string{rejected}},
		{name: "password changed", begin: func(p *faultyBMC) { p.bmc.SetPassword("another"); again(bmc.Faults{})(p) }, ends: []string{rejected}},
		{name: "412 to changes", begin: set(bmc.Faults{Status: 412, Match: isChange}), ends: []string{broken, infrav1.ReasonPowerActionIgnored}},
		{name: "503", begin: set(bmc.Faults{Status: 503}), ends: []string{busy}},
		{name: "503 to a third, retry after 2 s", begin: set(bmc.Faults{Status: 503, RetryAfter: 2 * time.Second, Share: third}), ends: []string{busy, timeout}},
		{name: "429", begin: set(bmc.Faults{Status: 429, RetryAfter: time.Second}), ends: []string{busy, infrav1.ReasonBMCRateLimited}},
		{name: "500", begin: set(bmc.Faults{Status: 500}), ends: []string{busy, broken, timeout}},
		{name: "truncated JSON", begin: set(bmc.Faults{Truncate: true}), ends: []string{broken}},
		{name: "wrong types", begin: set(bmc.Faults{WrongTypes: true}), ends: []string{broken}},
		{name: "a web page", begin: set(bmc.Faults{Body: "<html>Log in</html>"}), ends: []string{broken}},
		{name: "endless answers", begin: set(bmc.Faults{Flood: true}), ends: []string{broken, timeout}},
		{name: "answers byte by byte", begin: set(bmc.Faults{Trickle: drip}), ends: []string{timeout}},
		{name: "10,000 members", begin: set(bmc.Faults{Members: 10000}), ends: []string{broken, timeout}},
		{name: "session table full", begin: again(bmc.Faults{SessionsFull: true}), ends: []string{busy}},
		{name: "certificate changed", begin: func(p *faultyBMC) { p.bmc.SetAuthority(p.other) }, ends: []string{infrav1.ReasonCertificateInvalid, infrav1.ReasonCertificateChanged}},
		{name: "restart", begin: func(p *faultyBMC) { p.bmc.Reboot(gone) }, passes: true},
		{name: "down", begin: func(p *faultyBMC) { p.bmc.Down() }, ends: []string{unreachable}},
		{name: "power told stale", begin: set(bmc.Faults{PowerLie: bmc.Stale}), ends: lie},
		{name: "power told opposite", begin: set(bmc.Faults{PowerLie: bmc.Opposite}), ends: lie},
		{name: "boot override forgotten", begin: set(bmc.Faults{ForgetBoot: true})},
	}
}

// lies are the reasons that a lie about power can end in.
func lies() []string {
	return []string{
		infrav1.ReasonPoweredOnUnexpectedly, infrav1.ReasonFencing, infrav1.ReasonReleasing, infrav1.ReasonCleaning, infrav1.ReasonProvisioning,
		infrav1.ReasonInspecting, infrav1.ReasonNoAgentContact, infrav1.ReasonNetworkUnresponsive, infrav1.ReasonQuarantined, infrav1.ReasonBMCError, infrav1.ReasonPowerActionIgnored,
	}
}

// setIPMI makes a fault of packets.
func setIPMI(f ipmi.Faults) func(*faultyBMC) {
	return func(p *faultyBMC) { p.ipmi.SetFaults(f) }
}

func isChassisChange(netFn, code byte) bool {
	const chassis, control, setBoot = 0x00, 0x02, 0x08
	return netFn == chassis && (code == control || code == setBoot)
}

// ipmiCatalogue is every fault that a BMC has which speaks IPMI. UDP cannot tell a BMC
// that is gone from one that hangs.
func ipmiCatalogue() []fault {
	const busyNode, unspecified = 0xc0, 0xff
	silent := []string{infrav1.ReasonBMCUnreachable, infrav1.ReasonBMCTimeout}
	return []fault{
		{name: "IPMI: latency", begin: setIPMI(ipmi.Faults{Latency: slow}), ends: silent},
		{name: "IPMI: silence", begin: setIPMI(ipmi.Faults{Silent: true}), ends: silent},
		{name: "IPMI: replies lost", begin: setIPMI(ipmi.Faults{LoseReplies: true}), ends: silent},
		{name: "IPMI: every third packet lost", begin: setIPMI(ipmi.Faults{DropEvery: 3}), ends: silent},
		{name: "IPMI: restart", passes: true, begin: func(p *faultyBMC) { p.ipmi.SetFaults(ipmi.Faults{Silent: true}); p.ipmi.ForgetSessions() }},
		{name: "IPMI: sessions forgotten", passes: true, begin: func(p *faultyBMC) { p.ipmi.ForgetSessions() }},
		{name: "IPMI: garbage", begin: setIPMI(ipmi.Faults{Garbage: []byte("hello")}), ends: append(silent, infrav1.ReasonBMCError)},
		{name: "IPMI: busy", begin: setIPMI(ipmi.Faults{Code: busyNode}), ends: []string{infrav1.ReasonBMCBusy}},
		{name: "IPMI: busy for changes", begin: setIPMI(ipmi.Faults{Code: busyNode, Match: isChassisChange}), ends: []string{infrav1.ReasonBMCBusy}},
		{name: "IPMI: errors", begin: setIPMI(ipmi.Faults{Code: unspecified}), ends: []string{infrav1.ReasonBMCError}},
		{name: "IPMI: password changed", ends: []string{infrav1.ReasonCredentialsRejected}, begin: func(p *faultyBMC) {
			p.ipmi.SetFaults(ipmi.Faults{OtherPassword: true})
			p.ipmi.ForgetSessions()
		}},
		{name: "IPMI: power told stale", begin: setIPMI(ipmi.Faults{PowerLie: bmc.Stale}), ends: lies()},
		{name: "IPMI: power told opposite", begin: setIPMI(ipmi.Faults{PowerLie: bmc.Opposite}), ends: lies()},
		{name: "IPMI: boot override forgotten", begin: setIPMI(ipmi.Faults{ForgetBoot: true})},
	}
}

// staying are the faults of a catalogue that can stay.
func staying(all func() []fault) func() []fault {
	return func() []fault { return slices.DeleteFunc(all(), func(f fault) bool { return f.passes }) }
}
