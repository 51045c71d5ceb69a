// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/test/site"
)

// elsewhere is a network whose addresses a pool gives.
const elsewhere = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: IngotNetwork
metadata: {name: elsewhere}
spec:
  subnet: 10.78.0.0/24
  allowedNamespaces: {selector: {}}
  addressPoolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool, name: elsewhere}
`

// unknownServer: a server that nobody registered boots from the network, is enrolled,
// and approved by an operator who has it on the wrong network first, where a pool gives
// the addresses. In the end it is registered as the others are.
func unknownServer(t *testing.T, s *stage) {
	servers := s.world.Servers()
	name := servers[len(servers)-1]
	s.site.Kubectl(t, "delete", "ingothost", name)
	s.site.Kubectl(t, "patch", "ingotnetwork", site.Network, "--type=merge", fmt.Sprintf(
		`--patch={"spec":{"mode":"Discover","discover":{"namespace":%q,"range":{"start":"10.77.0.10","end":"10.77.0.19"}}}}`, s.site.Namespace))
	if err := s.world.Server(name).Simulated.Power(t.Context(), labbmc.On); err != nil {
		t.Fatal(err)
	}
	enrolled := ""
	s.site.Await(t, "it is enrolled", func(ctx context.Context) (string, error) {
		hosts := &infrav1.IngotHostList{}
		if err := s.site.Client.List(ctx, hosts, client.InNamespace(s.site.Namespace), client.HasLabels{infrav1.EnrolledLabel}); err != nil || len(hosts.Items) != 1 {
			return fmt.Sprintf("%d hosts wait for approval", len(hosts.Items)), err
		}
		enrolled = hosts.Items[0].Name
		return "", nil
	})
	if mac := s.site.Host(t, enrolled).Spec.BootMACAddress; mac != s.world.Server(name).MAC.String() {
		t.Errorf("%s is enrolled with MAC address %s, want %s", enrolled, mac, s.world.Server(name).MAC)
	}

	// Approved while it is on it would be asked to shut down first, for two minutes.
	if err := s.world.Server(name).Simulated.Power(t.Context(), labbmc.Off); err != nil {
		t.Fatal(err)
	}
	s.site.Apply(t, []byte(elsewhere))
	credentials(t, s, name)
	s.site.Kubectl(t, "patch", "ingothost", enrolled, "--type=merge", approval(s, name))
	claim := poolGives(t, s, "10.78.0.50")
	s.site.Kubectl(t, "patch", "ingothost", enrolled, "--type=merge", fmt.Sprintf(`--patch={"spec":{"networkRef":{"name":%q}}}`, site.Network))
	s.site.Await(t, "its claim is let go", func(ctx context.Context) (string, error) {
		out, err := s.node.Kubectl(ctx, "get", "ipaddressclaim", "--output=name")
		return string(bytes.TrimSpace(out)), err
	})
	s.site.Await(t, "it is Available", s.site.Hosts([]string{enrolled}, func(h *infrav1.IngotHost) string {
		if conditions.IsTrue(h, infrav1.HostAvailableCondition) {
			return ""
		}
		return conditions.GetMessage(h, infrav1.HostAvailableCondition)
	}))

	s.site.Kubectl(t, "delete", "ingothost", enrolled)
	s.site.Kubectl(t, "delete", "ipaddresses.ipam.cluster.x-k8s.io", claim)
	s.site.Kubectl(t, "delete", "ingotnetwork", "elsewhere")
	s.site.Kubectl(t, "patch", "ingotnetwork", site.Network, "--type=merge", `--patch={"spec":{"mode":"Reserve","discover":null}}`)
	credentials(t, s, name)
	objects := s.site.HostObjects(name)
	s.site.Create(t, objects[len(objects)-1])
	s.site.Await(t, "it is free as the others", s.site.Free(name))
}

// credentials makes the Secret of a server's BMC, once that of an earlier host, which
// owned it, is collected.
func credentials(t *testing.T, s *stage, name string) {
	t.Helper()
	for _, obj := range s.site.HostObjects(name) {
		secret, ok := obj.(*corev1.Secret)
		if !ok {
			continue
		}
		s.site.Await(t, "a Secret of its own", func(ctx context.Context) (string, error) {
			err := s.site.Client.Create(ctx, secret.DeepCopy())
			if apierrors.IsAlreadyExists(err) {
				return "the one of the host before is there", nil
			}
			return "", err
		})
	}
}

// approval is what an operator adds to an enrolled host.
func approval(s *stage, name string) string {
	objects := s.site.HostObjects(name)
	bmc := objects[len(objects)-1].(*infrav1.IngotHost).Spec.BMC
	return fmt.Sprintf(`--patch={"metadata":{"annotations":{%q:""}},"spec":{"networkRef":{"name":"elsewhere"},`+
		`"bmc":{"address":%q,"credentialsRef":{"name":%q},"caBundleRef":{"name":%q}}}}`,
		infrav1.ApproveAnnotation, bmc.Address, bmc.CredentialsRef.Name, bmc.CABundleRef.Name)
}

// poolGives answers the only claim, as an IPAM provider does, and waits until the
// address is recorded. It returns the names of both.
func poolGives(t *testing.T, s *stage, address string) string {
	t.Helper()
	claim := ""
	s.site.Await(t, "a claim of an address", func(ctx context.Context) (string, error) {
		out, err := s.node.Kubectl(ctx, "get", "ipaddressclaim", "--output=name")
		names := strings.Fields(string(out))
		if err != nil || len(names) != 1 {
			return fmt.Sprintf("%d claims", len(names)), err
		}
		_, claim, _ = strings.Cut(names[0], "/")
		return "", nil
	})
	s.site.Apply(t, fmt.Appendf(nil, `
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddress
metadata: {name: %[1]q, namespace: %[2]q}
spec:
  claimRef: {name: %[1]q}
  poolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool, name: elsewhere}
  address: %[3]s
  prefix: 24
`, claim, s.site.Namespace, address))
	s.site.Kubectl(t, "patch", "ipaddressclaim", claim, "--subresource=status", "--type=merge", fmt.Sprintf(`--patch={"status":{"addressRef":{"name":%q}}}`, claim))
	s.site.Await(t, "the address is recorded", func(ctx context.Context) (string, error) {
		all := &infrav1.IngotHardwareList{}
		if err := s.site.Client.List(ctx, all, client.InNamespace(s.site.Namespace)); err != nil {
			return "", err
		}
		for i := range all.Items {
			if recorded := all.Items[i].Spec.Address; recorded != nil && recorded.IP == address {
				return "", nil
			}
		}
		return "nobody has " + address, nil
	})
	return claim
}
