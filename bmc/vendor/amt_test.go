// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	labendpoint "github.com/ingot-metal/ingot/lab/bmc/endpoint"
	"github.com/ingot-metal/ingot/lab/bmc/machine"
	"github.com/ingot-metal/ingot/lab/vendorbmc"
)

// startAMT starts the AMT of a machine.
func startAMT(t *testing.T, change func(*vendorbmc.Config)) (*vendorbmc.Server, *machine.Bench, bmc.Target) {
	t.Helper()
	ca, err := labendpoint.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	bench := &machine.Bench{}
	cfg := vendorbmc.Config{Authority: ca, Machine: bench, Username: "admin", Password: bmctest.Canary}
	change(&cfg)
	s, err := vendorbmc.StartAMT(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, bench, bmc.Target{Address: "vendor+intelamt://" + s.Host(), Username: "admin", Password: bmctest.Canary, CABundle: ca.PEM()}
}

func dialAMT(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	return driverSpecs()[slices.IndexFunc(driverSpecs(), func(d driverSpec) bool { return d.name == nameAMT })].dial(ctx, target)
}

// TestAMTExpiredChallenge checks that a nonce that AMT stops accepting is replaced.
func TestAMTExpiredChallenge(t *testing.T) {
	_, bench, target := startAMT(t, func(c *vendorbmc.Config) { c.NonceUses = 3 })
	conn, err := dialAMT(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}); err != nil {
		t.Error(err)
	}
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]machine.Target{machine.TargetPXE}, bench.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

