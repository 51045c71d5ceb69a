// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/lifecycle"
)

// limit of one wait.
const limit = 4 * time.Minute

// A drill is a site whose objects come from Git.
type drill struct {
	*lifecycle.Site
	t       *testing.T
	plane   *lifecycle.Plane
	manager *lifecycle.Manager
}

// newDrill builds a site and its manager.
func newDrill(t *testing.T, plane *lifecycle.Plane, servers ...string) *drill {
	t.Helper()
	d := &drill{Site: plane.NewSite(t, lifecycle.SiteOptions{Servers: servers}), t: t, plane: plane}
	d.manager = d.StartManager(t, lifecycle.ManagerOptions{Name: "manager", Direct: true, Args: []string{"--v=1"}})
	d.CreateCluster(t)
	return d
}

// install registers servers and gives each to a machine of its name.
func (d *drill) install(names ...string) {
	d.t.Helper()
	for _, name := range names {
		d.Register(d.t, name)
	}
	d.await("hosts inspected", d.Free(names...))
	for _, name := range names {
		d.Claim(d.t, name, &infrav1.HostSelector{MatchLabels: map[string]string{"line.test/host": name}})
	}
	d.await("hosts installed", d.Installed(names...))
}

func (d *drill) await(what string, missing eventually.Missing) {
	d.t.Helper()
	eventually.Wait{Limit: limit, Interval: 100 * time.Millisecond, Report: time.Minute}.Until(d.t, what, missing)
}

func (d *drill) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *drill) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: d.Namespace, Name: name}
}

func (d *drill) get(object client.Object) error {
	return d.Client.Get(d.t.Context(), client.ObjectKeyFromObject(object), object)
}

// What stands in Git for one host.
func (d *drill) host(name string) client.Object {
	return &infrav1.IngotHost{ObjectMeta: d.meta(name)}
}
func (d *drill) credentials(name string) client.Object {
	return &corev1.Secret{ObjectMeta: d.meta(name + "-bmc")}
}
func (d *drill) bundle(name string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: d.meta(name + "-ca")}
}

// machine is what Cluster API deletes: the Machine, and the IngotMachine under it.
func (d *drill) machine(name string) []client.Object {
	return []client.Object{&clusterv1.Machine{ObjectMeta: d.meta(name)}, &infrav1.IngotMachine{ObjectMeta: d.meta(name)}}
}

// app is all of a host, in the order in which it hurts most.
func (d *drill) app(name string) []client.Object {
	return append([]client.Object{d.credentials(name), d.bundle(name), d.host(name)}, d.machine(name)...)
}

// prune is prune of this drill's objects.
func (d *drill) prune(policy metav1.DeletionPropagation, objects ...client.Object) eventually.Missing {
	return prune(d.Client, policy, objects...)
}

// says is what the host of the name reports.
func (d *drill) says(name string) string {
	return says(d.t.Context(), d.Client, client.ObjectKey{Namespace: d.Namespace, Name: name})
}

// prune deletes the objects again and again, as a GitOps controller does, whatever the API
// server answers, until all are gone.
func prune(c client.Client, policy metav1.DeletionPropagation, objects ...client.Object) eventually.Missing {
	return func(ctx context.Context) (string, error) {
		left := ""
		for _, object := range objects {
			key := client.ObjectKeyFromObject(object)
			refused := c.Delete(ctx, object, client.PropagationPolicy(policy))
			err := c.Get(ctx, key, object)
			if !apierrors.IsNotFound(err) && left == "" {
				left = fmt.Sprintf("%T %s is there: %v; %s", object, key, refused, says(ctx, c, key))
			}
		}
		return left, nil
	}
}

// says is what the host of the name reports; empty: there is none.
func says(ctx context.Context, c client.Client, name client.ObjectKey) string {
	host := &infrav1.IngotHost{}
	if c.Get(ctx, name, host) != nil {
		return ""
	}
	ready := conditions.Get(host, infrav1.ReadyCondition)
	if ready == nil {
		return "no condition"
	}
	return ready.Reason + ": " + ready.Message
}

// clean reports what is left on servers that no host has any more.
func (d *drill) clean(names ...string) {
	d.t.Helper()
	for _, name := range names {
		state, err := d.Server(name).Disk()
		if err != nil || state.Marker != nil || d.Server(name).Powered() {
			d.t.Errorf("server %s ends with marker %v, powered %t, %v; want it clean and off", name, state.Marker, d.Server(name).Powered(), err)
		}
	}
}

// manifest writes the host as it stands in Git.
func (d *drill) manifest(name string) string {
	d.t.Helper()
	host := d.Host(d.t, name)
	kept := &infrav1.IngotHost{ObjectMeta: d.meta(name), Spec: host.Spec}
	kept.APIVersion, kept.Kind, kept.Labels = infrav1.GroupVersion.String(), "IngotHost", host.Labels
	kept.Spec.Claim, kept.Spec.Record, kept.Spec.Order = nil, nil, nil
	text, err := yaml.Marshal(kept)
	d.check(err)
	path := filepath.Join(d.t.TempDir(), name+".yaml")
	d.check(os.WriteFile(path, text, 0o600))
	return path
}

// strip takes the finalizers of an object away, as people do who are told to.
func (d *drill) strip(object client.Object) {
	d.t.Helper()
	d.check(d.Client.Patch(d.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// facts are those of a host.
func (d *drill) facts(name string) *infrav1.IngotHardware {
	d.t.Helper()
	facts := &infrav1.IngotHardware{ObjectMeta: d.meta(name)}
	d.check(d.get(facts))
	return facts
}
