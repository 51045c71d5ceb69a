// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package line

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/network"
)

// intruder is a tenant who looks after the servers of one namespace, with the ClusterRole
// ingot-operator there and the right to create Secrets, and who tries what that must not
// allow.
type intruder struct {
	t         *testing.T
	site      *Site
	namespace string
	// network allows this namespace one host.
	network string
	client  client.Client
}

// testTenant is the tenant drill at the API server (I22): none of the attempts works, each
// ends in a refusal that names no other tenant, and nothing happens to the servers of others.
func testTenant(t *testing.T, plane *Plane) {
	const victim, nobodys = "victim", "nobodys"
	site := plane.NewSite(t, SiteOptions{Servers: []string{victim, nobodys}})
	site.StartManager(t, ManagerOptions{Name: "manager", Args: []string{"--namespace="}}) // of all namespaces
	site.CreateCluster(t)
	theirs := &infrav1.IngotNetwork{}
	check(t, site.Client.Get(t.Context(), client.ObjectKey{Name: site.Namespace}, theirs))
	theirs.Spec.AllowedNamespaces = &infrav1.NetworkNamespaces{Names: []string{site.Namespace}}
	site.do(t, "allow the site's namespace alone", func(ctx context.Context) error { return site.Client.Update(ctx, theirs) })
	site.Register(t, victim)
	site.Await(t, "host inspected", site.Free(victim))

	i := newIntruder(t, site, plane.plane.RESTConfig())
	mine := i.host("mine", "52:54:00:ee:00:01", "redfish://192.0.2.77")
	i.works("register a host on an allowed network", func(ctx context.Context) error { return i.client.Create(ctx, mine) })
	before := site.Server(victim).BMC.Actions()
	i.registers(site.Host(t, victim), site.Server(nobodys).MAC.String(), mine)
	i.exceeds(site.Host(t, victim), mine)
	i.boots(site.Server(nobodys).MAC.String())
	if after := site.Server(victim).BMC.Actions(); !slices.Equal(before, after) {
		t.Errorf("the BMC of another tenant's host was told %v, then %v", before, after)
	}
	if actions := site.Server(nobodys).BMC.Actions(); len(actions) > 0 {
		t.Errorf("the BMC of a server that nobody registered was told %v", actions)
	}
	site.Await(t, "the other tenant's host is free as before", site.Free(victim))
}

func newIntruder(t *testing.T, site *Site, config *rest.Config) *intruder {
	t.Helper()
	i := &intruder{t: t, site: site, namespace: site.Namespace + "-intruder", network: site.Namespace + "-shared"}
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: i.namespace, Groups: []string{"system:authenticated"}}
	var err error
	i.client, err = client.New(config, client.Options{Scheme: site.Client.Scheme()})
	check(t, err)
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: i.namespace}}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: i.namespace, Name: name} }
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.namespace}},
		&rbacv1.RoleBinding{ObjectMeta: meta("operator"), Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ingot-operator"}},
		&rbacv1.Role{ObjectMeta: meta("secrets"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta("secrets"), Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "secrets"}},
		&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: i.network}, Spec: infrav1.IngotNetworkSpec{
			Subnet: "10.250.0.0/24", Range: infrav1.AddressRange{Start: "10.250.0.10", End: "10.250.0.99"},
			AllowedNamespaces: &infrav1.NetworkNamespaces{Names: []string{i.namespace}, MaxHosts: ptr.To[int32](1)},
		}},
	} {
		site.do(t, "create "+object.GetName(), func(ctx context.Context) error { return client.IgnoreAlreadyExists(site.Client.Create(ctx, object)) })
	}
	site.Await(t, "RBAC knows the tenant", func(ctx context.Context) (string, error) {
		if err := i.client.List(ctx, &infrav1.IngotHostList{}, client.InNamespace(i.namespace)); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
	return i
}

// host is one of the tenant's, on the network that allows it.
func (i *intruder) host(name, mac, bmc string) *infrav1.IngotHost {
	return &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name}, Spec: infrav1.IngotHostSpec{
		BootMACAddress: mac, NetworkRef: infrav1.NetworkReference{Name: i.network},
		BMC: &infrav1.BMC{Address: bmc, CredentialsRef: infrav1.LocalReference{Name: "bmc"}},
	}}
}

// works repeats what is allowed, as Site.do does.
func (i *intruder) works(what string, try func(context.Context) error) {
	i.t.Helper()
	i.site.do(i.t, what, func(ctx context.Context) error { return client.IgnoreAlreadyExists(try(ctx)) })
}

// refused wants an attempt to be refused with the words.
func (i *intruder) refused(what string, try func(context.Context) error, words ...string) {
	i.t.Helper()
	err := try(i.t.Context())
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		i.t.Errorf("%s: answered %v, want a refusal", what, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			i.t.Errorf("%s: refused without %q: %v", what, word, err)
		}
	}
}

