// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// testNetworkUse: a host whose network does not allow its namespace gets no address and no boot. A
// host that booted there before keeps working and shows the missing permission.
func testNetworkUse(t *testing.T, on *testEnv) {
	label := func(y *fixture, value string) {
		namespace := &corev1.Namespace{}
		must(y, y.api.Get(y.ctx, client.ObjectKey{Name: y.ns}, namespace))
		namespace.Labels = map[string]string{infrav1.NetworksLabel: value}
		must(y, y.api.Update(y.ctx, namespace))
	}
	for name, spec := range map[string]infrav1.IngotNetworkSpec{
		"reserve": {Subnet: "198.51.100.0/24", Range: infrav1.AddressRange{Start: "198.51.100.20", End: "198.51.100.29"}},
		"proxy":   {Mode: infrav1.DHCPModeProxy, Subnet: "198.51.100.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			label(y, "none")
			network := y.ns + "-others"
			y.create(&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: network}, Spec: spec})
			y.ready("h", func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = network })
			for range 5 {
				y.step("h")
			}
			if call := y.bmc.took(); call != "" {
				t.Errorf("the BMC got %q", call)
			}
			y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonNamespaceNotAllowed)
			y.want("h", infrav1.HostNetworkAllowedCondition, metav1.ConditionFalse, infrav1.ReasonNamespaceNotAllowed)
			message := conditions.GetMessage(y.get("h"), infrav1.HostNetworkAllowedCondition)
			if len(message) > maxConditionMessage || !strings.Contains(message, "Ingot does not boot the host") || !strings.Contains(message, "label it "+infrav1.NetworksLabel) {
				t.Errorf("message of %d characters: %s", len(message), message)
			}
			facts := &infrav1.IngotHardware{}
			if err := y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "h"}, facts); err == nil && facts.Spec.Address != nil {
				t.Errorf("it has the address %+v", facts.Spec.Address)
			}
			label(y, infrav1.NetworksAllowed)
			y.inspect("h")
			y.want("h", infrav1.HostNetworkAllowedCondition, metav1.ConditionTrue, infrav1.HostNetworkAllowedCondition)

			// As after an upgrade: the host was there before.
			label(y, "none")
			found := &infrav1.IngotHardware{}
			must(y, client.IgnoreNotFound(y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "h"}, found)))
			if name == "proxy" { // what the agent would have reported
				found.Spec.NICs = []infrav1.HardwareNIC{{Name: "eth0", MAC: y.get("h").Spec.BootMACAddress}}
				found.Namespace, found.Name = y.ns, "h"
				if found.ResourceVersion == "" {
					must(y, y.api.Create(y.ctx, found))
				} else {
					must(y, y.api.Update(y.ctx, found))
				}
			}
			y.step("h")
			y.want("h", infrav1.HostNetworkAllowedCondition, metav1.ConditionFalse, infrav1.ReasonOutsideAllowedNamespaces)
			y.want("h", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonAvailable)
			if message := conditions.GetMessage(y.get("h"), infrav1.HostNetworkAllowedCondition); !strings.Contains(message, "keeps working") {
				t.Error(message)
			}
		})
	}
}

// testNetworkQuota: the host above the quota of its namespace gets no address; older hosts keep
// theirs.
func testNetworkQuota(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	network := y.ns + "-small"
	y.create(&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: network}, Spec: infrav1.IngotNetworkSpec{
		Subnet: "198.51.100.0/24", Range: infrav1.AddressRange{Start: "198.51.100.20", End: "198.51.100.29"},
		AllowedNamespaces: &infrav1.NetworkNamespaces{Names: []string{y.ns}, MaxHosts: ptr.To[int32](1)}}})
	use := func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = network }
	y.ready("a", use)
	y.ready("b", use)
	for range 5 {
		y.step("b")
	}
	y.want("b", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonNetworkQuotaExceeded)
	if call := y.bmc.took(); call != "" {
		t.Errorf("the BMC got %q", call)
	}
	y.inspect("a")
}
