// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/eventually"
)

const (
	clusterName = "line"
	// hostLabel lets a machine ask for one host by name.
	hostLabel = "line.test/host"
	// bootstrapSecret holds the user data of all machines.
	bootstrapSecret = "line-bootstrap"
	// Suffixes of the objects of one BMC.
	secretSuffix, bundleSuffix = "-bmc", "-ca"
)

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// do repeats what an administrator does until the API server takes it: it refuses
// while the webhooks' manager is being started again. It ends early if a manager has
// ended by itself.
func (s *Site) do(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	var refused error
	broken := func() error { return errors.Join(refused, s.err()) }
	eventually.Wait{Limit: patience, Broken: broken}.Until(t, what, eventually.Works(func(ctx context.Context) error {
		err := try(ctx)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			refused = err
		}
		return err
	}))
}

// create creates an object; that it exists is no error, since a reply may be lost.
func (s *Site) create(t *testing.T, obj client.Object) {
	t.Helper()
	obj.SetNamespace(s.Namespace)
	s.do(t, fmt.Sprintf("create %T %s", obj, obj.GetName()), func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(s.Client.Create(ctx, obj))
	})
}

// CreateCluster makes network, cluster and bootstrap data, as an operator and the
// controllers of Cluster API do.
func (s *Site) CreateCluster(t *testing.T) {
	t.Helper()
	network := &infrav1.IngotNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
		Spec: infrav1.IngotNetworkSpec{
			Subnet:            s.subnet("0/16"),
			AllowedNamespaces: &infrav1.NetworkNamespaces{Selector: &metav1.LabelSelector{}},
			Range:             infrav1.AddressRange{Start: s.subnet("100"), End: fmt.Sprintf("10.%d.9.249", 100+s.number)},
		},
	}
	s.do(t, "create network", func(ctx context.Context) error { return client.IgnoreAlreadyExists(s.Client.Create(ctx, network)) })
	s.createClusterObjects(t)
}

// createClusterObjects makes cluster and bootstrap data in the site's namespace.
func (s *Site) createClusterObjects(t *testing.T) {
	t.Helper()
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: clusterName, Namespace: s.Namespace},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: clusterName,
		}},
	}
	s.create(t, cluster)
	ours := &infrav1.IngotCluster{
		ObjectMeta: metav1.ObjectMeta{Name: clusterName, Namespace: s.Namespace},
		Spec:       infrav1.IngotClusterSpec{ControlPlaneEndpoint: infrav1.APIEndpoint{Host: s.subnet("50"), Port: 6443}},
	}
	check(t, controllerutil.SetControllerReference(cluster, ours, s.Client.Scheme()))
	s.create(t, ours)
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	check(t, s.Client.Status().Update(t.Context(), cluster))
	s.create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstrapSecret}, Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte(s.options.UserData)},
	})
}

// hostObject is the IngotHost of a server.
func (s *Site) hostObject(name, address, mac, secret, bundle string) *infrav1.IngotHost {
	return &infrav1.IngotHost{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace, Labels: map[string]string{hostLabel: name}},
		Spec: infrav1.IngotHostSpec{
			BMC: &infrav1.BMC{
				Address: address, CredentialsRef: infrav1.LocalReference{Name: secret}, CABundleRef: &infrav1.CABundleReference{Name: bundle},
			},
			BootMACAddress: mac, BootMode: infrav1.BootModeUEFI, NetworkRef: infrav1.NetworkReference{Name: s.Namespace},
		},
	}
}

// credentials makes the Secret and the ConfigMap of a BMC.
func (s *Site) credentials(t *testing.T, name string, ca []byte) {
	t.Helper()
	s.create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name + secretSuffix},
		Data: map[string][]byte{
			infrav1.SecretKeyUsername: []byte(datacenter.Username), infrav1.SecretKeyPassword: []byte(s.options.Password),
		},
	})
	s.create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name + bundleSuffix}, Data: map[string]string{infrav1.CAKey: string(ca)},
	})
}

// Register makes the IngotHost of a server, as an operator does.
func (s *Site) Register(t *testing.T, name string) {
	t.Helper()
	s.credentials(t, name, s.bmcCA)
	host := s.hostObject(name, s.bmcURL[name], s.Server(name).MAC.String(), name+secretSuffix, name+bundleSuffix)
	if s.Server(name).BMC == nil { // IPMI has no certificate
		host.Spec.BMC.CABundleRef = nil
	}
	s.create(t, host)
}

// Claim makes a Machine with its IngotMachine that asks for the host of that name;
// anyHost asks for whichever there is.
func (s *Site) Claim(t *testing.T, name string, selector *infrav1.HostSelector) {
	t.Helper()
	s.ClaimAs(t, name, infrav1.IngotMachineSpec{
		HostSelector: selector, Image: infrav1.Image{URL: s.Images.URL, Checksum: s.Images.Checksum},
	})
}

// ClaimAs makes a Machine with an IngotMachine of this spec.
func (s *Site) ClaimAs(t *testing.T, name string, spec infrav1.IngotMachineSpec) {
	t.Helper()
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName}},
		Spec: clusterv1.MachineSpec{
			ClusterName: clusterName,
			Bootstrap:   clusterv1.Bootstrap{DataSecretName: ptr.To(bootstrapSecret)},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: name,
			},
		},
	}
	s.create(t, machine)
	check(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine))
	ours := &infrav1.IngotMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace, Labels: machine.Labels},
		Spec:       spec,
	}
	check(t, controllerutil.SetControllerReference(machine, ours, s.Client.Scheme()))
	s.create(t, ours)
}

