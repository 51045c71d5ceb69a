// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package site

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/qemu"
)

const (
	// Network is the name of the servers' IngotNetwork.
	Network = "servers"
	// RackLabel is the default failure domain.
	RackLabel = "topology.infrastructure.cluster.x-k8s.io/rack"
	// HostLabel lets a selector ask for one host by name.
	HostLabel = "site.test/host"
	// Suffixes of the objects of one BMC.
	secretSuffix, bundleSuffix = "-bmc", "-ca"
)

// Register makes the hosts of servers in the site's namespace, as an operator
// does, and the network if it is missing.
func (s *Site) Register(t testing.TB, servers ...string) {
	t.Helper()
	s.RegisterNetwork(t)
	for _, name := range servers {
		for _, obj := range s.HostObjects(name) {
			s.Create(t, obj)
		}
	}
}

// RegisterNetwork makes the IngotNetwork of the servers, if it is missing.
func (s *Site) RegisterNetwork(t testing.TB) {
	t.Helper()
	check(t, client.IgnoreAlreadyExists(s.create(t, &infrav1.IngotNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: Network},
		Spec: infrav1.IngotNetworkSpec{
			Subnet: subnet + ".0/24", Range: infrav1.AddressRange{Start: subnet + ".100", End: subnet + ".249"},
			AllowedNamespaces: &infrav1.NetworkNamespaces{Selector: &metav1.LabelSelector{}},
		},
	})))
}

// Create creates an object.
func (s *Site) Create(t testing.TB, obj client.Object) {
	t.Helper()
	if err := s.create(t, obj); err != nil {
		t.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
	}
}

// create gives kube-proxy its time: a Service leads to the webhooks a moment after their
// pod is Ready.
func (s *Site) create(t testing.TB, obj client.Object) error {
	t.Helper()
	err := s.Client.Create(t.Context(), obj)
	if apierrors.IsInternalError(err) {
		s.Await(t, "webhooks that answer", func(ctx context.Context) (string, error) {
			err = s.Client.Create(ctx, obj)
			if apierrors.IsInternalError(err) {
				return "an answer", err
			}
			return "", nil
		})
	}
	return err
}

// HostObjects are what an operator writes for one server: credentials, authority
// and IngotHost, the host last.
func (s *Site) HostObjects(name string) []client.Object {
	server := s.World.Server(name)
	meta := func(suffix string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: s.Namespace, Name: name + suffix}
	}
	host := &infrav1.IngotHost{
		ObjectMeta: meta(""),
		Spec: infrav1.IngotHostSpec{
			BMC: &infrav1.BMC{
				Address: server.BMC.Address(), CredentialsRef: infrav1.LocalReference{Name: name + secretSuffix},
				CABundleRef: &infrav1.CABundleReference{Name: name + bundleSuffix},
			},
			BootMACAddress: server.MAC.String(), BootMode: bootMode(server.Spec), NetworkRef: infrav1.NetworkReference{Name: Network},
		},
	}
	host.Labels = map[string]string{HostLabel: name, RackLabel: s.World.Rack(name)}
	return []client.Object{
		&corev1.Secret{ObjectMeta: meta(secretSuffix), Data: map[string][]byte{
			infrav1.SecretKeyUsername: []byte(datacenter.Username), infrav1.SecretKeyPassword: []byte(s.World.Password),
		}},
		&corev1.ConfigMap{
			ObjectMeta: meta(bundleSuffix),
			Data:       map[string]string{infrav1.CAKey: string(s.World.DataCenter.Authority.PEM())},
		},
		host,
	}
}

// bootMode is that of the server's firmware; a simulated one has UEFI.
func bootMode(spec datacenter.ServerSpec) infrav1.BootMode {
	if spec.Kind == datacenter.Virtual && spec.Firmware == qemu.BIOS {
		return infrav1.BootModeBIOS
	}
	return infrav1.BootModeUEFI
}

// Host by name, as it is now.
func (s *Site) Host(t testing.TB, name string) *infrav1.IngotHost {
	t.Helper()
	host := &infrav1.IngotHost{}
	check(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: name}, host))
	return host
}

// Free says which of the hosts cannot be claimed yet: not inspected, claimed,
// having work to do, or with a server that is on.
func (s *Site) Free(names ...string) Missing {
	return s.Hosts(names, func(host *infrav1.IngotHost) string {
		switch {
		case host.Status.Phase == infrav1.PhaseQuarantined:
			return "it is quarantined: " + conditions.GetMessage(host, infrav1.ReadyCondition)
		case host.Spec.Claim != nil:
			return fmt.Sprintf("machine %s has it, %s", host.Spec.Claim.MachineRef.Name, host.Spec.Claim.State)
		case !conditions.IsTrue(host, infrav1.HostAvailableCondition):
			return "it is not Available: " + conditions.GetMessage(host, infrav1.HostAvailableCondition)
		case host.Spec.Order != nil || s.World.Server(host.Name).Powered():
			return "its server is on"
		}
		return ""
	})
}

// Wiped says which of the servers still have something of Ingot's or of an
// operating system on their disks.
func (s *Site) Wiped(names ...string) Missing {
	return func(context.Context) (string, error) {
		for _, name := range names {
			state, err := s.World.Server(name).Disk()
			if err != nil || state.Marker != nil || state.PartitionTable {
				return fmt.Sprintf("disk of %s: %+v", name, state), err
			}
		}
		return "", nil
	}
}

// Hosts applies a test to each of the hosts, and names the first that fails; lack
// says what is missing, or nothing.
func (s *Site) Hosts(names []string, lack func(*infrav1.IngotHost) string) Missing {
	return func(ctx context.Context) (string, error) {
		list := &infrav1.IngotHostList{}
		if err := s.Client.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return "", err
		}
		found := map[string]*infrav1.IngotHost{}
		for i := range list.Items {
			found[list.Items[i].Name] = &list.Items[i]
		}
		missing, first := 0, ""
		for _, name := range names {
			text := "it does not exist"
			if host := found[name]; host != nil {
				text = lack(host)
			}
			if text == "" {
				continue
			}
			if missing++; missing == 1 {
				first = name + ": " + text
			}
		}
		if missing == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d of %d hosts, %s", missing, len(names), first), nil
	}
}
