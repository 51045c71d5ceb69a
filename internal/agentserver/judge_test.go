// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory"
)

const (
	orderID    = "0d5b5f0e-6d9e-4b6e-9d5c-3a0c6c1f0a01"
	instanceID = "7c1d3f52-8a4c-4f0e-b6a1-2f9f0f6b7c02"
	firstKey   = "1111111111111111111111111111111111111111111111111111111111111111"
	secondKey  = "2222222222222222222222222222222222222222222222222222222222222222"
	bootMAC    = "52:54:00:00:00:01"
)

// installing is a host whose agent works on the install order.
func installing(changes ...func(*infrav1.IngotHost)) *infrav1.IngotHost {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h1"}}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = bootMAC, "net"
	host.Spec.Claim = &infrav1.HostClaim{
		MachineRef: infrav1.LocalReference{Name: "m1"}, ClusterName: "c1", InstanceID: instanceID, Attempt: 2,
		State: infrav1.ClaimProvisioning, Hostname: "m1", FailureDomain: "rack-a", Cleaning: infrav1.CleaningMetadata,
		Image: infrav1.Image{URL: "http://images/x", Checksum: "sha256:" + firstKey, Format: infrav1.ImageFormatRaw},
	}
	host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInstall, ID: orderID, Attempt: 2, AgentKey: firstKey,
		CreationTime: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	for _, change := range changes {
		change(host)
	}
	return host
}

func claimsOf(purpose token.Purpose) token.Claims {
	return token.Claims{Namespace: "metal", Host: "h1", Purpose: purpose, OrderID: orderID, InstanceID: instanceID, Attempt: 2}
}

