// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/clusterapi"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/node"
	"github.com/ingot-metal/ingot/test/site"
)

// provisioning is the management cluster's interface in the servers' network.
const provisioning = "prov0"

// initialize plugs the management cluster into the servers' network and installs
// cert-manager, Cluster API and the release by clusterctl.
func initialize(t *testing.T, s *stage) {
	t.Helper()
	address := s.site.BootAddress()
	_, err := s.world.DataCentre.Switch.AttachTap(network.Tap{NetNS: s.node.NetNS(), Interface: provisioning, Address: address})
	check(t, err)
	err = s.node.Init(t.Context(), node.Init{
		Others:    []clusterapi.Entry{{Name: "ingot", Kind: "InfrastructureProvider", URL: s.release.Components}},
		Arguments: []string{"--infrastructure=ingot:" + filepath.Base(s.release.Dir)},
		Env: []string{
			// The image is where this machine is.
			"INGOT_IMAGE_SOURCES=0.0.0.0/0",
			"INGOT_BOOT_ADDRESS=" + address.Addr().String(), "INGOT_BOOT_INTERFACE=" + provisioning,
		},
		Progress: t.Output(),
	})
	if err == nil {
		err = s.node.AwaitPods(t.Context())
	}
	if err != nil {
		s.explain(t)
		t.Fatal(err)
	}
	// Servers need a way out for kubeadm to choose its address, if none goes there.
	network := &infrav1.IngotNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: site.Network},
		Spec: infrav1.IngotNetworkSpec{
			Subnet: address.Masked().String(), Gateway: address.Addr().String(),
			Range: infrav1.AddressRange{Start: "10.77.0.100", End: "10.77.0.249"},
		},
	}
	s.site.Create(t, network)
}

// explain prints what there is to know when a scene failed.
func (s *stage) explain(t *testing.T) {
	t.Helper()
	for _, arguments := range [][]string{
		{"get", "ingothosts,machines,ingotmachines,kubeadmcontrolplanes", "--all-namespaces", "--output=wide"},
		{"get", "pods", "--all-namespaces", "--output=wide"},
		{"get", "events", "--all-namespaces", "--field-selector=type=Warning"},
		{"--namespace=ingot-system", "logs", "--selector=control-plane=boot", "--tail=50"},
		{"--namespace=ingot-system", "logs", "--selector=control-plane=controller-manager", "--tail=50"},
	} {
		out, err := s.node.Kubectl(context.Background(), arguments...) // also after the test
		t.Logf("kubectl %q: %v\n%s", arguments, err, out)
	}
	for _, server := range s.world.DataCentre.Servers {
		text, _ := os.ReadFile(server.VM.SerialLog()) // none yet: nothing said
		t.Logf("the console of %s ends in:\n%s", server.Spec.Name, text[max(0, len(text)-5000):])
	}
}
