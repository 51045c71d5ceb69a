// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
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
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/management"
	"github.com/ingot-metal/ingot/lab/server"
)

// The servers of the tenant drill. The victim's tenant has victim and spare.
const (
	victimName, spareName = "victim", "spare"
	// unregistered is in no inventory.
	unregistered = "unregistered"
	// mineName and slowName are the intruder's own. forgerName is one whose firmware reports
	// the victim's identity, and pushName has a BMC that takes firmware by push alone.
	mineName, slowName, forgerName, pushName = "mine", "slow", "forger", "pushed"
)

// excluded is an address in the management network at which --bmc-sources of the drill allows
// no BMC.
const excluded = "127.66.0.1"

// intruder is a tenant who looks after the servers of one namespace, with the ClusterRole
// ingot-operator there and the right to create Secrets, and who has root on those servers. Its
// attacks must come to nothing.
type intruder struct {
	t *testing.T
	// site is the victim's; own is the same data center in the intruder's namespace, with an
	// administrator's client.
	site, own *Site
	namespace string
	// single is a network that allows this namespace one host, and roomy one that allows it
	// any number. No server is on them.
	single, roomy string
	client        client.Client
	// asManager writes what only the manager may.
	asManager client.Client
	names     *NameServer
	// nics are the interfaces of the servers, by name.
	nics         map[string]server.NIC
	all, refused int
}

// testTenant is the tenant drill (I22): every attack ends in a refusal or a condition that
// names no other tenant, and nothing happens to the servers of others.
func testTenant(t *testing.T, plane *Plane) {
	i := newIntruder(t, plane)
	site := i.site
	site.Register(t, victimName)
	site.Register(t, spareName)
	site.Await(t, "hosts inspected", site.Free(victimName, spareName))

	before := i.actions()
	i.registers()
	i.joins()
	i.exceeds()
	i.deletesSecrets()
	i.oversizes()
	i.takesIdentity()
	i.connects()
	i.pushes()
	if after := i.actions(); !slices.Equal(before, after) {
		t.Errorf("BMCs of others did %v, then %v", before, after)
	}
	site.Await(t, "the hosts of others are free as before", site.Free(victimName, spareName))

	i.boots()
	i.floodsWebhooks()
	i.holdsImages()
	t.Logf("tenant: %d of %d attacks refused", i.refused, i.all)
}

// newIntruder builds the data center, the manager and the tenant.
func newIntruder(t *testing.T, plane *Plane) *intruder {
	t.Helper()
	i := &intruder{t: t, nics: map[string]server.NIC{}, names: newNameServer(t, map[string][]string{
		internalName: {excluded}, rebindName: {"127.0.0.1", excluded}, aliasName: {"127.0.0.1"},
	})}
	identity := [2]string{}
	i.site = plane.NewSite(t, SiteOptions{
		Servers: []string{victimName, spareName, unregistered, mineName, slowName, forgerName, pushName},
		Simulate: func(name string, c *server.Config) {
			i.nics[name] = c.NIC
			switch name {
			case victimName:
				identity = [2]string{c.UUID, c.Serial}
			case forgerName:
				c.UUID, c.Serial = identity[0], identity[1]
			}
		},
		Configure: func(spec *datacenter.ServerSpec) {
			if spec.Name == pushName {
				spec.Personality = pushOnly(t)
			}
		},
	})
	site := i.site
	i.namespace = site.Namespace + "-intruder"
	i.single, i.roomy = i.namespace+"-single", i.namespace+"-roomy"
	own := *site
	own.Namespace = i.namespace
	i.own = &own
	site.StartManager(t, ManagerOptions{Name: "manager", Args: []string{
		"--namespace=", "--image-cache-gib=1", "--agent-deadline=3m", "--lab-name-server=" + i.names.Address,
		"--bmc-sources=0.0.0.0/0,::/0,127.0.0.0/8,!" + excluded + "/32",
	}})
	site.CreateCluster(t)
	shared := &infrav1.IngotNetwork{}
	check(t, site.Client.Get(t.Context(), client.ObjectKey{Name: site.Namespace}, shared))
	shared.Spec.AllowedNamespaces = &infrav1.NetworkNamespaces{Names: []string{site.Namespace, i.namespace}}
	site.do(t, "allow both namespaces", func(ctx context.Context) error { return site.Client.Update(ctx, shared) })
	i.arrive(plane.plane.RESTConfig())
	return i
}

// arrive gives the tenant its namespace and its rights.
func (i *intruder) arrive(config *rest.Config) {
	i.t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: i.namespace, Groups: []string{"system:authenticated"}}
	var err error
	i.client, err = client.New(config, client.Options{Scheme: i.site.Client.Scheme()})
	check(i.t, err)
	manager := rest.CopyConfig(config)
	manager.Impersonate = rest.ImpersonationConfig{UserName: management.Username, Groups: []string{"system:masters"}}
	i.asManager, err = client.New(manager, client.Options{Scheme: i.site.Client.Scheme()})
	check(i.t, err)
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: i.namespace}}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: i.namespace, Name: name} }
	network := func(name, prefix string, allowed *infrav1.NetworkNamespaces) *infrav1.IngotNetwork {
		return &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.IngotNetworkSpec{
			Subnet: prefix + ".0/24", Range: infrav1.AddressRange{Start: prefix + ".10", End: prefix + ".99"}, AllowedNamespaces: allowed}}
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.namespace}},
		&rbacv1.RoleBinding{ObjectMeta: meta("operator"), Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ingot-operator"}},
		&rbacv1.Role{ObjectMeta: meta("secrets"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta("secrets"), Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "secrets"}},
		network(i.single, "10.250.0", &infrav1.NetworkNamespaces{Names: []string{i.namespace}, MaxHosts: ptr.To[int32](1)}),
		network(i.roomy, "10.250.1", &infrav1.NetworkNamespaces{Names: []string{i.namespace}}),
		network(i.closed(), "10.250.2", nil),
	} {
		i.site.do(i.t, "create "+object.GetName(), func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(i.site.Client.Create(ctx, object))
		})
	}
	i.site.Await(i.t, "RBAC knows the tenant", func(ctx context.Context) (string, error) {
		if err := i.client.List(ctx, &infrav1.IngotHostList{}, client.InNamespace(i.namespace)); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
	i.works("create a Secret", func(ctx context.Context) error { return i.client.Create(ctx, i.secret("bmc", "wrong")) })
}

// closed is the name of a network that does not allow the namespace.
func (i *intruder) closed() string { return i.namespace + "-closed" }

// secret is one for a BMC.
func (i *intruder) secret(name, password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name}, Data: map[string][]byte{
		infrav1.SecretKeyUsername: []byte(datacenter.Username), infrav1.SecretKeyPassword: []byte(password),
	}}
}

