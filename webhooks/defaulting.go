// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/normalize"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-ingothost,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,versions=v1beta2,name=default.ingothost.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-ingotnetwork,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotnetworks,versions=v1beta2,name=default.ingotnetwork.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-ingotmachine,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,versions=v1beta2,name=default.ingotmachine.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-ingotmachinetemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotmachinetemplates,versions=v1beta2,name=default.ingotmachinetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-ingotcluster,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotclusters,versions=v1beta2,name=default.ingotcluster.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-ingotclustertemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotclustertemplates,versions=v1beta2,name=default.ingotclustertemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// defaulter brings the objects of one kind into canonical form. Objects and
// templates of them go through the same function of package canonical.
type defaulter[T client.Object] func(T)

var (
	_ admission.Defaulter[*v1beta2.IngotNetwork]         = defaulter[*v1beta2.IngotNetwork](defaultNetwork)
	_ admission.Defaulter[*v1beta2.IngotMachine]         = defaulter[*v1beta2.IngotMachine](defaultMachine)
	_ admission.Defaulter[*v1beta2.IngotMachineTemplate] = defaulter[*v1beta2.IngotMachineTemplate](defaultMachineTemplate)
	_ admission.Defaulter[*v1beta2.IngotCluster]         = defaulter[*v1beta2.IngotCluster](defaultCluster)
	_ admission.Defaulter[*v1beta2.IngotClusterTemplate] = defaulter[*v1beta2.IngotClusterTemplate](defaultClusterTemplate)
)

// Default changes object in place. It never fails.
func (d defaulter[T]) Default(_ context.Context, object T) error {
	d(object)
	return nil
}

func defaultHost(host *v1beta2.IngotHost)          { normalize.Host(&host.Spec) }
func defaultNetwork(network *v1beta2.IngotNetwork) { normalize.Network(&network.Spec) }
func defaultMachine(machine *v1beta2.IngotMachine) { normalize.Machine(&machine.Spec) }
func defaultCluster(cluster *v1beta2.IngotCluster) { normalize.Cluster(&cluster.Spec) }
func defaultMachineTemplate(t *v1beta2.IngotMachineTemplate) {
	normalize.Machine(&t.Spec.Template.Spec)
}

// defaultClusterTemplate leaves a template that says nothing at all, or the schema
// could not refuse one whose spec was forgotten; the clusters of one get the label.
func defaultClusterTemplate(t *v1beta2.IngotClusterTemplate) {
	if !reflect.ValueOf(t.Spec.Template).IsZero() {
		normalize.Cluster(&t.Spec.Template.Spec)
	}
}

// mutation answers mutating requests by a defaulter. It differs from
// controller-runtime's own handler in three ways: an object that does not decode is
// passed on, so that the schema refuses it in its words; the patch holds what the
// defaulter changed and nothing that a round trip through our types did; and who
// wrote another form is told.
type mutation[T client.Object] struct {
	decoder   admission.Decoder
	defaulter admission.Defaulter[T]
	// blank returns a new object of the kind.
	blank func() T
}

// Handle answers with a JSON patch (RFC 6902), empty where nothing is to change.
func (m *mutation[T]) Handle(ctx context.Context, req admission.Request) admission.Response {
	before := m.blank()
	if err := m.decoder.Decode(req, before); err != nil {
		return admission.Allowed("") // the schema refuses it, or else validation
	}
	after, ok := before.DeepCopyObject().(T)
	if !ok {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("copy of %T is of another type", before))
	}
	if err := m.defaulter.Default(admission.NewContextWithRequest(ctx, req), after); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if reflect.DeepEqual(before, after) { // nearly always: the manager itself writes hosts all day
		return admission.Allowed("")
	}
	list, err := changes(nil, before, after)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	was, err := json.Marshal(before)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	is, err := json.Marshal(after)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(was, is).WithWarnings(rewritten(list)...)
}

// rewritten tells what was written in another form. A default that filled a gap
// needs no word, nor does what went.
func rewritten(list []change) []string {
	var warnings []string
	warn := func(path *field.Path, before, after any) {
		was, isText := before.(string)
		is, staysText := after.(string)
		if isText && staysText && was != is {
			warnings = append(warnings, fmt.Sprintf("%s: %q is stored as %q; write it so in the manifest, or tools that compare "+
				"text, such as Argo CD, show a difference", path, was, is))
		}
	}
	for _, c := range list {
		if strings.Contains(c.path.String(), v1beta2.CommandsGivenByAnnotation) {
			continue // no manifest has it
		}
		warn(c.path, c.before, c.value)
		before, _ := c.before.([]any)
		after, _ := c.value.([]any)
		for i := range min(len(before), len(after)) {
			warn(c.path.Index(i), before[i], after[i])
		}
	}
	return warnings
}

// mutate is mutateBy for a kind whose objects alone say what becomes of them.
func mutate[T client.Object](mgr ctrl.Manager, object T, d defaulter[T]) func() error {
	return mutateBy(mgr, object, d)
}

// mutateBy returns a step that registers the defaulting of one kind, under the path
// that controller-runtime would choose. The defaulter finds the request in its context.
func mutateBy[T client.Object](mgr ctrl.Manager, object T, d admission.Defaulter[T]) func() error {
	return func() error {
		gvk, err := apiutil.GVKForObject(object, mgr.GetScheme())
		if err != nil {
			return fmt.Errorf("register the defaulting of %T: %w", object, err)
		}
		path := "/mutate-" + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
		mgr.GetWebhookServer().Register(path, &admission.Webhook{
			Handler:      newMutation(admission.NewDecoder(mgr.GetScheme()), object, d),
			RecoverPanic: new(true),
		})
		return nil
	}
}

func newMutation[T client.Object](decoder admission.Decoder, object T, d admission.Defaulter[T]) *mutation[T] {
	return &mutation[T]{decoder: decoder, defaulter: d, blank: func() T {
		blank, _ := object.DeepCopyObject().(T)
		return blank
	}}
}