// registers tries to have servers of others, and of nobody, by registering a host.
func (i *intruder) registers(victim *infrav1.IngotHost, unregistered string, mine *infrav1.IngotHost) {
	i.t.Helper()
	create := func(change func(*infrav1.IngotHost)) func(context.Context) error {
		return func(ctx context.Context) error {
			host := i.host("stolen", "52:54:00:ee:00:02", "redfish://192.0.2.78")
			change(host)
			return i.client.Create(ctx, host)
		}
	}
	update := func(change func(*infrav1.IngotHost)) func(context.Context) error {
		return func(ctx context.Context) error {
			host := &infrav1.IngotHost{}
			if err := i.client.Get(ctx, client.ObjectKeyFromObject(mine), host); err != nil {
				return err
			}
			base := host.DeepCopy()
			change(host)
			return i.client.Patch(ctx, host, client.MergeFrom(base))
		}
	}
	other := victim.Spec.NetworkRef.Name
	i.refused("a server of nobody, on a network that does not allow it", create(func(h *infrav1.IngotHost) {
		h.Spec.NetworkRef.Name, h.Spec.BootMACAddress = other, unregistered
	}), "spec.networkRef.name", "does not allow namespace "+i.namespace, "spec.allowedNamespaces")
	i.refused("the same, by a change of its own host", update(func(h *infrav1.IngotHost) {
		h.Spec.NetworkRef.Name, h.Spec.BootMACAddress = other, unregistered
	}), "spec.networkRef.name", "does not allow namespace")
	i.refused("one host more than its quota", create(func(*infrav1.IngotHost) {}), "spec.networkRef.name", "1 hosts (spec.allowedNamespaces.maxHosts)")
	for how, by := range map[string]func(func(*infrav1.IngotHost)) func(context.Context) error{"new": create, "changed": update} {
		err := by(func(h *infrav1.IngotHost) { h.Spec.BootMACAddress = victim.Spec.BootMACAddress })
		i.refused("another tenant's MAC address, "+how, err, "spec.bootMACAddress")
		i.discreet(err, victim.Namespace+"/")
		err = by(func(h *infrav1.IngotHost) { h.Spec.BMC.Address = victim.Spec.BMC.Address })
		i.refused("another tenant's BMC, "+how, err, "spec.bmc.address")
		i.discreet(err, victim.Namespace+"/")
	}
	i.refused("a host that says it was inspected", create(func(h *infrav1.IngotHost) {
		h.Spec.Record = &infrav1.HostRecord{InspectedAt: metav1.Now()}
	}), "restore")
	i.refused("a claim of its own making", update(func(h *infrav1.IngotHost) {
		h.Spec.Claim = victim.Spec.Claim.DeepCopy()
		h.Spec.Record = &infrav1.HostRecord{InspectedAt: metav1.Now()}
	}), "spec.record")
}

// discreet wants a refusal that does not name what is another tenant's.
func (i *intruder) discreet(try func(context.Context) error, name string) {
	i.t.Helper()
	if err := try(i.t.Context()); err == nil || strings.Contains(err.Error(), name) {
		i.t.Errorf("the refusal names %s: %v", name, err)
	}
}

// exceeds tries what RBAC does not give.
func (i *intruder) exceeds(victim, mine *infrav1.IngotHost) {
	i.t.Helper()
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+infrav1.NetworksLabel+`":"`+infrav1.NetworksAllowed+`"}}}`))
	allow := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"allowedNamespaces":{"selector":{}}}}`))
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Available"}}`))
	hardware := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: mine.Name}}
	for what, try := range map[string]func(context.Context) error{
		"label its namespace": func(ctx context.Context) error {
			return i.client.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.namespace}}, label)
		},
		"allow itself a network": func(ctx context.Context) error {
			return i.client.Patch(ctx, &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: victim.Spec.NetworkRef.Name}}, allow)
		},
		"write the status of its host":   func(ctx context.Context) error { return i.client.Status().Patch(ctx, mine.DeepCopy(), status) },
		"write the hardware of its host": func(ctx context.Context) error { return i.client.Create(ctx, hardware) },
		"read a Secret of its own namespace": func(ctx context.Context) error {
			return i.client.List(ctx, &corev1.SecretList{}, client.InNamespace(i.namespace))
		},
		"read another tenant's Secrets": func(ctx context.Context) error {
			return i.client.List(ctx, &corev1.SecretList{}, client.InNamespace(victim.Namespace))
		},
		"read another tenant's hosts": func(ctx context.Context) error {
			return i.client.List(ctx, &infrav1.IngotHostList{}, client.InNamespace(victim.Namespace))
		},
		"annotate another tenant's host": func(ctx context.Context) error { return i.client.Patch(ctx, victim.DeepCopy(), label) },
		"delete another tenant's host":   func(ctx context.Context) error { return i.client.Delete(ctx, victim.DeepCopy()) },
	} {
		i.refused(what, try)
	}
}

// boots asks the boot server, from the network of the other tenant, for scripts.
func (i *intruder) boots(macs ...string) {
	i.t.Helper()
	neighbor, err := network.NewStack(i.site.DataCentre.Switch, network.StackConfig{
		Name: "intruder", Address: netip.MustParsePrefix(i.site.subnet("78/24")),
	})
	check(i.t, err)
	defer func() { _ = neighbor.Close() }()
	thief := newStranger(i.t, neighbor)
	for _, mac := range append(macs, "52:54:00:ee:00:01") {
		if err := thief.Steal(i.t.Context(), i.site.subnet("2")+":8880", mac); !errors.Is(err, ErrNoAgentBoot) {
			i.t.Errorf("a boot script for %s was given to a neighbor: %v", mac, err)
		}
	}
}
