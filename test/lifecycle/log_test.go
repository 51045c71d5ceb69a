// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/server"
)

// A logLine is one line of the manager's log in JSON, with the keys that every decision has.
type logLine struct {
	Logger     string `json:"logger"`
	Message    string `json:"msg"`
	Host       string `json:"host"`
	Machine    string `json:"machine"`
	InstanceID string `json:"instanceID"`
	Rule       string `json:"rule"`
	Reason     string `json:"reason"`
}

// An episode is what a reader of the log reconstructs of one claim of a host.
type episode struct {
	Machine, InstanceID string
	// Decisions are the rule and the reason of each step that changes the host.
	Decisions []string
	// PoweredOn and PoweredOff count the steps that switch the server.
	PoweredOn, PoweredOff int
}

// decisionMessages are the log messages of steps that change a host, a server or a machine. Other lines
// report that Ingot waits.
var decisionMessages = map[string]bool{
	"Claimed the host": true, "Saving claim, record and order": true, "Booting the agent": true, "Powering on the host": true,
	"Powering off the host": true, "Shutting down the host": true, "The machine is provisioned": true, "Releasing the host": true,
}

// reconstruct reads the log of the manager from the claim of the host on.
func reconstruct(t *testing.T, log []byte, host string) (e episode) {
	t.Helper()
	claimed := false
	for raw := range bytes.Lines(log) {
		var line logLine
		if json.Unmarshal(raw, &line) != nil || line.Host != host || line.Logger != "" || !decisionMessages[line.Message] {
			continue
		}
		if line.Message == "Claimed the host" {
			claimed, e.Machine, e.InstanceID = true, line.Machine, line.InstanceID
		}
		if !claimed {
			continue
		}
		if line.Machine != e.Machine || line.InstanceID != e.InstanceID {
			t.Errorf("the log line %sis not about machine %s and instance %s", raw, e.Machine, e.InstanceID)
		}
		switch line.Message {
		case "Booting the agent", "Powering on the host":
			e.PoweredOn++
		case "Powering off the host", "Shutting down the host":
			e.PoweredOff++
		}
		if line.Rule == "order/ended-off" { // depends on whether the agent has switched the server off already
			continue
		}
		e.Decisions = append(e.Decisions, strings.TrimSpace(line.Rule+" "+line.Reason))
		if line.Rule == "" {
			e.Decisions[len(e.Decisions)-1] = line.Message
		}
	}
	return e
}

// testLog reconstructs an install, a failed install and a release from the manager's log alone, and
// compares them with the API and the servers.
func testLog(t *testing.T, plane *Plane) {
	const good, bad = "good", "bad"
	site := plane.NewSite(t, SiteOptions{Servers: []string{good, bad}})
	manager := site.StartManager(t, ManagerOptions{Name: "manager", Args: []string{"--logging-format=json", "--max-attempts=1"}})
	site.CreateCluster(t)
	want, boots := map[string]episode{}, map[string]int{}
	for _, name := range []string{good, bad} {
		site.Register(t, name)
		site.Await(t, "a free host", site.Free(name))
		boots[name] = count(site.Server(name).Simulated, server.EventPowerOn)
	}
	site.Claim(t, good, theHost(good))
	site.ClaimAs(t, bad, infrav1.IngotMachineSpec{
		// No image has this checksum: the agent waits for it until the deadline of the install.
		HostSelector: theHost(bad), Image: infrav1.Image{URL: site.Images.URL, Checksum: "sha256:" + strings.Repeat("0", 64)},
	})
	for _, name := range []string{good, bad} {
		site.Await(t, "a claim of "+name, site.hosts([]string{name}, func(host *infrav1.IngotHost) string {
			if host.Spec.Claim == nil {
				return "it has no claim"
			}
			want[name] = episode{Machine: site.Namespace + "/" + name, InstanceID: host.Spec.Claim.InstanceID}
			return ""
		}))
	}
	site.Await(t, "an installed host", site.Installed(good))
	site.Await(t, "a failed install", site.hosts([]string{bad}, func(host *infrav1.IngotHost) string {
		if host.Status.Phase != infrav1.PhaseQuarantined {
			return "it is not quarantined"
		}
		return ""
	}))
	site.Delete(t, good)
	site.Await(t, "a released host", site.Free(good))

	log := manager.Log(t)
	for name, decisions := range map[string][]string{
		good: {
			"Claimed the host", "start/order Provisioning", "start/boot Provisioning", "The machine is provisioned",
			"Releasing the host", "releasing/off-ask Fencing", "releasing/fenced Fenced",
			"start/order Cleaning", "start/boot Cleaning", "order/wiped Cleaned",
		},
		bad: {
			"Claimed the host", "start/order Provisioning", "start/boot Provisioning",
			"order/silent NoAgentContact", "order/quarantine Quarantined",
		},
	} {
		got, e := reconstruct(t, log, site.Namespace+"/"+name), want[name]
		e.Decisions, e.PoweredOff = decisions, got.PoweredOff
		e.PoweredOn = count(site.Server(name).Simulated, server.EventPowerOn) - boots[name]
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%s (-what happened +what the log reports):\n%s", name, diff)
		}
		if got.PoweredOff == 0 {
			t.Errorf("the log reports no power-off of %s", name)
		}
	}
}