// TestAMTWrongPasswordIsSentOnce checks that a wrong password is sent once, since AMT locks
// accounts.
func TestAMTWrongPasswordIsSentOnce(t *testing.T) {
	s, _, target := startAMT(t, func(*vendorbmc.Config) {})
	target.Password += "-wrong"
	conn, err := dialAMT(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	before := s.Requests()
	if _, err := conn.PowerState(t.Context()); !errors.Is(err, bmc.ErrUnauthorized) {
		t.Errorf("error %v, want ErrUnauthorized", err)
	}
	if n := s.Requests() - before; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// newCannedAMT answers each message with the text for the last word of its action, in an envelope,
// and returns the messages.
func newCannedAMT(t *testing.T, texts map[string]string) (*wsman, *[]string) {
	t.Helper()
	var seen []string
	action := regexp.MustCompile(`/(\w+)</a:Action>`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		m := action.FindSubmatch(body)
		if err != nil || m == nil {
			w.Header().Set("WWW-Authenticate", `Negotiate`)
			w.Header().Add("WWW-Authenticate", `Digest realm="r", nonce="n", qop="auth-int,auth", opaque="o"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		seen = append(seen, string(body))
		text := texts[string(m[1])]
		if strings.HasPrefix(text, "<f:Fault>") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, `<?xml version="1.0"?><e:Envelope xmlns:e="http://www.w3.org/2003/05/soap-envelope" xmlns:f="f"><e:Body>`+text+`</e:Body></e:Envelope>`)
	}))
	t.Cleanup(s.Close)
	w := &wsman{client: s.Client(), url: s.URL + wsmanPath, username: `us"er`, password: "pass"}
	if err := w.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w, &seen
}

// TestAMTPowerStates checks that a sleeping machine is on, and a machine in transition neither on
// nor off.
func TestAMTPowerStates(t *testing.T) {
	for state, want := range map[string]string{"2": "on", "3": "on", "4": "on", "6": "off", "7": "off", "8": "off", "13": "off", "5": "", "10": ""} {
		w, _ := newCannedAMT(t, map[string]string{
			"Enumerate": "<f:R><f:EnumerationContext>a&amp;b</f:EnumerationContext></f:R>",
			"Pull":      "<f:R><f:CIM_AssociatedPowerManagementService><f:PowerState>" + state + "</f:PowerState></f:CIM_AssociatedPowerManagementService></f:R>",
		})
		if got, err := (&amt{w}).PowerStateGet(t.Context()); err != nil || got != want {
			t.Errorf("state %s: %q, %v, want %q", state, got, err, want)
		}
	}
}

// TestAMTAnswers checks the errors for answers of AMT.
func TestAMTAnswers(t *testing.T) {
	returned := func(value string) string { return "<f:R><f:ReturnValue>" + value + "</f:ReturnValue></f:R>" }
	for name, tc := range map[string]struct {
		text string
		want error
		says string
	}{
		"done":            {returned("0"), nil, ""},
		"job started":     {returned(" 4096 "), nil, ""},
		"in use":          {returned("6"), bmc.ErrBusy, "ReturnValue 6"},
		"invalid":         {returned("5"), bmc.ErrNotSupported, "ReturnValue 5 to Method"},
		"no return value": {"<f:R/>", bmc.ErrProtocol, "without ReturnValue"},
		"fault":           {"<f:Fault><f:Reason><f:Text>The resource is not there.</f:Text></f:Reason></f:Fault>", nil, "400 The resource is not there."},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newCannedAMT(t, map[string]string{"Method": tc.text})
			err := w.invoke(t.Context(), "urn:class", "Method", "")
			if (err == nil) != (tc.says == "") || tc.want != nil && !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want %v and %q", err, tc.want, tc.says)
			}
		})
	}
}

// TestAMTMessage compares the message that powers a machine on with that of Intel's own client
// (github.com/device-management-toolkit/go-wsman-messages).
func TestAMTMessage(t *testing.T) {
	w, seen := newCannedAMT(t, map[string]string{
		"Enumerate": "<f:R><f:CIM_AssociatedPowerManagementService><f:AvailableRequestedPowerStates>2</f:AvailableRequestedPowerStates>" +
			"<f:PowerState>8</f:PowerState></f:CIM_AssociatedPowerManagementService></f:R>",
		"RequestPowerStateChange": "<f:R><f:ReturnValue>0</f:ReturnValue></f:R>",
	})
	if err := (&amt{w}).setPower(t.Context(), bmc.ActionOn); err != nil {
		t.Fatal(err)
	}
	const (
		service = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_PowerManagementService"
		want    = `<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"` +
			` xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing" xmlns:w="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"><s:Header>` +
			`<a:Action s:mustUnderstand="true">` + service + `/RequestPowerStateChange</a:Action><a:To s:mustUnderstand="true">URL</a:To>` +
			`<w:ResourceURI s:mustUnderstand="true">` + service + `</w:ResourceURI><a:MessageID s:mustUnderstand="true">2</a:MessageID>` +
			`<a:ReplyTo><a:Address>http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous</a:Address></a:ReplyTo></s:Header><s:Body>` +
			`<p:RequestPowerStateChange_INPUT xmlns:p="` + service + `"><p:PowerState>2</p:PowerState><p:ManagedElement>` +
			`<a:Address>http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous</a:Address><a:ReferenceParameters>` +
			`<w:ResourceURI>http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ComputerSystem</w:ResourceURI><w:SelectorSet>` +
			`<w:Selector Name="Name">ManagedSystem</w:Selector></w:SelectorSet></a:ReferenceParameters></p:ManagedElement>` +
			`</p:RequestPowerStateChange_INPUT></s:Body></s:Envelope>`
	)
	if diff := cmp.Diff(strings.Replace(want, "URL", w.url, 1), (*seen)[len(*seen)-1]); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

// TestDigestGolden compares authorizations with qop and according to RFC 2069.
func TestDigestGolden(t *testing.T) {
	w, _ := newCannedAMT(t, nil)
	if want := map[string]string{"realm": "r", "nonce": "n", "qop": "auth-int,auth", "opaque": "o"}; !cmp.Equal(want, w.challenge) {
		t.Errorf("challenge %v", w.challenge)
	}
	got := w.authorization()
	for _, part := range []string{`Digest username="us\"er", realm="r", nonce="n", uri="/wsman", opaque="o", qop=auth, nc=00000001, cnonce="`, `response="`} {
		if !strings.Contains(got, part) {
			t.Errorf("authorization %s, want %s in it", got, part)
		}
	}
	w.challenge = map[string]string{"realm": "testrealm@host.com", "nonce": "dcd98b7102dd2f0e8b11d0f600bfb0c093"}
	w.username, w.password = "Mufasa", "Circle Of Life"
	// MD5(MD5("Mufasa:testrealm@host.com:Circle Of Life"):nonce:MD5("POST:/wsman"))
	if got := w.authorization(); !strings.HasSuffix(got, `response="8f961e62ba4ea086ddca7306c61e7032"`) {
		t.Errorf("authorization %s", got)
	}
}
