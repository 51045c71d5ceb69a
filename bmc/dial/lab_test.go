// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dial_test

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/dial"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
)

func dialer() *dial.Dialer {
	return dial.New(redfish.Driver(), redfish.PlainDriver(), ipmi.Driver())
}

// box is one server at 127.0.0.1 with the same port for Redfish and IPMI.
type box struct {
	t       *testing.T
	bench   *labbmc.Bench
	ca      *labbmc.Authority
	tcp     net.Listener
	udp     net.PacketConn
	redfish *labbmc.BMC
	ipmi    *labipmi.BMC
}

// newBox takes the same port by TCP and UDP.
func newBox(t *testing.T) *box {
	t.Helper()
	ca, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, bench: &labbmc.Bench{}, ca: ca}
	for range 20 {
		if b.tcp, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			continue
		}
		if b.udp, err = net.ListenPacket("udp4", b.tcp.Addr().String()); err == nil {
			break
		}
		_ = b.tcp.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = b.tcp.Close(), b.udp.Close() })
	return b
}

func (b *box) address() string { return b.tcp.Addr().String() }

func (b *box) target() bmc.Target {
	return bmc.Target{Address: b.address(), Username: "admin", Password: canary}
}

// withRedfish serves Redfish until the test ends.
func (b *box) withRedfish() *box {
	var err error
	b.redfish, err = labbmc.Start(labbmc.Config{
		Authority: b.ca, Machine: b.bench, Listener: b.tcp, Username: "admin", Password: canary, System: labbmc.System{BMCFirmware: "1.0"},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if n := b.redfish.Sessions(); n != 0 {
			b.t.Errorf("%d Redfish sessions left open", n)
		}
		_ = b.redfish.Close()
	})
	return b
}

// withIPMI serves IPMI until the test ends.
func (b *box) withIPMI() *box {
	var err error
	b.ipmi, err = labipmi.Start(labipmi.Config{Machine: b.bench, Packets: b.udp, Username: "admin", Password: canary})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = b.ipmi.Close() })
	return b
}