// I14: first key, same key, second key, and everything that a token does not allow.
func TestJudge(t *testing.T) {
	unbound := func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = "" }
	verified := func(h *infrav1.IngotHost) {
		h.Spec.Claim.BootTrust, h.Spec.BootMethod = infrav1.BootTrustVerified, infrav1.BootMethodVirtualMedia
	}
	onDisc := claimsOf(token.Install)
	onDisc.Delivery = token.ByVirtualMedia
	for name, tc := range map[string]struct {
		host     *infrav1.IngotHost
		claims   token.Claims
		key      string
		source   string
		recorded string
		hardware string // "-": none is shown
		expired  bool
		want     agentapi.Reason
		revoke   bool
		note     bool
	}{
		"the first key":                      {host: installing(unbound), key: firstKey},
		"the same key again":                 {host: installing(), key: firstKey},
		"the same key, token expired":        {host: installing(), key: firstKey, expired: true},
		"the first key, token expired":       {host: installing(unbound), key: firstKey, expired: true, want: agentapi.ReasonTokenInvalid, note: true},
		"a second key":                       {host: installing(), key: secondKey, want: agentapi.ReasonKeyConflict, revoke: true},
		"a second key with an expired token": {host: installing(), key: secondKey, expired: true, want: agentapi.ReasonKeyConflict, revoke: true},
		"no key":                             {host: installing(), want: agentapi.ReasonTokenInvalid, note: true},
		"the recorded address":               {host: installing(), key: firstKey, source: "192.0.2.7", recorded: "192.0.2.7"},
		"another address":                    {host: installing(), key: firstKey, source: "192.0.2.8", recorded: "192.0.2.7", want: agentapi.ReasonTokenInvalid, note: true},
		"another key from another address revokes nothing": {
			host: installing(), key: secondKey, source: "192.0.2.8", recorded: "192.0.2.7", want: agentapi.ReasonTokenInvalid, note: true},
		"its address is unknown, and it is in the subnet":                       {host: installing(), key: firstKey, source: "192.0.2.8"},
		"its address is unknown, and it is in no subnet":                        {host: installing(), key: firstKey, source: "198.51.100.8", want: agentapi.ReasonTokenInvalid, note: true},
		"its address is unknown, and it is in the IPv6 one":                     {host: installing(), key: firstKey, source: "2001:db8::8"},
		"a new key from an address that is another machine's":                   {host: installing(unbound), key: firstKey, hardware: "52:54:00:00:00:99", want: agentapi.ReasonTokenInvalid, note: true},
		"a new key from an address that DHCP has not shown":                     {host: installing(unbound), key: firstKey, hardware: "-", want: agentapi.ReasonNotReady, note: true},
		"a second key from another machine's address revokes nothing":           {host: installing(), key: secondKey, hardware: "52:54:00:00:00:99", want: agentapi.ReasonTokenInvalid, note: true},
		"the key that holds the order, from an address that DHCP has not shown": {host: installing(), key: firstKey, hardware: "-"},
		"a new key from an IPv6 address of its own making":                      {host: installing(unbound), key: firstKey, source: "2001:db8::5054:ff:fe00:1"},
		"a new key from another's IPv6 address":                                 {host: installing(unbound), key: firstKey, source: "2001:db8::8", want: agentapi.ReasonTokenInvalid, note: true},
		"a new key with the token of the disc alone":                            {host: installing(unbound), claims: onDisc, key: firstKey, hardware: "-"},
		"its source is unknown":                                                 {host: installing(), key: firstKey, source: "-", want: agentapi.ReasonTokenInvalid, note: true},
		"the recorded IPv6 address":                                             {host: installing(), key: firstKey, source: "2001:db8::7", recorded: "192.0.2.7 2001:db8::7"},
		"another IPv6 address than the recorded":                                {host: installing(), key: firstKey, source: "2001:db8::8", recorded: "192.0.2.7 2001:db8::7", want: agentapi.ReasonTokenInvalid, note: true},
		"an IPv6 address where the IPv4 one alone is recorded":                  {host: installing(), key: firstKey, source: "2001:db8::8", recorded: "192.0.2.7", want: agentapi.ReasonTokenInvalid, note: true},
		"a verified boot by the token of the disc":                              {host: installing(verified), claims: onDisc, key: firstKey},
		"a verified boot by a token of the network":                             {host: installing(verified), key: firstKey, want: agentapi.ReasonTokenInvalid, note: true},
		"another key with a token of the network revokes nothing":               {host: installing(verified), key: secondKey, want: agentapi.ReasonTokenInvalid, note: true},
		"a disc's token where the network would do":                             {host: installing(), claims: onDisc, key: firstKey},
		"virtual media where the network would do":                              {host: installing(func(h *infrav1.IngotHost) { h.Spec.BootMethod = infrav1.BootMethodVirtualMedia }), key: firstKey},
		"a verified boot by HTTP":                                               {host: installing(verified, func(h *infrav1.IngotHost) { h.Spec.BootMethod = infrav1.BootMethodHTTP }), key: firstKey},
		"another server gives IPv4 addresses, and the IPv6 one is recorded":     {host: installing(), key: firstKey, source: "192.0.2.8", recorded: "2001:db8::7"},
		"the same, from beyond the subnet":                                      {host: installing(), key: firstKey, source: "198.51.100.8", recorded: "2001:db8::7", want: agentapi.ReasonTokenInvalid, note: true},
		"the same, from another IPv6 address":                                   {host: installing(), key: firstKey, source: "2001:db8::8", recorded: "2001:db8::7", want: agentapi.ReasonTokenInvalid, note: true},
		"no order":                                                              {host: installing(func(h *infrav1.IngotHost) { h.Spec.Order = nil }), key: firstKey, want: agentapi.ReasonOrderGone, note: true},
		"another order": {host: installing(func(h *infrav1.IngotHost) { h.Spec.Order.ID = instanceID }), key: firstKey,
			want: agentapi.ReasonOrderGone, note: true},
		"another attempt": {host: installing(func(h *infrav1.IngotHost) { h.Spec.Order.Attempt = 3 }), key: firstKey,
			want: agentapi.ReasonOrderGone, note: true},
		"another purpose": {host: installing(), claims: claimsOf(token.Clean), key: firstKey, want: agentapi.ReasonOrderGone, note: true},
		"revoked": {host: installing(func(h *infrav1.IngotHost) { h.Spec.Order.Revoked = ptr.To(true) }), key: firstKey,
			want: agentapi.ReasonKeyConflict},
		"released meanwhile": {host: installing(func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing }), key: firstKey,
			want: agentapi.ReasonOrderGone},
		"claim gone": {host: installing(func(h *infrav1.IngotHost) { h.Spec.Claim = nil }), key: firstKey, want: agentapi.ReasonOrderGone},
		"another instance": {host: installing(func(h *infrav1.IngotHost) { h.Spec.Claim.InstanceID = orderID }), key: firstKey,
			want: agentapi.ReasonOrderGone},
	} {
		t.Run(name, func(t *testing.T) {
			c := caller{claims: tc.claims, key: tc.key}
			if c.claims == (token.Claims{}) {
				c.claims = claimsOf(token.Install)
			}
			if tc.source == "" {
				tc.source = "192.0.2.1"
			}
			c.source, _ = netip.ParseAddr(tc.source)
			if tc.hardware == "" {
				tc.hardware = bootMAC
			}
			c.hardware, _ = net.ParseMAC(tc.hardware)
			from := allowedSources{mac: bootMAC, subnets: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")}}
			for _, text := range strings.Fields(tc.recorded) {
				from.recorded = append(from.recorded, netip.MustParseAddr(text))
			}
			v := decide(tc.host, c, from, tc.expired)
			var got agentapi.Reason
			if v.refusal != nil {
				got = v.refusal.Reason
			}
			if got != tc.want || v.revoke != tc.revoke || (v.note != "") != tc.note {
				t.Errorf("judge = %q, revoke %t, note %q; want %q, revoke %t, note %t", got, v.revoke, v.note, tc.want, tc.revoke, tc.note)
			}
		})
	}
}

