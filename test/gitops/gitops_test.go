// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/lifecycle"
	"github.com/ingot-metal/ingot/test/needs"
)

func TestGitOps(t *testing.T) {
	plane := lifecycle.NewPlaneWith(t, lifecycle.PlaneOptions{AdmissionPlugins: []string{"OwnerReferencesPermissionEnforcement"}})
	t.Run("Prune", func(t *testing.T) { testPrune(t, plane) })
	if !needs.IsFull() {
		t.Log("the other parts run with INGOT_FULL=1")
		return
	}
	t.Run("Sync", func(t *testing.T) { testSync(t, plane) })
	t.Run("Facts", func(t *testing.T) { testFacts(t, plane) })
	t.Run("ManagerDown", func(t *testing.T) { testManagerDown(t, plane) })
	t.Run("Namespace", func(t *testing.T) { testNamespace(t, plane) })
}

// Deleting all of a host at once, with its credentials first, ends with a clean server: in
// the foreground as Argo CD does, with the owner of the Secret, or all in one file.
func testPrune(t *testing.T, plane *lifecycle.Plane) {
	d := newDrill(t, plane, "argo", "sealed", "stripped")
	d.install("argo", "sealed", "stripped")

	sealed := &corev1.ConfigMap{ObjectMeta: d.meta("sealed-secret")} // as a SealedSecret to the garbage collector
	d.check(d.Client.Create(t.Context(), sealed))
	secret := &corev1.Secret{ObjectMeta: d.meta("sealed-bmc")}
	d.check(d.get(secret))
	secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: sealed.Name, UID: sealed.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)})
	d.check(d.Client.Update(t.Context(), secret))

	d.await("the app of Argo CD to be gone", d.prune(metav1.DeletePropagationForeground, d.app("argo")...))
	d.await("the app with a sealed Secret to be gone", d.prune(metav1.DeletePropagationBackground,
		append(d.machine("sealed"), sealed, d.host("sealed"), d.bundle("sealed"))...))
	d.await("the sealed Secret to be gone", func(context.Context) (string, error) {
		if err := d.get(d.credentials("sealed")); !apierrors.IsNotFound(err) {
			return "it is there", err
		}
		return "", nil
	})
	d.clean("argo", "sealed")

	// If the finalizer of the Secret is removed, too, the host reports what remains.
	gone := d.credentials("stripped")
	d.check(d.Client.Delete(t.Context(), gone))
	d.strip(gone)
	pruning := d.prune(metav1.DeletePropagationForeground, append(d.machine("stripped"), d.host("stripped"))...)
	d.await("the host to say what helps", func(ctx context.Context) (string, error) {
		_, err := pruning(ctx)
		if says := d.says("stripped"); !strings.Contains(says, infrav1.ReasonCredentialsMissing) || !strings.Contains(says, infrav1.ForceReleaseAnnotation) {
			return says, err
		}
		return "", err
	})
	d.check(d.Client.Patch(t.Context(), d.host("stripped"), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+infrav1.ForceReleaseAnnotation+`":"`+time.Now().UTC().Format(time.RFC3339)+`"}}}`))))
	d.await("the host to be let go by force", pruning)
}

// Applying the same manifests again, by force, leaves a host in use alone; kubectl replace
// --force is refused for it, and registers a free host again.
func testSync(t *testing.T, plane *lifecycle.Plane) {
	d := newDrill(t, plane, "used", "free")
	d.install("used")
	d.Register(t, "free")
	d.await("the other host to be free", d.Free("free"))

	before := d.Host(t, "used").Spec.Claim
	plane.Kubectl(t, "apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", d.manifest("used"))
	if err := d.Client.Delete(t.Context(), d.host("used")); !apierrors.IsInvalid(err) {
		t.Errorf("a host in use can be deleted: %v", err)
	}
	uid := d.Host(t, "free").UID
	plane.Kubectl(t, "replace", "--force", "-f", d.manifest("free"))
	d.await("the replaced host to be free", d.Free("free"))
	if d.Host(t, "free").UID == uid {
		t.Error("the free host was not replaced")
	}
	if now := d.Host(t, "used").Spec.Claim; now == nil || now.InstanceID != before.InstanceID || now.State != infrav1.ClaimProvisioned || !d.Server("used").Powered() {
		t.Errorf("the claim of the host in use is %+v, its server on: %t", now, d.Server("used").Powered())
	}
	// Both in one file, the host not in use.
	d.await("host and Secret to be gone", d.prune(metav1.DeletePropagationBackground, d.credentials("free"), d.bundle("free"), d.host("free")))
	d.clean("free")
	d.await("the app to be gone", d.prune(metav1.DeletePropagationForeground, d.app("used")...))
	d.clean("used")
}

