// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/ingot-metal/ingot/api/v1beta1"
	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/testscheme"
	"github.com/ingot-metal/ingot/webhooks"
)

// The people of these tests. All but the manager are known to RBAC.
const (
	managerUser  = "system:serviceaccount:ingot-system:ingot-controller-manager"
	operatorUser = "operator"
	restorerUser = "restorer"
)

// server is a real API server with Ingot's admission and conversion in it.
type server struct {
	cfg    *rest.Config
	scheme *runtime.Scheme
	// cache is what the webhooks read.
	cache client.Reader
	// people are clients by name: operator, restorer, manager and admin.
	people map[string]client.Client
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	return testscheme.Scheme(t, apiextensionsv1.AddToScheme, v1beta1.AddToScheme)
}

// start starts the server, and the webhooks in a manager of their own.
func start(t *testing.T) *server {
	t.Helper()
	s := &server{scheme: newScheme(t), people: map[string]client.Client{}}
	env := envtest.Environment(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	env.Scheme = s.scheme
	env.WebhookInstallOptions = crenvtest.WebhookInstallOptions{
		Paths:                   []string{filepath.Join("..", "..", "config", "webhook", "manifests.yaml")},
		IgnoreSchemeConvertible: true, // the converters stand outside the types
	}
	env.CRDInstallOptions.Scheme = s.scheme
	s.cfg = envtest.StartEnvironment(t, env)
	s.startManager(t, &env.WebhookInstallOptions)
	s.addPeople(t)
	return s
}

func (s *server) startManager(t *testing.T, options *crenvtest.WebhookInstallOptions) {
	t.Helper()
	cfg := rest.CopyConfig(s.cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: managerUser, Groups: []string{"system:masters"}}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:  s.scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := index.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		t.Fatal(err)
	}
	dialer := app.NewDialer()
	if err := webhooks.SetupWithManager(mgr, webhooks.Options{
		ManagerUsername: managerUser, BMCs: webhooks.BMCs{Check: dialer.Check, Offers: dialer.Offers, Source: bmc.Sources{}.Check},
	}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	s.cache = mgr.GetClient()
	address := net.JoinHostPort(options.LocalServingHost, strconv.Itoa(options.LocalServingPort))
	waitFor(t, "the webhook server listens", func() bool {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // only whether it listens
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

// newClient makes a client for one user.
func (s *server) newClient(t *testing.T, user string, groups []string) client.Client {
	t.Helper()
	cfg := rest.CopyConfig(s.cfg)
	cfg.QPS = -1 // no client-side limit: the table has hundreds of requests
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(cfg, client.Options{Scheme: s.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// addPeople makes a client for everybody and gives operator and restorer what
// they need: all verbs on Ingot's kinds, and restore for one of them.
func (s *server) addPeople(t *testing.T) {
	t.Helper()
	for name, groups := range map[string][]string{
		operatorUser: nil, restorerUser: nil, managerUser: {"system:masters"}, "admin": {"system:masters"},
	} {
		c := s.newClient(t, name, groups)
		if name == managerUser {
			name = "manager"
		}
		s.people[name] = client.WithFieldValidation(c, metav1.FieldValidationStrict)
	}
	admin := s.people["admin"]
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	for name, verbs := range map[string][]string{operatorUser: verbs, restorerUser: append([]string{"restore"}, verbs...)} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1beta2.GroupVersion.Group}, Resources: []string{"*"}, Verbs: verbs},
		}}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		}
		for _, object := range []client.Object{role, binding} {
			if err := admin.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitFor(t, "RBAC knows the operator", func() bool {
		return s.people[operatorUser].List(t.Context(), &v1beta2.IngotHostList{}) == nil &&
			s.people[restorerUser].List(t.Context(), &v1beta2.IngotHostList{}) == nil
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bmc", Namespace: "default"}}
	if err := admin.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// waitFor polls for a state that only has to come.
func waitFor(t *testing.T, what string, reached func() bool) {
	t.Helper()
	eventually.Wait{}.Until(t, what, eventually.Holds(reached))
}
