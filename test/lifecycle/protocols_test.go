// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/datacenter"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
	"github.com/ingot-metal/ingot/lab/server"
)

// The hosts, by what their BMC speaks and how they are registered.
const (
	byIPMI      = "ipmi"
	byPlain     = "plain"
	foundIPMI   = "found-ipmi"
	foundBoth   = "found-both"
	unspeakable = "unspeakable"
)

// Chassis Control and its values (IPMI v2.0 §28.3), and Set System Boot Options with
// the flags of a boot from the network, once, by UEFI (§28.13).
var (
	chassisOn    = labipmi.Command{NetFn: 0x00, Code: 0x02, Data: []byte{1}}.String()
	chassisOff   = labipmi.Command{NetFn: 0x00, Code: 0x02, Data: []byte{0}}.String()
	chassisReset = labipmi.Command{NetFn: 0x00, Code: 0x02, Data: []byte{3}}.String()
	chassisSoft  = labipmi.Command{NetFn: 0x00, Code: 0x02, Data: []byte{5}}.String()
	bootNetwork  = labipmi.Command{NetFn: 0x00, Code: 0x08, Data: []byte{5, 0xa0, 0x04, 0, 0, 0}}.String()
)

// testProtocols takes hosts through the whole of life by each way to a BMC:
// registered, inspected, installed, rebooted by a person, released, cleaned and free
// again. What is registered as a host alone is asked what it speaks.
func testProtocols(t *testing.T, plane *Plane) {
	names := []string{byIPMI, byPlain, foundIPMI, foundBoth}
	site := plane.NewSite(t, SiteOptions{
		Servers: names,
		Protocols: map[string]datacenter.Protocol{
			byIPMI: datacenter.IPMI, byPlain: datacenter.RedfishHTTP, foundIPMI: datacenter.IPMI, foundBoth: datacenter.Both,
		},
		// Nobody comes to the agent, once there is a system, but by the BMC's word.
		Simulate: func(_ string, c *server.Config) { c.BootOrder = []server.Device{server.LocalDisk, server.Network} },
	})
	site.StartManager(t, ManagerOptions{Name: "manager"})
	site.CreateCluster(t)
	site.credentials(t, "all", site.DataCenter.Authority.PEM())
	registerAt(t, site, byIPMI, site.Server(byIPMI).Address(), false)
	registerAt(t, site, byPlain, site.Server(byPlain).Address(), false)
	registerAt(t, site, foundIPMI, site.Server(foundIPMI).HostPort(), false)
	registerAt(t, site, foundBoth, site.Server(foundBoth).HostPort(), true)
	testProtocolsRefused(t, site)
	site.Await(t, "hosts inspected", site.Free(names...))
	for _, name := range names {
		site.Claim(t, name, theHost(name))
	}
	site.Await(t, "hosts installed", site.Installed(names...))
	for _, name := range names {
		reboot(t, site, name)
	}
	for _, name := range names {
		site.Delete(t, name)
	}
	site.Await(t, "hosts free again", site.Free(names...))
	site.History.Settle(t)
	versions := site.History.Versions(t)
	for _, name := range names {
		installs, wrong := CheckDisk(name, site.Server(name).Simulated.Disks()[0].Log(), versions)
		for _, text := range wrong {
			t.Error(text)
		}
		if wipes := site.Server(name).Simulated.Disks()[0].Wipes(); installs != 1 || wipes != 1 {
			t.Errorf("%s: %d installs and %d wipes, want one of each", name, installs, wipes)
		}
	}
	for _, name := range []string{byIPMI, foundIPMI} {
		wantCommands(t, site.Server(name))
	}
	if both := site.Server(foundBoth); len(both.IPMI.Commands()) != 0 || len(both.BMC.Actions()) == 0 {
		t.Errorf("a BMC that speaks both got %d commands by IPMI and %v by Redfish", len(both.IPMI.Commands()), both.BMC.Actions())
	}
}

// registerAt makes the IngotHost of a server by an address; verified: its certificate
// is looked at.
func registerAt(t *testing.T, site *Site, name, address string, verified bool) {
	t.Helper()
	host := site.hostObject(name, address, site.Server(name).MAC.String(), "all"+secretSuffix, "all"+bundleSuffix)
	if !verified {
		host.Spec.BMC.CABundleRef = nil
	}
	site.create(t, host)
}

