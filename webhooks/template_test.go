// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

// unreadable is a cache that cannot be read.
type unreadable struct{ client.Reader }

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("not synced")
}

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not synced")
}

func dryRun(ctx context.Context, dry bool) context.Context {
	return admission.NewContextWithRequest(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{DryRun: &dry}})
}

func machineTemplate(mutate ...func(*v1beta2.IngotMachineTemplate)) *v1beta2.IngotMachineTemplate {
	out := &v1beta2.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}}
	out.Spec.Template.Spec.Image = v1beta2.Image{URL: "https://images.example/os.raw", Checksum: "sha256:" + strings.Repeat("ab", 32)}
	for _, m := range mutate {
		m(out)
	}
	return out
}

func clusterTemplate(mutate ...func(*v1beta2.IngotClusterTemplate)) *v1beta2.IngotClusterTemplate {
	out := &v1beta2.IngotClusterTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}}
	out.Spec.Template.Spec.FailureDomainLabel = v1beta2.RackLabel
	for _, m := range mutate {
		m(out)
	}
	return out
}

// A template is immutable, except in a dry run with the topology controller's annotation. All
// other rules apply to the dry run too (M35–M37).
func TestTopologyDryRun(t *testing.T) {
	type change struct {
		name          string
		machine       func(*v1beta2.IngotMachineTemplate)
		cluster       func(*v1beta2.IngotClusterTemplate)
		onlyImmutable bool
		wantMachine   string // field of the refusal
		wantCluster   string
	}
	bad := []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Gt"}}
	changes := []change{
		{"another spec", func(m *v1beta2.IngotMachineTemplate) { m.Spec.Template.Spec.Image.URL = "https://x.example/y" },
			func(c *v1beta2.IngotClusterTemplate) { c.Spec.Template.Spec.FailureDomainLabel = "example.com/row" },
			true, "spec.template.spec.image.url", "spec.template.spec.failureDomainLabel"},
		{"another spec that is wrong", func(m *v1beta2.IngotMachineTemplate) {
			m.Spec.Template.Spec.HostSelector = &v1beta2.HostSelector{MatchExpressions: bad}
		}, func(c *v1beta2.IngotClusterTemplate) {
			c.Spec.Template.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: bad}
		}, false, "spec.template.spec.hostSelector", "spec.template.spec.hostSelector"},
		{"wrong metadata", func(m *v1beta2.IngotMachineTemplate) {
			m.Spec.Template.ObjectMeta.Labels = map[string]string{"a b": "c"}
		},
			func(c *v1beta2.IngotClusterTemplate) {
				c.Spec.Template.ObjectMeta.Labels = map[string]string{"a b": "c"}
			},
			false, "spec.template.metadata.labels", "spec.template.metadata.labels"},
	}
	for _, c := range changes {
		for _, dry := range []bool{false, true} {
			for _, annotated := range []bool{false, true} {
				name := c.name
				if dry {
					name += ", dry run"
				}
				if annotated {
					name += ", annotated"
				}
				t.Run(name, func(t *testing.T) {
					wantMachine, wantCluster := c.wantMachine, c.wantCluster
					if c.onlyImmutable && dry && annotated {
						wantMachine, wantCluster = "", ""
					}
					machine, cluster := machineTemplate(c.machine), clusterTemplate(c.cluster)
					if annotated {
						machine.Annotations = map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
						cluster.Annotations = machine.Annotations
					}
					_, err := (&machineTemplateValidator{}).ValidateUpdate(dryRun(t.Context(), dry), machineTemplate(), machine)
					checkRefusal(t, err, wantMachine)
					_, err = (&clusterTemplateValidator{}).ValidateUpdate(dryRun(t.Context(), dry), clusterTemplate(), cluster)
					checkRefusal(t, err, wantCluster)
				})
			}
		}
	}
}

