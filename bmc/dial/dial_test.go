// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dial_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/dial"
)

// canary is the password. No error may show it, and no probe may receive it.
const canary = "c4nary-word"

// fake is a driver that records its calls.
type fake struct {
	name string
	tls  bool
	// probe and dial are its errors; a nil dial means errDialed.
	probe, dial error
	calls       *[]string
}

// errDialed stands for a connection, which these tests do not need.
var errDialed = errors.New("dialed")

func (f *fake) driver() bmc.Driver {
	return bmc.Driver{
		Name: f.name, TLS: f.tls, Offers: []bmc.Capability{bmc.CapConsole},
		Dial: func(_ context.Context, target bmc.Target) (bmc.Conn, error) {
			*f.calls = append(*f.calls, "dial "+target.Address+" "+target.Password.Reveal())
			if f.dial != nil {
				return nil, fmt.Errorf("log in: %w", f.dial)
			}
			return nil, errDialed
		},
		Probe: func(_ context.Context, target bmc.Target) error {
			*f.calls = append(*f.calls, strings.TrimSpace("probe "+target.Address+" "+target.Username+target.Password.Reveal()))
			if f.probe != nil {
				return fmt.Errorf("look: %w", f.probe)
			}
			return nil
		},
	}
}

// rack is a dialer for a protocol with certificates, one without, and one without a probe.
type rack struct {
	first, second fake
	calls         []string
	dialer        *dial.Dialer
}

func newRack(first, second error) *rack {
	r := &rack{}
	r.first = fake{name: "redfish", tls: true, probe: first, calls: &r.calls}
	r.second = fake{name: "ipmi", probe: second, calls: &r.calls}
	noProbe := (&fake{name: "vendor+x", calls: &r.calls}).driver()
	noProbe.Probe = nil
	lazy := func(f *fake) bmc.Driver { // reads f when it is called
		d := f.driver()
		d.Dial = func(ctx context.Context, t bmc.Target) (bmc.Conn, error) { return f.driver().Dial(ctx, t) }
		d.Probe = func(ctx context.Context, t bmc.Target) error { return f.driver().Probe(ctx, t) }
		return d
	}
	r.dialer = dial.New(noProbe, lazy(&r.first), lazy(&r.second))
	return r
}

func (r *rack) dial(t *testing.T, change func(*bmc.Target)) error {
	t.Helper()
	target := bmc.Target{Address: "10.0.0.9", Username: "admin", Password: canary}
	if change != nil {
		change(&target)
	}
	_, err := r.dialer.Dial(t.Context(), target)
	if err == nil {
		t.Fatal("a fake has no connection")
	}
	if strings.Contains(err.Error(), canary) {
		t.Errorf("the error shows the password: %v", err)
	}
	return err
}

// took returns the calls since the last time.
func (r *rack) took() []string {
	calls := r.calls
	r.calls = nil
	return calls
}

func at(address string) func(*bmc.Target) { return func(t *bmc.Target) { t.Address = address } }

