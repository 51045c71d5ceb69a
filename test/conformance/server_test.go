// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"crypto/tls"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/webhooks"
)

// managerUser is who the manager is to the API server.
const managerUser = "system:serviceaccount:ingot-system:ingot-controller-manager"

// install puts definitions and webhooks, as clusterctl would install them, into a
// real API server, and asks it what they came to.
func (s *Shipped) install(t *testing.T) {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	scheme, err := app.Scheme()
	check(t, err)
	check(t, apiextensionsv1.AddToScheme(scheme))
	env := envtest.Environment(t, envtest.ClusterAPICRDs(t))
	env.Scheme, env.CRDInstallOptions.Scheme = scheme, scheme
	env.WebhookInstallOptions.IgnoreSchemeConvertible = true // the converters stand outside the types
	for _, o := range ofKind(s.Installed.Objects, "CustomResourceDefinition") {
		env.CRDs = append(env.CRDs, as[apiextensionsv1.CustomResourceDefinition](t, o))
	}
	for _, o := range ofKind(s.Installed.Objects, "ValidatingWebhookConfiguration") {
		env.WebhookInstallOptions.ValidatingWebhooks = append(env.WebhookInstallOptions.ValidatingWebhooks, as[admissionregistrationv1.ValidatingWebhookConfiguration](t, o))
	}
	for _, o := range ofKind(s.Installed.Objects, "MutatingWebhookConfiguration") {
		env.WebhookInstallOptions.MutatingWebhooks = append(env.WebhookInstallOptions.MutatingWebhooks, as[admissionregistrationv1.MutatingWebhookConfiguration](t, o))
	}
	cfg := envtest.StartEnvironment(t, env)
	cfg.QPS = -1
	serveWebhooks(t, cfg, scheme, &env.WebhookInstallOptions)
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	check(t, err)
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	check(t, c.List(t.Context(), definitions))
	for i := range definitions.Items {
		if definitions.Items[i].Spec.Group == group {
			s.Definitions = append(s.Definitions, definitions.Items[i])
		}
	}
	s.Resources = map[string][]metav1.APIResource{}
	known, err := discovery.NewDiscoveryClientForConfig(cfg)
	check(t, err)
	for _, v := range versions {
		resources, err := known.ServerResourcesForGroupVersion(group + "/" + v)
		check(t, err)
		s.Resources[v] = resources.APIResources
	}
	ask(t, cfg, scheme, s.Requests)
	manager, err := client.New(impersonate(cfg, managerUser), client.Options{Scheme: scheme})
	check(t, err)
	s.callHooks(t, cfg, c, manager)
}

func as[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	check(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out))
	return out
}

// serveWebhooks runs Ingot's webhooks until the test ends.
func serveWebhooks(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme, options *crenvtest.WebhookInstallOptions) {
	t.Helper()
	mgr, err := ctrl.NewManager(impersonate(cfg, managerUser), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
		}),
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	check(t, index.Setup(ctx, mgr.GetFieldIndexer()))
	check(t, webhooks.SetupWithManager(mgr, webhooks.Options{ManagerUsername: managerUser}))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() { cancel(); check(t, <-done) })
	address := net.JoinHostPort(options.LocalServingHost, strconv.Itoa(options.LocalServingPort))
	eventually.Wait{}.Until(t, "the webhooks to listen", eventually.Works(func(context.Context) error {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // only whether it listens
		if err == nil {
			_ = conn.Close()
		}
		return err
	}))
}

func impersonate(cfg *rest.Config, user string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters", "system:authenticated"}}
	return cfg
}

// refusedBy finds the webhook in a refusal.
var refusedBy = regexp.MustCompile(`admission webhook "([^"]+)" denied`)

func answer(err error) Answer {
	if err == nil {
		return Answer{Allowed: true}
	}
	a := Answer{Message: err.Error()}
	if m := refusedBy.FindStringSubmatch(a.Message); m != nil {
		a.Webhook = m[1]
	}
	return a
}

// subject is an object that requests are made about.
func subject(kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := object(group+"/"+v1beta2, kind, "default", name)
	set(o, spec, "spec")
	return o
}

func machineSpec() map[string]any {
	return map[string]any{"image": map[string]any{"url": "https://images.example/os.raw.zst", "checksum": "sha256:" + strings.Repeat("ab", 32)}}
}

// ask makes the requests that rules are about.
func ask(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme, answers map[string]Answer) {
	t.Helper()
	operator, err := client.New(impersonate(cfg, "operator"), client.Options{Scheme: scheme})
	check(t, err)
	manager, err := client.New(impersonate(cfg, managerUser), client.Options{Scheme: scheme})
	check(t, err)
	template := subject(kindTemplate, "t", map[string]any{"template": map[string]any{"spec": machineSpec()}})
	clusterTemplate := subject("IngotClusterTemplate", "ct", map[string]any{"template": map[string]any{"spec": map[string]any{"failureDomainLabel": "row"}}})
	machine := subject(kindMachine, "m", machineSpec())
	for _, o := range []*unstructured.Unstructured{template, clusterTemplate, machine} {
		check(t, operator.Create(t.Context(), o))
	}
	dryRun := annotated("topology.cluster.x-k8s.io/dry-run")
	otherImage := with("https://images.example/other.raw.zst", "spec", "template", "spec", "image", "url")
	badLabel := with(map[string]any{"not a label": ""}, "spec", "template", "metadata", "labels")
	otherLabel := with("room", "spec", "template", "spec", "failureDomainLabel")
	providerID := with("ingot://default/h1/00000000-0000-0000-0000-000000000001", "spec", "providerID")
	for _, request := range []struct {
		name  string
		by    client.Client
		what  *unstructured.Unstructured
		edits []func(*unstructured.Unstructured)
		dry   bool
	}{
		{TopologyDryRun, operator, template, edits(dryRun, otherImage), true},
		{TopologyDryRunInvalid, operator, template, edits(dryRun, otherImage, badLabel), true},
		{PlainDryRun, operator, template, edits(otherImage), true},
		{OnlyAnnotated, operator, template, edits(dryRun, otherImage), false},
		{ChangeTemplate, operator, template, edits(otherImage), false},
		{ClusterTopologyDryRun, operator, clusterTemplate, edits(dryRun, otherLabel), true},
		{ChangeClusterTemplate, operator, clusterTemplate, edits(otherLabel), false},
		{ChangeMachineSpec, operator, machine, edits(with("https://images.example/other.raw.zst", "spec", "image", "url")), false},
		{ChangeMachineLabels, operator, machine, edits(labelled(map[string]string{"a": "b"})), false},
		{OperatorProviderID, operator, machine, edits(providerID), false},
		{ManagerProviderID, manager, machine, edits(providerID), false},
	} {
		changed := &unstructured.Unstructured{}
		changed.SetGroupVersionKind(request.what.GroupVersionKind())
		check(t, operator.Get(t.Context(), client.ObjectKeyFromObject(request.what), changed))
		for _, edit := range request.edits {
			edit(changed)
		}
		var options []client.UpdateOption
		if request.dry {
			options = append(options, client.DryRunAll)
		}
		answers[request.name] = answer(request.by.Update(t.Context(), changed, options...))
	}
	invalid := subject(kindTemplate, "invalid", map[string]any{"template": map[string]any{"spec": machineSpec()}})
	badLabel(invalid)
	answers[InvalidTemplate] = answer(operator.Create(t.Context(), invalid))
}

func edits(list ...func(*unstructured.Unstructured)) []func(*unstructured.Unstructured) { return list }