// The facts of a host outlast their deletion, and are made whole again where their finalizer
// is removed.
func testFacts(t *testing.T, plane *lifecycle.Plane) {
	d := newDrill(t, plane, "used", "free")
	d.install("used")
	d.Register(t, "free")
	d.await("the other host to be free", d.Free("free"))

	was := d.facts("used").Spec
	d.check(d.Client.Delete(t.Context(), d.facts("used")))
	if now := d.facts("used"); now.DeletionTimestamp.IsZero() || now.Spec.Address == nil || *now.Spec.Address != *was.Address {
		t.Errorf("the facts of a host in use: deleted %v, address %+v", now.DeletionTimestamp, now.Spec.Address)
	}
	d.strip(d.facts("used"))
	d.await("the address to be recorded again", func(ctx context.Context) (string, error) {
		facts := &infrav1.IngotHardware{ObjectMeta: d.meta("used")}
		err := d.get(facts)
		if err != nil || facts.Spec.Address == nil {
			return "it is not", client.IgnoreNotFound(err)
		}
		if *facts.Spec.Address != *was.Address {
			return "another is", nil
		}
		return "", nil
	})

	d.check(d.Client.Delete(t.Context(), d.facts("free")))
	d.strip(d.facts("free"))
	d.await("the free host to be inspected again", func(ctx context.Context) (string, error) {
		facts := &infrav1.IngotHardware{ObjectMeta: d.meta("free")}
		described := d.get(facts) == nil && inventory.IsDescribed(facts.Spec)
		host := &infrav1.IngotHost{ObjectMeta: d.meta("free")}
		if err := d.get(host); err != nil {
			return "", err
		}
		if !described {
			return "it has no facts", nil
		}
		return d.Free("free")(ctx)
	})
	d.await("all to be gone", d.prune(metav1.DeletePropagationForeground, append(d.app("used"), d.app("free")...)...))
	d.clean("used", "free")
}

// A Cluster and its hosts that are deleted while no manager runs end clean once one does.
func testManagerDown(t *testing.T, plane *lifecycle.Plane) {
	d := newDrill(t, plane, "used")
	d.install("used")
	d.manager.Stop()
	all := append(d.app("used"), &clusterv1.Cluster{ObjectMeta: d.meta("line")}, &infrav1.IngotCluster{ObjectMeta: d.meta("line")})
	pruning := d.prune(metav1.DeletePropagationForeground, all...)
	for range 10 {
		if left, _ := pruning(t.Context()); left == "" {
			t.Fatal("all is gone while no manager released the server")
		}
		time.Sleep(500 * time.Millisecond)
	}
	d.StartManager(t, lifecycle.ManagerOptions{Name: "again", Direct: true, Args: []string{"--v=1"}})
	d.await("all to be gone", pruning)
	d.clean("used")
}

// A namespace that is deleted with hosts in every state is gone in the end, and its servers
// are clean and off.
func testNamespace(t *testing.T, plane *lifecycle.Plane) {
	d := newDrill(t, plane, "used", "free", "inspecting", "paused")
	d.install("used")
	d.Register(t, "free")
	d.Register(t, "paused")
	d.await("the other hosts to be free", d.Free("free", "paused"))
	d.check(d.Client.Patch(t.Context(), d.host("paused"), client.RawPatch(types.MergePatchType, // as left over from a move
		[]byte(`{"metadata":{"annotations":{"`+infrav1.MovePausedAnnotation+`":"`+time.Now().UTC().Format(time.RFC3339)+`"}}}`))))
	d.Register(t, "inspecting")
	d.await("an inspection to begin", func(context.Context) (string, error) {
		host := &infrav1.IngotHost{ObjectMeta: d.meta("inspecting")}
		err := d.get(host)
		if host.Spec.Order == nil || !d.Server("inspecting").Powered() {
			return "it has not", err
		}
		return "", err
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.Namespace}}
	d.check(d.Client.Delete(t.Context(), namespace))
	d.await("the namespace to be gone", d.gone(namespace))
	d.clean("used", "free", "inspecting", "paused")
}

// gone reports what is left in a namespace.
func (d *drill) gone(namespace *corev1.Namespace) eventually.Missing {
	return func(ctx context.Context) (string, error) {
		err := d.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		hosts := &infrav1.IngotHostList{}
		if err := d.Client.List(ctx, hosts, client.InNamespace(d.Namespace)); err != nil {
			return "", err
		}
		left := "it is there"
		for i := range hosts.Items {
			host := &hosts.Items[i]
			left += "; " + host.Name + " " + conditions.GetReason(host, infrav1.ReadyCondition) + ": " + conditions.GetMessage(host, infrav1.ReadyCondition)
		}
		return left, err
	}
}