func TestDialByAddress(t *testing.T) {
	for _, tt := range []struct {
		address string
		want    []string
	}{
		{"redfish://h:8443/redfish/v1/Systems/1", []string{"dial redfish://h:8443/redfish/v1/Systems/1 " + canary}},
		{"IPMI://h", []string{"dial IPMI://h " + canary}},
		{"vendor+x://h", []string{"dial vendor+x://h " + canary}},
		{"h", []string{"probe redfish://h", "dial redfish://h " + canary}},
		{"h:8443", []string{"probe redfish://h:8443", "dial redfish://h:8443 " + canary}},
		{"2001:db8::9", []string{"probe redfish://[2001:db8::9]", "dial redfish://[2001:db8::9] " + canary}},
		{"[2001:db8::9]:8443", []string{"probe redfish://[2001:db8::9]:8443", "dial redfish://[2001:db8::9]:8443 " + canary}},
		{"", nil},
		{"h/redfish/v1/Systems/1", nil},
		{"root:" + canary + "@h", nil},
		{"vendor+y://h", nil},
		{"https://root:" + canary + "@h", nil},
		{canary + ":x@redfish://h", nil},
	} {
		t.Run(tt.address, func(t *testing.T) {
			r := newRack(nil, nil)
			err := r.dial(t, at(tt.address))
			if diff := cmp.Diff(tt.want, r.took()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if tt.want == nil && !errors.Is(err, bmc.ErrAddress) {
				t.Errorf("%v, want ErrAddress", err)
			}
		})
	}
}

// TestProbing shows which protocols are probed and dialed for an address without a scheme.
func TestProbing(t *testing.T) {
	const logIn = " " + canary
	for _, tt := range []struct {
		name          string
		first, second error
		change        func(*bmc.Target)
		calls         []string
		want          error
		text          string
	}{
		{"first", nil, nil, nil, []string{"probe redfish://10.0.0.9", "dial redfish://10.0.0.9" + logIn}, errDialed, ""},
		{"first unreachable", bmc.ErrUnreachable, nil, nil,
			[]string{"probe redfish://10.0.0.9", "probe ipmi://10.0.0.9", "dial ipmi://10.0.0.9" + logIn}, errDialed, ""},
		{"first not supported", bmc.ErrNotSupported, nil, nil,
			[]string{"probe redfish://10.0.0.9", "probe ipmi://10.0.0.9", "dial ipmi://10.0.0.9" + logIn}, errDialed, ""},
		{"both unreachable", bmc.ErrUnreachable, bmc.ErrUnreachable, nil, []string{"probe redfish://10.0.0.9", "probe ipmi://10.0.0.9"}, bmc.ErrUnreachable,
			"BMC is unreachable: no BMC was found at 10.0.0.9 with redfish://: look: BMC is unreachable; with ipmi://: look: BMC is unreachable"},
		{"second not supported", bmc.ErrUnreachable, bmc.ErrNotSupported, nil, []string{"probe redfish://10.0.0.9", "probe ipmi://10.0.0.9"}, bmc.ErrNotSupported,
			"not supported by this BMC: no BMC was found at 10.0.0.9 with redfish://: look: BMC is unreachable; with ipmi://: look: not supported by this BMC"},
		{"untrusted certificate", bmc.ErrCertificate, nil, nil, []string{"probe redfish://10.0.0.9"}, bmc.ErrCertificate,
			"probe 10.0.0.9 for redfish:// (add the scheme to skip the probe): look: BMC certificate is not trusted"},
		{"timeout", bmc.ErrTimeout, nil, nil, []string{"probe redfish://10.0.0.9"}, bmc.ErrTimeout,
			"probe 10.0.0.9 for redfish:// (add the scheme to skip the probe): look: BMC did not answer in time"},
		{"busy", &bmc.BusyError{}, nil, nil, []string{"probe redfish://10.0.0.9"}, bmc.ErrBusy,
			"probe 10.0.0.9 for redfish:// (add the scheme to skip the probe): look: BMC is busy"},
		{"a CA bundle requires TLS", bmc.ErrUnreachable, nil, func(t *bmc.Target) { t.CABundle = []byte("x") }, []string{"probe redfish://10.0.0.9"}, bmc.ErrUnreachable,
			"BMC is unreachable: no BMC was found at 10.0.0.9 with redfish://: look: BMC is unreachable; " +
				"with ipmi://: skipped, because the host requires a certificate and this protocol has none"},
		{"a pin requires TLS", bmc.ErrNotSupported, nil, func(t *bmc.Target) { t.Fingerprint = "x" }, []string{"probe redfish://10.0.0.9"}, bmc.ErrNotSupported,
			"not supported by this BMC: no BMC was found at 10.0.0.9 with redfish://: look: not supported by this BMC; " +
				"with ipmi://: skipped, because the host requires a certificate and this protocol has none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRack(tt.first, tt.second)
			err := r.dial(t, tt.change)
			if diff := cmp.Diff(tt.calls, r.took()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(tt.text, err.Error()); tt.text != "" && diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProbeResultIsRemembered shows that a BMC is probed once, until a dial does not find it.
func TestProbeResultIsRemembered(t *testing.T) {
	r := newRack(bmc.ErrUnreachable, nil)
	r.dial(t, nil)
	r.took()
	for _, step := range []struct {
		name   string
		before func()
		change func(*bmc.Target)
		want   []string
	}{
		{"known", func() {}, nil, []string{"dial ipmi://10.0.0.9 " + canary}},
		{"known after a wrong password", func() { r.second.dial = bmc.ErrUnauthorized }, nil, []string{"dial ipmi://10.0.0.9 " + canary}},
		{"known, and forgotten by this call", func() { r.second.dial = bmc.ErrUnreachable }, nil, []string{"dial ipmi://10.0.0.9 " + canary}},
		{"another protocol", func() { r.first.probe = nil }, nil, []string{"probe redfish://10.0.0.9", "dial redfish://10.0.0.9 " + canary}},
		{"known again", func() {}, nil, []string{"dial redfish://10.0.0.9 " + canary}},
		{"another address", func() {}, at("10.0.0.8"), []string{"probe redfish://10.0.0.8", "dial redfish://10.0.0.8 " + canary}},
	} {
		step.before()
		r.dial(t, step.change)
		if diff := cmp.Diff(step.want, r.took()); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestRememberedProtocolNeedsTLS shows that a remembered protocol without certificates is
// not used after the target requires a certificate.
func TestRememberedProtocolNeedsTLS(t *testing.T) {
	r := newRack(bmc.ErrUnreachable, nil)
	r.dial(t, nil)
	r.took()
	err := r.dial(t, func(t *bmc.Target) { t.Fingerprint = "x" })
	if diff := cmp.Diff([]string{"probe redfish://10.0.0.9"}, r.took()); diff != "" || !errors.Is(err, bmc.ErrUnreachable) {
		t.Errorf("%v, calls (-want +got):\n%s", err, diff)
	}
}

// TestProbeIsBounded shows that a hanging probe leaves time for the next one.
func TestProbeIsBounded(t *testing.T) {
	hangs := bmc.Driver{Name: "a", Probe: func(ctx context.Context, _ bmc.Target) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", bmc.ErrUnreachable, ctx.Err())
	}}
	answers := bmc.Driver{
		Name: "b", Probe: func(ctx context.Context, _ bmc.Target) error { return ctx.Err() },
		Dial: func(ctx context.Context, _ bmc.Target) (bmc.Conn, error) {
			return nil, errors.Join(ctx.Err(), errDialed)
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300e6)
	defer cancel()
	_, err := dial.New(hangs, answers).Dial(ctx, bmc.Target{Address: "h"})
	if !errors.Is(err, errDialed) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the second to be dialed in time", err)
	}
}

func TestOffersAndCheck(t *testing.T) {
	d := newRack(nil, nil).dialer
	all := []bmc.Capability{bmc.CapPower, bmc.CapBootDevice, bmc.CapInventory, bmc.CapConsole}
	for _, tt := range []struct {
		address string
		offers  []bmc.Capability
		known   bool
		refused string
	}{
		{"redfish://h", all, true, ""},
		{"Vendor+X://h", all, true, ""},
		{"h", nil, false, ""},
		{"2001:db8::9", nil, false, ""},
		{"vendor+y://h", nil, false, "BMC address is not usable: there is no driver for vendor+y://; write one of vendor+x://, redfish://, ipmi://, or a host without a scheme"},
		{"a:b@c://h", nil, false, "BMC address is not usable: there is no driver; write one of vendor+x://, redfish://, ipmi://, or a host without a scheme"},
	} {
		offers, known := d.Offers(tt.address)
		if diff := cmp.Diff(tt.offers, offers); diff != "" || known != tt.known {
			t.Errorf("%s: known %v, offers (-want +got):\n%s", tt.address, known, diff)
		}
		err := d.Check(tt.address)
		if got := fmt.Sprint(err); tt.refused == "" && err != nil || tt.refused != "" && (got != tt.refused || !errors.Is(err, bmc.ErrAddress)) {
			t.Errorf("%s: %v, want %q", tt.address, err, tt.refused)
		}
	}
}

// TestNoProbes shows that an address without a scheme needs a driver with a probe.
func TestNoProbes(t *testing.T) {
	if _, err := dial.New(bmc.Driver{Name: "a"}).Dial(t.Context(), bmc.Target{Address: "h"}); !errors.Is(err, bmc.ErrAddress) {
		t.Errorf("got %v, want ErrAddress", err)
	}
}