// theHost asks for one host.
func theHost(name string) *infrav1.HostSelector {
	return &infrav1.HostSelector{MatchLabels: map[string]string{hostLabel: name}}
}

// Delete deletes a Machine with its IngotMachine, as Cluster API does.
func (s *Site) Delete(t *testing.T, name string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name, Namespace: s.Namespace}
	for _, obj := range []client.Object{&clusterv1.Machine{ObjectMeta: meta}, &infrav1.IngotMachine{ObjectMeta: meta}} {
		s.do(t, fmt.Sprintf("delete %T %s", obj, name), func(ctx context.Context) error {
			return client.IgnoreNotFound(s.Client.Delete(ctx, obj))
		})
	}
}

// Free says which of the hosts are not free yet: claimed by nobody, available, and
// cleaned if they were ever claimed.
func (s *Site) Free(names ...string) func(context.Context) (string, error) {
	return s.hosts(names, func(host *infrav1.IngotHost) string {
		switch {
		case host.Status.Phase == infrav1.PhaseQuarantined:
			return "it is quarantined: " + conditions.GetMessage(host, infrav1.ReadyCondition)
		case host.Spec.Claim != nil || host.Spec.Order != nil || host.Spec.Record == nil || host.Spec.Record.InspectedTime.IsZero():
			return "its ledger is not that of a free host"
		case host.Status.Phase != infrav1.PhaseAvailable || !conditions.IsTrue(host, infrav1.HostAvailableCondition):
			return "it does not say that it is available"
		case s.Server(host.Name) != nil && s.Server(host.Name).Powered():
			return "its server is on"
		}
		return ""
	})
}

// Installed says which of the hosts are not provisioned and booted yet.
func (s *Site) Installed(names ...string) func(context.Context) (string, error) {
	return s.hosts(names, func(host *infrav1.IngotHost) string {
		claim := host.Spec.Claim
		switch {
		case claim == nil || claim.State != infrav1.ClaimProvisioned || host.Status.Phase != infrav1.PhaseProvisioned:
			return "it is not provisioned"
		case host.Status.Booted == nil || host.Status.Booted.InstanceID != claim.InstanceID:
			return "its system has not reported"
		case !s.happened(host.Name, server.EventScrubbed, fmt.Sprintf("%s-%d", claim.InstanceID, claim.Attempt)):
			return "its system has not removed the secrets"
		}
		return ""
	})
}

// Provisioned says which of the hosts do not serve their machine by ledger, phase
// and the machine's own word. Unlike Installed it does not ask for the report of the
// first boot, which is in status only: a system reports once.
func (s *Site) Provisioned(names ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		lack, err := s.hosts(names, func(host *infrav1.IngotHost) string {
			claim := host.Spec.Claim
			switch {
			case claim == nil || claim.State != infrav1.ClaimProvisioned || host.Status.Phase != infrav1.PhaseProvisioned:
				return "it is not provisioned"
			case !s.Server(host.Name).Powered():
				return "its server is off"
			case !s.happened(host.Name, server.EventScrubbed, fmt.Sprintf("%s-%d", claim.InstanceID, claim.Attempt)):
				return "its system has not removed the secrets"
			}
			return ""
		})(ctx)
		if lack != "" || err != nil {
			return lack, err
		}
		for _, name := range names {
			machine := &infrav1.IngotMachine{}
			if err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, machine); err != nil {
				return "", err
			}
			if !ptr.Deref(machine.Status.Initialization.Provisioned, false) || len(machine.Status.Addresses) == 0 {
				return "machine " + name + " does not say that it is provisioned", nil
			}
		}
		return "", nil
	}
}

// happened says whether an event with that detail is in a server's log.
func (s *Site) happened(name string, kind server.EventKind, detail string) bool {
	for _, e := range s.Server(name).Simulated.Events() {
		if e.Kind == kind && e.Detail == detail {
			return true
		}
	}
	return false
}

// hosts applies a test to each of the hosts, and names the first that fails.
func (s *Site) hosts(names []string, lack func(*infrav1.IngotHost) string) func(context.Context) (string, error) {
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
			if text != "" {
				missing++
				if first == "" {
					first = name + ": " + text
				}
			}
		}
		if missing == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d of %d hosts, %s", missing, len(names), first), nil
	}
}

// EmptyStatus takes everything out of the status of hosts and of the machines of
// the same name, as far as they exist.
func (s *Site) EmptyStatus(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		meta := metav1.ObjectMeta{Name: name, Namespace: s.Namespace}
		for _, obj := range []client.Object{&infrav1.IngotHost{ObjectMeta: meta}, &infrav1.IngotMachine{ObjectMeta: meta}} {
			s.do(t, "empty the status of "+name, func(ctx context.Context) error {
				return client.IgnoreNotFound(s.Client.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))))
			})
		}
	}
}

// EmptyAll takes everything out of the status of every object of Ingot's kinds in
// the namespace, and says how many hosts and machines there were.
func (s *Site) EmptyAll(t *testing.T) (hosts, machines int) {
	t.Helper()
	for _, list := range []client.ObjectList{&infrav1.IngotHostList{}, &infrav1.IngotMachineList{}, &infrav1.IngotClusterList{}} {
		check(t, s.Client.List(t.Context(), list, client.InNamespace(s.Namespace)))
		check(t, apimeta.EachListItem(list, func(item runtime.Object) error {
			obj, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", item)
			}
			switch obj.(type) {
			case *infrav1.IngotHost:
				hosts++
			case *infrav1.IngotMachine:
				machines++
			}
			return client.IgnoreNotFound(s.Client.Status().Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))))
		}))
	}
	return hosts, machines
}
