// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// manager is who has the manager's role here.
const manager = "ingot-manager"

// With the admission plugin OwnerReferencesPermissionEnforcement, which OpenShift has on, the
// manager may not own Secrets. It uses them all the same, and they move by a label. What is
// its own kind it may own.
func TestOwningSecretsIsForbidden(t *testing.T) {
	env := envtest.Environment(t, envtest.IngotCRDs(t))
	env.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	cfg := envtest.StartEnvironment(t, env)
	scheme := testscheme.Scheme(t, rbacv1.AddToScheme)
	admin, err := client.New(cfg, client.Options{Scheme: scheme})
	check(t, err)
	grant(t, admin)
	as := rest.CopyConfig(cfg)
	as.Impersonate = rest.ImpersonationConfig{UserName: manager}
	api := envtest.NewIndexed(t, as, scheme)
	check(t, index.Setup(t.Context(), api))

	host := newScene(t).host
	host.Namespace, host.UID, host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = "default", "", "52:54:00:00:00:01", "net"
	check(t, admin.Create(t.Context(), host))
	secret := credentials(secretKeys()...)
	secret.Namespace = host.Namespace
	check(t, admin.Create(t.Context(), secret))

	stolen := secret.DeepCopy()
	check(t, controllerutil.SetOwnerReference(host, stolen, scheme))
	if err := api.Patch(t.Context(), stolen, client.MergeFrom(secret)); !apierrors.IsForbidden(err) {
		t.Fatalf("the plugin is not on: %v", err)
	}
	finder := &Finder{Client: api, Live: api}
	for range 2 {
		found, err := finder.Find(t.Context(), host, nil)
		if err != nil || found.Problem != lifecycle.BMCOK {
			t.Fatalf("the BMC cannot be used: %s, %v", found.Message, err)
		}
	}
	check(t, admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	_, shared := secret.Labels[infrav1.BMCCredentialsSharedLabel]
	if !shared || len(secret.OwnerReferences) > 0 || !slices.Contains(secret.Finalizers, infrav1.InUseFinalizer) {
		t.Errorf("labels %v, owners %v, finalizers %v", secret.Labels, secret.OwnerReferences, secret.Finalizers)
	}

	facts, err := hardware.New(host, scheme)
	check(t, err)
	owners := facts.OwnerReferences
	check(t, api.Create(t.Context(), facts))
	facts.OwnerReferences = nil
	check(t, admin.Update(t.Context(), facts)) // as a restore of a backup does
	base := facts.DeepCopy()
	facts.OwnerReferences = owners
	if err := api.Patch(t.Context(), facts, client.MergeFrom(base)); err != nil {
		t.Errorf("the owner of an IngotHardware cannot be put back: %v", err)
	}
}

// grant gives the manager the role that is shipped.
func grant(t *testing.T, admin client.Client) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "role.yaml"))
	check(t, err)
	role := &rbacv1.ClusterRole{}
	check(t, yaml.Unmarshal(text, role))
	if role.Name == "" || len(role.Rules) == 0 {
		t.Fatal("config/rbac/role.yaml does not begin with the manager's ClusterRole")
	}
	check(t, admin.Create(t.Context(), role))
	check(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: manager},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: manager}}}))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