// A boot server with an old cache boots the agent again after its install was committed: only that server is
// sent to its disk.
func TestJudgeCommitted(t *testing.T) {
	committed := func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Order = infrav1.ClaimProvisioned, nil }
	for name, tc := range map[string]struct {
		host    *infrav1.IngotHost
		purpose token.Purpose
		want    agentapi.Action
	}{
		"this install":     {installing(committed), token.Install, agentapi.BootDisk},
		"another attempt":  {installing(committed, func(h *infrav1.IngotHost) { h.Spec.Claim.Attempt = 3 }), token.Install, ""},
		"another instance": {installing(committed, func(h *infrav1.IngotHost) { h.Spec.Claim.InstanceID = orderID }), token.Install, ""},
		"released since":   {installing(committed, func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing }), token.Install, ""},
		"not committed":    {installing(func(h *infrav1.IngotHost) { h.Spec.Order = nil }), token.Install, ""},
		"a wipe":           {installing(committed), token.Clean, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := decide(tc.host, caller{claims: claimsOf(tc.purpose), key: secondKey}, allowedSources{}, false)
			if v.refusal == nil || v.refusal.Reason != agentapi.ReasonOrderGone || v.refusal.Action != tc.want {
				t.Errorf("refusal %+v, want %s with action %q", v.refusal, agentapi.ReasonOrderGone, tc.want)
			}
		})
	}
}

// I6: an order that the host no longer needs gives no authority.
func TestStands(t *testing.T) {
	claim := func(state infrav1.ClaimState) *infrav1.HostClaim {
		return &infrav1.HostClaim{State: state, InstanceID: instanceID}
	}
	for name, tc := range map[string]struct {
		kind  infrav1.OrderKind
		claim *infrav1.HostClaim
		want  bool
	}{
		"install, provisioning":   {infrav1.OrderInstall, claim(infrav1.ClaimProvisioning), true},
		"install, provisioned":    {infrav1.OrderInstall, claim(infrav1.ClaimProvisioned), false},
		"install, releasing":      {infrav1.OrderInstall, claim(infrav1.ClaimReleasing), false},
		"install, free":           {infrav1.OrderInstall, nil, false},
		"wipe, releasing":         {infrav1.OrderClean, claim(infrav1.ClaimReleasing), true},
		"wipe, free":              {infrav1.OrderClean, nil, true},
		"wipe, provisioned":       {infrav1.OrderClean, claim(infrav1.ClaimProvisioned), false},
		"wipe, provisioning":      {infrav1.OrderClean, claim(infrav1.ClaimProvisioning), false},
		"inspection, free":        {infrav1.OrderInspect, nil, true},
		"inspection, provisioned": {infrav1.OrderInspect, claim(infrav1.ClaimProvisioned), false},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{Spec: infrav1.IngotHostSpec{Claim: tc.claim, Order: &infrav1.HostOrder{Kind: tc.kind}}}
			if got := isOrderCurrent(host, instanceID); got != tc.want {
				t.Errorf("stands = %t, want %t", got, tc.want)
			}
		})
	}
}

