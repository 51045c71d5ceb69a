// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package archrules_test

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/test/archrules"
)

// Each rule finds the edge it forbids, and lets the neighbouring one pass.
func TestCheck(t *testing.T) {
	const own = archrules.Module + "/"
	tests := map[string]struct {
		dir, path string
		kind      archrules.Kind
		refusal   string // empty: allowed
	}{
		"controllers use the domain":            {"controllers/host", own + "inventory", archrules.Production, ""},
		"the domain uses the API":               {"inventory", own + "api/v1beta2", archrules.Production, ""},
		"the domain asks no BMC":                {"inventory", own + "bmc", archrules.Production, "values in, decision out"},
		"the API knows nobody":                  {"api/v1beta1", own + "inventory", archrules.Production, "the API types know nobody"},
		"versions of the API know each other":   {"api/v1beta1", own + "api/v1beta2", archrules.Production, ""},
		"a driver is no boot server":            {"bmc/redfish", own + "pxe/httpd", archrules.Production, "one server"},
		"a driver shares its room's interface":  {"bmc/redfish", own + "bmc", archrules.Production, ""},
		"a driver is tested on the simulator":   {"bmc/redfish", own + "lab/bmc", archrules.Test, ""},
		"a driver is shipped without it":        {"bmc/redfish", own + "lab/bmc", archrules.Production, "one server"},
		"bmctest is not bmc's neighbour":        {"lab/bmc", own + "bmc/bmctest", archrules.Test, "simulators never import"},
		"simulators do not import the client":   {"lab/bmc", own + "bmc/redfish", archrules.Production, "simulators never import"},
		"nor the boot server":                   {"lab/network", own + "pxe/dhcp", archrules.Production, "simulators never import"},
		"a simulated server runs the agent":     {"lab/server", own + "agent/image", archrules.Production, ""},
		"wire types are plain":                  {"agentapi", own + "agent", archrules.Production, "standard library only"},
		"everybody may know the wire types":     {"pxe/script", own + "agentapi", archrules.Production, ""},
		"controllers do not use webhooks":       {"controllers/host", own + "webhooks/host", archrules.Production, "holds reconcilers only"},
		"wiring uses everything":                {"cmd/manager", own + "webhooks/host", archrules.Production, ""},
		"the manager is shipped without a lab":  {"cmd/manager", own + "lab/network", archrules.Production, "must not link the lab"},
		"the agent is shipped without the rest": {"cmd/agent", own + "inventory", archrules.Production, "stay small"},
		"one command is not part of another":    {"cmd/manager", own + "cmd/agent", archrules.Production, "stay small"},
		"a new directory needs a row":           {"attic", own + "api/v1beta2", archrules.Production, "no row in the table of rooms"},
		"a name that only begins alike":         {"bmc", own + "bmcx", archrules.Production, "one server"},

		"the standard library":                  {"agentapi", "encoding/json", archrules.Production, ""},
		"gofish at home":                        {"bmc/redfish", "github.com/stmcginnis/gofish/redfish", archrules.Production, ""},
		"gofish away":                           {"controllers/host", "github.com/stmcginnis/gofish", archrules.Production, "at home in bmc/redfish"},
		"DHCP's packets in a test":              {"internal/bootconfig", "github.com/insomniacslk/dhcp/dhcpv4", archrules.Test, "at home in pxe/dhcp"},
		"go-cmp in a test":                      {"inventory", "github.com/google/go-cmp/cmp", archrules.Test, ""},
		"a release is read as by its readers":   {"hack/release", "sigs.k8s.io/cluster-api/cmd/clusterctl/client", archrules.Test, ""},
		"a release is written without them":     {"hack/release", "sigs.k8s.io/cluster-api/cmd/clusterctl/client", archrules.Production, "at home in"},
		"go-cmp outside":                        {"inventory", "github.com/google/go-cmp/cmp", archrules.Production, "at home in tests"},
		"Cluster API's types in the API":        {"api/v1beta2", "sigs.k8s.io/cluster-api/api/core/v1beta2", archrules.Production, ""},
		"Cluster API's helpers in the API":      {"api/v1beta2", "sigs.k8s.io/cluster-api/util/conversion", archrules.Production, "bring a Kubernetes client"},
		"a client in a driver":                  {"bmc", "k8s.io/client-go/rest", archrules.Production, "through an interface"},
		"a client in a reconciler":              {"controllers/host", "sigs.k8s.io/controller-runtime/pkg/client", archrules.Production, ""},
		"a library that nobody gave a home to":  {"bmc", "example.com/redfish", archrules.Production, "no row in the table of homes"},
		"tests of the whole use what they like": {"test/qemu", "gvisor.dev/gvisor/pkg/tcpip", archrules.Production, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := archrules.Check(test.dir, test.path, test.kind)
			switch {
			case test.refusal == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.refusal != "" && err == nil:
				t.Error("allowed")
			case test.refusal != "" && !strings.Contains(err.Error(), test.refusal):
				t.Errorf("refused by another rule: %v", err)
			}
		})
	}
}

func TestCheckMaintained(t *testing.T) {
	for name, test := range map[string]struct {
		dir  string
		deps []string
		ok   bool
	}{
		"maintained":                        {"cmd/manager", []string{"fmt", "github.com/google/uuid"}, true},
		"unmaintained":                      {"cmd/manager", []string{"fmt", "github.com/satori/go.uuid"}, false},
		"a package below":                   {"cmd/manager", []string{"github.com/VictorLowther/simplexml/dom"}, false},
		"a name that only begins alike":     {"cmd/manager", []string{"github.com/VictorLowther/soaplike"}, true},
		"a package that is not a program's": {"bmc/vendor", []string{"github.com/satori/go.uuid"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := archrules.CheckMaintained(test.dir, test.deps); (err == nil) != test.ok {
				t.Errorf("CheckMaintained = %v, want no error: %v", err, test.ok)
			}
		})
	}
}

func TestCheckClean(t *testing.T) {
	tests := map[string]struct {
		dir   string
		deps  []string
		clean bool
	}{
		"types only":              {"inventory", []string{"fmt", "k8s.io/apimachinery/pkg/runtime"}, true},
		"a client at a remove":    {"inventory", []string{"fmt", "k8s.io/client-go/rest"}, false},
		"the agent's program":     {"cmd/agent", []string{"sigs.k8s.io/controller-runtime"}, false},
		"a room that may have it": {"controllers/host", []string{"k8s.io/client-go/rest"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := archrules.CheckClean(test.dir, test.deps); (err == nil) != test.clean {
				t.Errorf("CheckClean = %v, want clean: %v", err, test.clean)
			}
		})
	}
}