// Labels, owners and finalizers of a stored invalid object can change, for every validated kind.
func TestStoredInvalidObjectsCanChange(t *testing.T) {
	bad := []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Gt"}}
	o := warnings.Checker{Reader: unreadable{}}
	g := guard{managerUsername: "ingot"}
	host := claimed("h")
	host.Spec.BMC = &v1beta2.BMC{Address: "redfish://10.0.0.999"}
	host.Annotations = map[string]string{v1beta2.RebootAnnotation: "perhaps", v1beta2.ForceReleaseAnnotation: "false"}
	cluster := &v1beta2.IngotCluster{} // without the label, as it was stored once
	cluster.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: bad}
	cluster.Spec.ControlPlaneSelector = &metav1.LabelSelector{MatchExpressions: bad}
	cluster.Status.Initialization.Provisioned = new(true)
	for kind, update := range map[string]func(context.Context) error{
		"IngotMachine": touched(&v1beta2.IngotMachine{Spec: v1beta2.IngotMachineSpec{ProviderID: "nonsense", Hostname: "UPPER",
			HostSelector: &v1beta2.HostSelector{MatchExpressions: bad}}}, defaultMachine, &machineValidator{guard: g, checker: o}),
		"IngotMachineTemplate": touched(machineTemplate(func(m *v1beta2.IngotMachineTemplate) {
			m.Spec.Template.ObjectMeta.Labels = map[string]string{"a b": "c"}
			m.Spec.Template.Spec.Hostname = "UPPER"
			m.Spec.Template.Spec.HostSelector = &v1beta2.HostSelector{MatchExpressions: bad}
		}), defaultMachineTemplate, &machineTemplateValidator{checker: o}),
		"IngotCluster": touched(cluster, defaultCluster, &clusterValidator{checker: o}),
		"IngotClusterTemplate": touched(clusterTemplate(func(c *v1beta2.IngotClusterTemplate) {
			c.Spec.Template.ObjectMeta.Labels = map[string]string{"a b": "c"}
			c.Spec.Template.Spec.FailureDomainLabel = ""
			c.Spec.Template.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: bad}
		}), defaultClusterTemplate, &clusterTemplateValidator{checker: o}),
		"IngotNetwork": touched(network("n", "10.10.0.0/24", "10.10.0.20", "10.10.0.10", "10.10.0.255"), defaultNetwork,
			&networkValidator{reader: unreadable{}, checker: o}),
		"IngotHost": touched(host, defaultHost, &hostValidator{guard: g, hosts: unreadable{}, live: unreadable{}, checker: o, clock: clocktesting.NewFakePassiveClock(commandTime())}),
		"IngotHardware": touched(&v1beta2.IngotHardware{Spec: v1beta2.IngotHardwareSpec{Architecture: "pdp11"}},
			func(*v1beta2.IngotHardware) {}, &hardwareValidator{guard: g}),
	} {
		t.Run(kind, func(t *testing.T) {
			if err := update(request(t.Context(), "alice")); err != nil {
				t.Errorf("was refused: %v", err)
			}
		})
	}
}

// touched changes only the metadata of an object and calls the validator.
func touched[T client.Object](before T, defaults func(T), v admission.Validator[T]) func(context.Context) error {
	return func(ctx context.Context) error {
		after := before.DeepCopyObject().(T)
		defaults(after)
		after.SetLabels(map[string]string{"a": "b"})
		after.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Cluster", Name: "c"}})
		after.SetFinalizers(nil)
		now := metav1.Now()
		after.SetDeletionTimestamp(&now)
		_, err := v.ValidateUpdate(ctx, before, after)
		return err
	}
}

// With an unreadable cache there are no warnings, and no rejections by rules that do not need it.
func TestUnreadableCacheOmitsWarnings(t *testing.T) {
	o := warnings.Checker{Reader: unreadable{}}
	ctx := request(t.Context(), "alice")
	selecting := machineTemplate(func(m *v1beta2.IngotMachineTemplate) {
		m.Spec.Template.Spec.HostSelector = &v1beta2.HostSelector{MatchLabels: map[string]string{"a": "b"}, Architecture: "arm64"}
	})
	machine := &v1beta2.IngotMachine{Spec: selecting.Spec.Template.Spec}
	cluster := &v1beta2.IngotCluster{Spec: v1beta2.IngotClusterSpec{FailureDomainLabel: "row", HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
	for kind, do := range map[string]func() (admission.Warnings, error){
		"template": func() (admission.Warnings, error) {
			return (&machineTemplateValidator{checker: o}).ValidateCreate(ctx, selecting)
		},
		"machine": func() (admission.Warnings, error) {
			return (&machineValidator{checker: o}).ValidateCreate(ctx, machine)
		},
		"cluster": func() (admission.Warnings, error) {
			return (&clusterValidator{checker: o}).ValidateCreate(ctx, cluster)
		},
	} {
		if got, err := do(); len(got) > 0 || err != nil {
			t.Errorf("%s: warned of %v, error %v", kind, got, err)
		}
	}
}

// A machine from a template causes no warnings, because its template did.
func TestClonedMachinesGetNoWarnings(t *testing.T) {
	v := &machineValidator{checker: warnings.Checker{Reader: newReader(t)}}
	machine := &v1beta2.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	got, err := v.ValidateCreate(request(t.Context(), "capi"), machine)
	want := admission.Warnings{`metadata.namespace: "ns" has no IngotHost; register hosts there: machines use only hosts of their own namespace, and wait until then`}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("by hand: %v (-want +got):\n%s", err, diff)
	}
	machine.Annotations = map[string]string{clusterv1.TemplateClonedFromNameAnnotation: "workers"}
	got, err = v.ValidateCreate(request(t.Context(), "capi"), machine)
	if diff := cmp.Diff(admission.Warnings{}, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("cloned: %v (-want +got):\n%s", err, diff)
	}
}