// I8: the server must be the registered one.
func TestCheckIdentity(t *testing.T) {
	facts := func(mac, uuid, serial string) infrav1.IngotHardwareSpec {
		return infrav1.IngotHardwareSpec{
			System: infrav1.HardwareSystem{UUID: uuid, SerialNumber: serial},
			NICs:   []infrav1.HardwareNIC{{MAC: "52:54:00:00:00:09"}, {MAC: mac}},
		}
	}
	inspected := func(h *infrav1.IngotHost) {
		h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.NewTime(time.Unix(1, 0))}
	}
	inspection := func(h *infrav1.IngotHost) { h.Spec.Order.Kind, h.Spec.Claim = infrav1.OrderInspect, nil }
	known := &infrav1.IngotHardware{Spec: facts(bootMAC, "u1", "s1")}
	serialAlone := &infrav1.IngotHardware{Spec: facts(bootMAC, "", "s1")}
	for name, tc := range map[string]struct {
		host  *infrav1.IngotHost
		known *infrav1.IngotHardware
		facts infrav1.IngotHardwareSpec
		ok    bool
	}{
		"the same server":                     {installing(inspected), known, facts(bootMAC, "u1", "s1"), true},
		"without the boot NIC":                {installing(inspected), known, facts("52:54:00:00:00:02", "u1", "s1"), false},
		"another UUID and serial number":      {installing(inspected), known, facts(bootMAC, "u2", "s2"), false},
		"a new mainboard of the same chassis": {installing(inspected), known, facts(bootMAC, "u2", "s1"), true},
		"no UUID, and another serial number":  {installing(inspected), known, facts(bootMAC, "", "s2"), false},
		"no UUID":                             {installing(inspected), known, facts(bootMAC, "", "s1"), false},
		"nothing of itself":                   {installing(inspected), known, facts(bootMAC, "", ""), false},
		"another UUID, and no serial number":  {installing(inspected), known, facts(bootMAC, "u2", ""), false},
		"no serial number":                    {installing(inspected), known, facts(bootMAC, "u1", ""), true},
		"another serial number alone known":   {installing(inspected), serialAlone, facts(bootMAC, "u1", "s2"), false},
		"the serial number alone known":       {installing(inspected), serialAlone, facts(bootMAC, "u1", "s1"), true},
		"no record of an inspection":          {installing(), known, facts(bootMAC, "u2", "s2"), false},
		"nothing known of its identity":       {installing(), &infrav1.IngotHardware{Spec: facts(bootMAC, "", "")}, facts(bootMAC, "u2", "s2"), true},
		"no facts known":                      {installing(inspected), nil, facts(bootMAC, "u2", "s2"), true},
		"inspected anew after a swap":         {installing(inspected, inspection), known, facts(bootMAC, "u2", "s2"), true},
	} {
		t.Run(name, func(t *testing.T) {
			if p := checkIdentity(tc.host, tc.known, tc.facts); (p == nil) != tc.ok {
				t.Errorf("checkIdentity = %+v, want accepted %t", p, tc.ok)
			}
		})
	}
}

// I4: a report that is repeated after its reply was lost is recognized.
func TestReported(t *testing.T) {
	committed := func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Order = infrav1.ClaimProvisioned, nil }
	wiped := func(h *infrav1.IngotHost) {
		h.Spec.Claim.State, h.Spec.Order.Kind = infrav1.ClaimReleasing, infrav1.OrderClean
		h.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded}
	}
	for name, tc := range map[string]struct {
		host    *infrav1.IngotHost
		purpose token.Purpose
		key     string
		want    bool
	}{
		"install not committed":          {installing(), token.Install, firstKey, false},
		"install committed":              {installing(committed), token.Install, firstKey, true},
		"another attempt committed":      {installing(committed, func(h *infrav1.IngotHost) { h.Spec.Claim.Attempt = 3 }), token.Install, firstKey, false},
		"another instance committed":     {installing(committed, func(h *infrav1.IngotHost) { h.Spec.Claim.InstanceID = orderID }), token.Install, firstKey, false},
		"released after the commit":      {installing(committed, func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing }), token.Install, firstKey, false},
		"wipe reported":                  {installing(wiped), token.Clean, firstKey, true},
		"wipe reported by another agent": {installing(wiped), token.Clean, secondKey, false},
		"wipe not reported":              {installing(wiped, func(h *infrav1.IngotHost) { h.Spec.Order.Result = nil }), token.Clean, firstKey, false},
		"order removed":                  {installing(wiped, func(h *infrav1.IngotHost) { h.Spec.Order = nil }), token.Clean, firstKey, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isReported(tc.host, caller{claims: claimsOf(tc.purpose), key: tc.key}); got != tc.want {
				t.Errorf("reported = %t, want %t", got, tc.want)
			}
		})
	}
}

