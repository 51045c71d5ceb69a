// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/test/eventually"
)

func TestCombinedFaults(t *testing.T) {
	isRead := func(method, _ string) bool { return method == http.MethodGet }
	b, bench, c, p := startNamed(t, "standard", nil)
	system := p.System()
	t.Run("drop", func(t *testing.T) {
		b.SetFaults(bmc.Faults{Drop: true})
		if _, ok := c.try("POST", system+"/Actions/ComputerSystem.Reset", `{"ResetType":"On"}`); ok || bench.Powered() {
			t.Errorf("answered %v, powered %v", ok, bench.Powered())
		}
	})
	t.Run("truncated", func(t *testing.T) {
		b.SetFaults(bmc.Faults{Truncate: true})
		if a := c.want(200, "GET", system, ""); a.body != nil {
			t.Errorf("whole: %v", a.body)
		}
	})
	t.Run("wrong types", func(t *testing.T) {
		b.SetFaults(bmc.Faults{WrongTypes: true})
		a := c.want(200, "GET", system, "")
		if a.body["@odata.id"] != system || a.body["PowerState"] != 3.0 || at(a, "ProcessorSummary", "Count") != "1" {
			t.Errorf("types: %v", a.body)
		}
	})
	t.Run("10,000 members", func(t *testing.T) {
		b.SetFaults(bmc.Faults{Members: 10000})
		a := c.want(200, "GET", system+"/EthernetInterfaces", "")
		members, _ := a.body["Members"].([]any)
		if len(members) != 10000 || a.body["Members@odata.count"] != 10000.0 {
			t.Errorf("%d members, count %v", len(members), a.body["Members@odata.count"])
		}
		last, _ := members[9999].(map[string]any)
		c.want(200, "GET", fmt.Sprint(last["@odata.id"]), "")
	})
	t.Run("trickle", func(t *testing.T) {
		b.SetFaults(bmc.Faults{Trickle: time.Microsecond})
		if a := c.want(200, "GET", system, ""); a.body["PowerState"] != "Off" {
			t.Errorf("answer %v", a.body)
		}
	})
	t.Run("sessions full", func(t *testing.T) {
		b.SetFaults(bmc.Faults{SessionsFull: true})
		a := c.want(400, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"admin","Password":"secret"}`)
		if !strings.Contains(fmt.Sprint(a.body), "SessionLimitExceeded") {
			t.Errorf("answer %v", a.body)
		}
	})
	t.Run("mixed, each third time", func(t *testing.T) {
		b.SetFaults(bmc.Faults{Every: 3, Status: 503, Match: isRead}, bmc.Faults{PowerLie: bmc.Opposite}, bmc.Faults{Every: 2, Status: 412, Match: isRead})
		want := []int{200, 412, 503, 412, 200, 503} // the sixth matches both: the first counts
		for i, status := range want {
			a := c.want(status, "GET", system, "")
			if status == 200 && a.body["PowerState"] != "On" {
				t.Errorf("request %d: power %v, want the lie too", i, a.body["PowerState"])
			}
		}
	})
	t.Run("a third of them", func(t *testing.T) {
		const requests = 300
		refused := func() (at []int) {
			b.SetFaults(bmc.Faults{Share: 1.0 / 3, Status: 503})
			for i := range requests {
				if a, ok := c.try("GET", system, ""); ok && a.status == 503 {
					at = append(at, i)
				}
			}
			return at
		}
		first := refused()
		if n := len(first); n < requests/4 || n > requests*5/12 {
			t.Errorf("%d of %d requests were refused", n, requests)
		}
		if diff := cmp.Diff(first, refused()); diff != "" {
			t.Errorf("another third the second time:\n%s", diff)
		}
	})
	b.SetFaults()
	c.want(200, "GET", system, "")
}

func TestBMCRestart(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		b, bench, c, p := startNamed(t, "standard", nil)
		boot(t, bench)
		b.Down()
		_, err := net.Dial("tcp", strings.TrimPrefix(b.Address(), "redfish://"))
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: %v, want it refused", err)
		}
		if err := b.Up(); err != nil {
			t.Fatal(err)
		}
		c.want(401, "GET", p.System(), "") // all sessions have ended
		c.login()
		if got := c.want(200, "GET", p.System(), "").body["PowerState"]; got != "On" {
			t.Errorf("power %v: the server must keep running", got)
		}
	})
	t.Run("by its action", func(t *testing.T) {
		_, _, c, p := startNamed(t, "standard", func(cfg *bmc.Config) { cfg.RebootTime = 10 * time.Millisecond })
		c.want(400, "POST", p.Manager()+"/Actions/Manager.Reset", `{"ResetType":"Moon"}`)
		c.want(204, "POST", p.Manager()+"/Actions/Manager.Reset", `{"ResetType":"ForceRestart"}`)
		eventually.Wait{Interval: 2 * time.Millisecond}.Until(t, "a BMC that is back, without the sessions", eventually.Holds(func() bool {
			a, ok := c.try("GET", p.System(), "")
			return ok && a.status == 401
		}))
		c.login()
	})
	t.Run("with a listener from outside", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		b, _, c, p := startNamed(t, "standard", func(cfg *bmc.Config) { cfg.Listener = l })
		b.Down()
		if _, ok := c.try("GET", p.System(), ""); ok {
			t.Error("answers while down")
		}
		if err := b.Up(); err != nil {
			t.Fatal(err)
		}
		c.want(401, "GET", p.System(), "")
	})
	t.Run("closed while down", func(t *testing.T) {
		b, _, _, _ := startNamed(t, "standard", nil)
		b.Reboot(time.Hour)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCertificateChanges(t *testing.T) {
	b, _, c, p := startNamed(t, "standard", nil)
	other, err := bmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	b.SetAuthority(other)
	if _, ok := c.try("GET", p.System(), ""); ok {
		t.Error("the old authority is still believed")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(other.PEM())
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	c.want(200, "GET", p.System(), "") // the session is still open
}

func TestPasswordChange(t *testing.T) {
	b, _, c, _ := startNamed(t, "standard", nil)
	b.SetPassword("other")
	c.want(401, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"admin","Password":"secret"}`)
	c.want(201, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"admin","Password":"other"}`)
	if b.Password() != "other" {
		t.Errorf("password %q", b.Password())
	}
}