// host is one of the tenant's.
func (i *intruder) host(name, network, mac, bmc string) *infrav1.IngotHost {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name}, Spec: infrav1.IngotHostSpec{
		BootMACAddress: mac, NetworkRef: infrav1.NetworkReference{Name: network}, BMC: &infrav1.BMC{CredentialsRef: infrav1.LocalReference{Name: "bmc"}},
	}}
	leadTo(bmc)(host)
	return host
}

// leadTo gives a host a BMC whose certificate, where it has one, is not looked at.
func leadTo(address string) func(*infrav1.IngotHost) {
	return func(h *infrav1.IngotHost) {
		h.Spec.BMC.Address, h.Spec.BMC.InsecureSkipVerify = address, nil
		if !strings.HasPrefix(address, "redfish+http://") {
			h.Spec.BMC.InsecureSkipVerify = ptr.To(true)
		}
	}
}

// madeUp is a MAC address that no server has.
func madeUp(n int) string { return fmt.Sprintf("52:54:00:ee:00:%02x", n) }

// register registers one of the intruder's own servers, with what opens its BMC.
func (i *intruder) register(name string) {
	i.t.Helper()
	i.works("create the Secret of "+name, func(ctx context.Context) error {
		return i.client.Create(ctx, i.secret(name+secretSuffix, i.site.options.Password))
	})
	host := i.host(name, i.site.Namespace, i.site.Server(name).MAC.String(), i.site.bmcURL[name])
	host.Labels = map[string]string{hostLabel: name}
	host.Spec.BMC.CredentialsRef.Name = name + secretSuffix
	i.works("register "+name, func(ctx context.Context) error { return i.client.Create(ctx, host) })
}

// works repeats what is allowed, as Site.do does.
func (i *intruder) works(what string, try func(context.Context) error) {
	i.t.Helper()
	i.site.do(i.t, what, func(ctx context.Context) error { return client.IgnoreAlreadyExists(try(ctx)) })
}

// attack counts one attack; try returns what came of it, nil for nothing.
func (i *intruder) attack(name string, try func(context.Context) error) {
	i.t.Helper()
	i.all++
	if err := try(i.t.Context()); err != nil {
		i.t.Errorf("tenant: NOT refused: %s: %v", name, err)
		return
	}
	i.refused++
	i.t.Logf("tenant: refused: %s", name)
}

// forbidden makes an attack of a request that is to be refused with the words, and without
// the name of another tenant's namespace.
func (i *intruder) forbidden(name string, try func(context.Context) error, words ...string) {
	i.t.Helper()
	i.attack(name, func(ctx context.Context) error {
		err := try(ctx)
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsRequestEntityTooLargeError(err) {
			return fmt.Errorf("answered %v", err) //nolint:errorlint // nil is an answer too
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				return fmt.Errorf("refused without %q: %w", word, err)
			}
		}
		if strings.Contains(err.Error(), i.site.Namespace+"/") {
			return fmt.Errorf("the refusal names another tenant: %w", err)
		}
		return nil
	})
}

// says waits until a host of the intruder has a condition with the reason and the words, and
// returns an error if it names another tenant.
func (i *intruder) says(host, reason string, words ...string) error {
	i.t.Helper()
	found := ""
	i.site.Await(i.t, "host "+host+" to report "+reason, func(ctx context.Context) (string, error) {
		object := &infrav1.IngotHost{}
		if err := i.site.Client.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: host}, object); err != nil {
			return "", err
		}
		all := ""
		for _, c := range object.Status.Conditions {
			text := c.Reason + ": " + c.Message
			if all += "\n" + text; strings.HasPrefix(text, reason) && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
				found = text
				return "", nil
			}
		}
		return "it has" + all, nil
	})
	if strings.Contains(found, i.site.Namespace+"/") {
		return fmt.Errorf("the condition names another tenant: %s", found)
	}
	return nil
}

// change patches one of the tenant's hosts.
func (i *intruder) change(name string, change func(*infrav1.IngotHost)) func(context.Context) error {
	return func(ctx context.Context) error {
		host := &infrav1.IngotHost{}
		if err := i.client.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: name}, host); err != nil {
			return err
		}
		base := host.DeepCopy()
		change(host)
		return i.client.Patch(ctx, host, client.MergeFrom(base))
	}
}

// actions are what the BMCs of servers did that are not the intruder's.
func (i *intruder) actions() []string {
	var out []string
	for _, name := range []string{victimName, spareName, unregistered} {
		for _, action := range i.site.Server(name).BMC.Actions() {
			if action != "Login" && action != "Logout" {
				out = append(out, name+" "+action)
			}
		}
	}
	return out
}
