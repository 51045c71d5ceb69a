// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/site"
)

// mistakes are an operator's; each is answered with what is wrong.
func mistakes(t *testing.T, s *stage) {
	t.Run("clusterctl", func(t *testing.T) { wrongCommands(t, s) })
	t.Run("a claim by hand", func(t *testing.T) { claimByHand(t, s) })
	t.Run("two hosts with one BMC", func(t *testing.T) { twin(t, s) })
	t.Run("a template that selects nothing", func(t *testing.T) { selectsNothing(t, s) })
}

// wrongCommands are refused by clusterctl, by what the release says.
func wrongCommands(t *testing.T, s *stage) {
	complete := map[string]string{
		"CONTROL_PLANE_ENDPOINT_HOST": "192.0.2.1",
		"INGOT_IMAGE_URL":             "http://192.0.2.2/image.raw.zst", "INGOT_IMAGE_CHECKSUM": "sha256:" + strings.Repeat("0", 64),
	}
	without := map[string]string{"CONTROL_PLANE_ENDPOINT_HOST": "192.0.2.1", "INGOT_IMAGE_CHECKSUM": complete["INGOT_IMAGE_CHECKSUM"]}
	for name, test := range map[string]struct {
		variables map[string]string
		arguments []string
		want      string
	}{
		"a variable is missing": {variables: without, arguments: []string{"--infrastructure=ingot", "--flavor=external-endpoint"}, want: "INGOT_IMAGE_URL"},
		"no such flavor":        {variables: complete, arguments: []string{"--infrastructure=ingot", "--flavor=extarnal"}, want: "cluster-template-extarnal.yaml"},
		"no such version":       {variables: complete, arguments: []string{"--infrastructure=ingot:v9.9.9"}, want: "v9.9.9"},
	} {
		arguments := append([]string{"generate", "cluster", "wrong", "--kubernetes-version=" + site.DefaultKubernetes}, test.arguments...)
		out, err := s.site.TryClusterctl(t.Context(), test.variables, arguments...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: clusterctl says %v, want that it names %s; output:\n%s", name, err, test.want, out.Stdout)
		}
	}
}

// claimByHand: the ledger is Ingot's alone, also for an administrator.
func claimByHand(t *testing.T, s *stage) {
	name := s.world.Servers()[0]
	const claim = `{"spec":{"claim":{"machineRef":{"name":"mine"},"id":"4be0643f-1d98-573b-97cd-ca98a65347dd","state":"Provisioned"}}}`
	_, err := s.node.Kubectl(t.Context(), "patch", "ingothost", name, "--type=merge", "--patch="+claim)
	if err == nil || !strings.Contains(err.Error(), "spec.claim") {
		t.Errorf("kubectl patch = %v, want a refusal that names spec.claim", err)
	}
	if s.site.Host(t, name).Spec.Claim != nil {
		t.Errorf("%s is claimed by hand", name)
	}
}

// twin: a second host with the BMC of another gets no server, says whose that is,
// and does no harm once it is gone.
func twin(t *testing.T, s *stage) {
	first := s.world.Servers()[0]
	objects := s.site.HostObjects(first)
	host := objects[len(objects)-1].(*infrav1.IngotHost)
	host.Name, host.Spec.BootMACAddress = "twin", "52:54:00:ff:ff:01"
	if err := s.site.Client.Create(t.Context(), host); err != nil {
		if !strings.Contains(err.Error(), first) {
			t.Errorf("create = %v, want that it names %s", err, first)
		}
		return // refused at once is answered as well
	}
	s.site.Await(t, "the twin is told", s.site.Hosts([]string{"twin"}, func(h *infrav1.IngotHost) string {
		if conditions.IsFalse(h, infrav1.HostUniqueCondition) && strings.Contains(conditions.GetMessage(h, infrav1.HostUniqueCondition), first) {
			return ""
		}
		return "Unique: " + conditions.GetMessage(h, infrav1.HostUniqueCondition)
	}))
	s.site.Kubectl(t, "delete", "ingothost", "twin")
	s.site.Await(t, "the other is free again", s.site.Free(first))
}

// selectsNothing: a machine for which there is no host says what was asked for and
// which host came nearest; nothing else is in its way.
func selectsNothing(t *testing.T, s *stage) {
	c := s.site.CreateCluster(t, site.Cluster{
		Name: "nothing", ControlPlanes: 1, Workers: 1,
		Variables: map[string]string{"INGOT_WORKER_HOST_LABELS": "tier: platinum"},
	})
	s.site.Await(t, "the worker is told", func(ctx context.Context) (string, error) {
		machines := &infrav1.IngotMachineList{}
		if err := s.site.Client.List(ctx, machines, client.InNamespace(c.Namespace)); err != nil {
			return "", err
		}
		told := "no IngotMachine waits"
		for i := range machines.Items {
			message := conditions.GetMessage(&machines.Items[i], infrav1.MachineHostClaimedCondition)
			if strings.Contains(message, "tier=platinum") && strings.Contains(message, "Nearest miss: ") {
				return "", nil
			}
			told = message
		}
		return told, nil
	})
	deleteCluster(t, s, c)
}