// withPage serves HTTPS without Redfish until the test ends.
func (b *box) withPage(status int, body string) *box {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Method != http.MethodGet {
			b.t.Errorf("%s with Authorization %q", r.Method, r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	_ = server.Listener.Close()
	server.Listener, server.Config.ErrorLog = b.tcp, log.New(io.Discard, "", 0)
	server.StartTLS()
	b.t.Cleanup(server.Close)
	return b
}

// on dials, checks that the server is on, and closes the connection.
func on(t *testing.T, d *dial.Dialer, target bmc.Target) error {
	t.Helper()
	conn, err := d.Dial(t.Context(), target)
	if err != nil {
		if strings.Contains(err.Error(), canary) {
			t.Errorf("the error shows the password: %v", err)
		}
		return err
	}
	defer func() {
		if err := conn.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	state, err := conn.PowerState(t.Context())
	if err == nil && state != bmc.PowerOn {
		t.Errorf("the server is %s, want On", state)
	}
	return err
}

func switchOn(t *testing.T, b *box) {
	t.Helper()
	if err := b.bench.Power(t.Context(), labbmc.On); err != nil {
		t.Fatal(err)
	}
}

// TestRedfishIsPreferred shows that a BMC with both protocols receives no IPMI command.
func TestRedfishIsPreferred(t *testing.T) {
	b := newBox(t).withRedfish().withIPMI()
	switchOn(t, b)
	target := b.target()
	target.CABundle = b.ca.PEM()
	if err := on(t, dialer(), target); err != nil {
		t.Fatal(err)
	}
	if n := b.redfish.OpenedSessions(); n != 1 {
		t.Errorf("%d Redfish sessions, want 1", n)
	}
	if n := len(b.ipmi.Commands()); n != 0 {
		t.Errorf("%d IPMI commands, want none", n)
	}
}

// TestIPMIIsFound covers a closed HTTPS port, and a server with an untrusted certificate
// that does not speak Redfish.
func TestIPMIIsFound(t *testing.T) {
	for name, build := range map[string]func(*testing.T) *box{
		"nothing else": func(t *testing.T) *box {
			b := newBox(t)
			_ = b.tcp.Close()
			return b.withIPMI()
		},
		"a page":                 func(t *testing.T) *box { return newBox(t).withPage(http.StatusOK, "<html>log in</html>").withIPMI() },
		"JSON at every path":     func(t *testing.T) *box { return newBox(t).withPage(http.StatusOK, `{"login":"/"}`).withIPMI() },
		"not found":              func(t *testing.T) *box { return newBox(t).withPage(http.StatusNotFound, "no").withIPMI() },
		"an incomplete redirect": func(t *testing.T) *box { return newBox(t).withPage(http.StatusFound, "").withIPMI() },
	} {
		t.Run(name, func(t *testing.T) {
			b := build(t)
			switchOn(t, b)
			if err := on(t, dialer(), b.target()); err != nil {
				t.Fatal(err)
			}
			if n := len(b.ipmi.Commands()); n == 0 {
				t.Error("no IPMI command came")
			}
		})
	}
}

// TestUntrustedCertificateSendsNoLogin shows that a Redfish service with an untrusted
// certificate gets no credentials, and that Ingot does not fall back to IPMI.
func TestUntrustedCertificateSendsNoLogin(t *testing.T) {
	b := newBox(t).withRedfish().withIPMI()
	d := dialer()
	for range 2 {
		if err := on(t, d, b.target()); !errors.Is(err, bmc.ErrCertificate) {
			t.Errorf("got %v, want ErrCertificate", err)
		}
	}
	other, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	target := b.target()
	target.CABundle = other.PEM()
	if err := on(t, dialer(), target); !errors.Is(err, bmc.ErrCertificate) {
		t.Errorf("got %v, want ErrCertificate", err)
	}
	if sessions, basics, commands := b.redfish.OpenedSessions(), b.redfish.BasicRequests(), len(b.ipmi.Commands()); sessions+basics+commands != 0 {
		t.Errorf("%d sessions, %d requests with credentials, %d IPMI commands; want none", sessions, basics, commands)
	}
}

// TestFailingRedfishIsNotIPMI shows that a failing Redfish service is not driven with IPMI.
func TestFailingRedfishIsNotIPMI(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults labbmc.Faults
		want   error
	}{
		{"busy", labbmc.Faults{Status: http.StatusServiceUnavailable}, bmc.ErrBusy},
		{"closed", labbmc.Faults{Drop: true}, bmc.ErrTimeout},
		{"unauthorized", labbmc.Faults{Status: http.StatusUnauthorized}, bmc.ErrProtocol},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t).withRedfish().withIPMI()
			b.redfish.SetFaults(tt.faults)
			switchOn(t, b)
			d, target := dialer(), b.target()
			target.InsecureSkipVerify = true
			err := on(t, d, target)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), "add the scheme") {
				t.Errorf("got %v, want %v and a hint", err, tt.want)
			}
			b.redfish.SetFaults()
			if err := on(t, d, target); err != nil {
				t.Errorf("after the fault: %v", err)
			}
			if n := len(b.ipmi.Commands()); n != 0 {
				t.Errorf("%d IPMI commands, want none", n)
			}
		})
	}
}

// TestNoBMC shows that the error names both protocols.
func TestNoBMC(t *testing.T) {
	b := newBox(t)
	_, _ = b.tcp.Close(), b.udp.Close()
	err := on(t, dialer(), b.target())
	if !errors.Is(err, bmc.ErrUnreachable) || !strings.Contains(err.Error(), "redfish://") || !strings.Contains(err.Error(), "ipmi://") {
		t.Errorf("got %v, want ErrUnreachable and both schemes", err)
	}
}

// TestPlainHTTP shows that plain HTTP is used only with the scheme redfish+http.
func TestPlainHTTP(t *testing.T) {
	bench := &labbmc.Bench{}
	ca, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	b, err := labbmc.Start(labbmc.Config{Authority: ca, Machine: bench, Plain: true, Username: "admin", Password: canary})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if err := bench.Power(t.Context(), labbmc.On); err != nil {
		t.Fatal(err)
	}
	target := bmc.Target{Address: b.Address(), Username: "admin", Password: canary}
	if err := on(t, dialer(), target); err != nil {
		t.Errorf("%s: %v", target.Address, err)
	}
	pinned := target
	pinned.Fingerprint = "sha256:x"
	if err := on(t, dialer(), pinned); !errors.Is(err, bmc.ErrAddress) {
		t.Errorf("a pin without a certificate: %v, want ErrAddress", err)
	}
	opened := b.OpenedSessions()
	for _, address := range []string{"redfish://", ""} {
		target.Address = address + strings.TrimPrefix(b.Address(), "redfish+http://")
		if err := on(t, dialer(), target); err == nil {
			t.Errorf("%s: was dialed with plain HTTP", target.Address)
		}
	}
	if n := b.OpenedSessions(); n != opened {
		t.Errorf("%d sessions by other addresses, want none", n-opened)
	}
}