// Progress costs few writes: a step, 5 %, or a sign of life.
func TestProgressWorth(t *testing.T) {
	start := time.Unix(1000, 0)
	say := func(step agentapi.Step, percent int32) agentapi.Progress {
		return agentapi.Progress{Step: step, Percent: percent}
	}
	// The length of the source is not known: the percentage stays 0.
	bytes := func(n int64) agentapi.Progress { return agentapi.Progress{Step: agentapi.StepWrite, Bytes: n} }
	log := &progressLog{}
	for _, tc := range []struct {
		name  string
		order string
		after time.Duration
		in    agentapi.Progress
		want  bool
	}{
		{"the first", "a", 0, say(agentapi.StepWrite, 0), true},
		{"the same", "a", time.Second, say(agentapi.StepWrite, 0), false},
		{"much, but at once", "a", time.Second, say(agentapi.StepWrite, 50), false},
		{"little, later", "a", 10 * time.Second, say(agentapi.StepWrite, 4), false},
		{"enough, later", "a", 10 * time.Second, say(agentapi.StepWrite, 5), true},
		{"a new step at once", "a", 10 * time.Second, say(agentapi.StepVerify, 5), true},
		{"little news, but a sign of life", "a", 31 * time.Second, say(agentapi.StepVerify, 6), true},
		{"a question that tells nothing", "a", time.Hour, say(agentapi.StepVerify, 6), false},
		{"another order", "b", 31 * time.Second, say(agentapi.StepVerify, 5), true},
		{"bytes, the first", "c", 0, bytes(1 << 20), true},
		{"bytes, many, but soon", "c", 19 * time.Second, bytes(1 << 40), false},
		{"bytes alone are a sign of life", "c", 20 * time.Second, bytes(2 << 20), true},
		{"bytes, soon after", "c", 39 * time.Second, bytes(3 << 20), false},
		{"bytes that stand", "c", time.Hour, bytes(2 << 20), false},
		{"bytes that move again", "c", time.Hour, bytes(3 << 20), true},
		{"percent with bytes costs no more", "d", 0, agentapi.Progress{Step: agentapi.StepWrite, Percent: 1, Bytes: 1 << 20}, true},
		{"little of both", "d", 10 * time.Second, agentapi.Progress{Step: agentapi.StepWrite, Percent: 5, Bytes: 1 << 30}, false},
		{"long after", "b", 3 * time.Hour, say(agentapi.StepVerify, 6), true},
	} {
		if got := log.needsWrite(tc.order, tc.in, start.Add(tc.after)); got != tc.want {
			t.Errorf("%s: needsWrite = %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestUsableAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		in, want []string
	}{
		"sorted, once, IPv4 first": {[]string{"2001:db8::2", "10.0.0.9", "10.0.0.2", "10.0.0.9"}, []string{"10.0.0.2", "10.0.0.9", "2001:db8::2"}},
		"of no use to others":      {[]string{"127.0.0.1", "::1", "169.254.3.4", "fe80::1", "224.0.0.1", "0.0.0.0"}, nil},
		"IPv4 in IPv6":             {[]string{"::ffff:10.0.0.1", "10.0.0.1"}, []string{"10.0.0.1"}},
		"nonsense":                 {[]string{"", "host", "10.0.0.1/24", "10.0.0.300"}, nil},
		"none":                     {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, inventory.GlobalAddresses(tc.in, maxAddresses), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("GlobalAddresses (-want +got):\n%s", diff)
			}
		})
	}
	var many []string
	for i := range 300 {
		many = append(many, netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i)}).String())
	}
	if got := len(inventory.GlobalAddresses(many, maxAddresses)); got != maxAddresses {
		t.Errorf("%d addresses kept of 300, want %d", got, maxAddresses)
	}
}