// testProtocolsRefused: the same BMC by another protocol, a driver that there is
// not, and what IPMI cannot, are refused by the webhook of the manager as it is.
func testProtocolsRefused(t *testing.T, site *Site) {
	t.Helper()
	for want, change := range map[string]func(*infrav1.IngotHost){
		"is the BMC of IngotHost " + site.Namespace + "/" + byIPMI: func(h *infrav1.IngotHost) {
			h.Spec.BMC.Address = site.Server(byIPMI).HostPort()
		},
		"there is no driver for vendor+nobody://": func(h *infrav1.IngotHost) { h.Spec.BMC.Address = "vendor+nobody://192.0.2.1" },
		"the driver of ipmi:// in spec.bmc.address does not support": func(h *infrav1.IngotHost) {
			h.Spec.BIOS = &infrav1.BIOSConfiguration{Settings: map[string]string{"LogicalProc": "Enabled"}}
		},
	} {
		host := site.hostObject(unspeakable, "ipmi://192.0.2.1", "52:54:00:1c:00:01", "all"+secretSuffix, "")
		host.Spec.BMC.CABundleRef = nil
		change(host)
		if err := site.Client.Create(t.Context(), host); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a refusal with %q", err, want)
		}
	}
}

// reboot has a person reboot a provisioned host, and waits for its system to come up
// from the disk, for which it asks nobody.
func reboot(t *testing.T, site *Site, name string) {
	t.Helper()
	before := count(site.Server(name).Simulated, server.EventSystem)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, infrav1.RebootAnnotation, time.Now().UTC().Format(time.RFC3339)+",Forced")
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: site.Namespace}}
	check(t, site.Client.Patch(t.Context(), host, client.RawPatch(types.MergePatchType, []byte(patch))))
	site.Await(t, name+" rebooted", func(ctx context.Context) (string, error) {
		if err := site.Client.Get(ctx, client.ObjectKeyFromObject(host), host); err != nil {
			return "", err
		}
		switch _, asked := host.Annotations[infrav1.RebootAnnotation]; {
		case asked:
			return "the annotation is still there: " + conditions.GetMessage(host, infrav1.ReadyCondition), nil
		case count(site.Server(name).Simulated, server.EventSystem) <= before:
			return "its system has not come up again", nil
		}
		return "", nil
	})
}

func count(s *server.Server, kind server.EventKind) (n int) {
	for _, e := range s.Events() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// wantCommands: by IPMI the server was switched on, to boot from the network for once,
// thrice (to be inspected, installed and cleaned), reset once, and off; and its
// firmware did as the flags said.
func wantCommands(t *testing.T, one *datacenter.Server) {
	t.Helper()
	got := map[string]int{}
	var order []string
	for _, c := range one.IPMI.Commands() {
		got[c.String()]++
		if s := c.String(); s == chassisOn || s == bootNetwork {
			order = append(order, s)
		}
	}
	if got[bootNetwork] != 3 || got[chassisOn] != 3 || got[chassisReset] != 1 || got[chassisOff]+got[chassisSoft] == 0 {
		t.Errorf("%s: network boots set %d times (want 3), on %d times (3), reset %d times (1), off %d times, soft off %d times",
			one.Spec.Name, got[bootNetwork], got[chassisOn], got[chassisReset], got[chassisOff], got[chassisSoft])
	}
	if want := slices.Repeat([]string{bootNetwork, chassisOn}, 3); !slices.Equal(order, want) {
		t.Errorf("%s: order of commands %q, want %q", one.Spec.Name, order, want)
	}
	fromNetwork := 0
	for _, e := range one.Simulated.Events() {
		if e.Kind == server.EventBootFrom && strings.HasPrefix(e.Detail, string(server.Network)+",") {
			fromNetwork++
		}
	}
	if fromNetwork != 3 {
		t.Errorf("%s: %d boots from the network, want the 3 that were asked for", one.Spec.Name, fromNetwork)
	}
}
