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

// defaulter normalizes the objects of one kind. An object and its template use the same function
// of package normalize.
type defaulter[T client.Object] func(T)

// Default implements admission.Defaulter. It never fails.
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

// defaultClusterTemplate leaves an empty template unchanged, so that the schema can reject a
// missing spec.
func defaultClusterTemplate(t *v1beta2.IngotClusterTemplate) {
	if !reflect.ValueOf(t.Spec.Template).IsZero() {
		normalize.Cluster(&t.Spec.Template.Spec)
	}
}

// mutation handles mutating requests with a defaulter. It differs from controller-runtime's
// handler in three ways:
//   - It accepts an object that does not decode, so that the schema rejects it with its own message.
//   - Its patch contains only the defaulter's changes, not those of a round trip through Go types.
//   - It warns about values that are stored in another form.
type mutation[T client.Object] struct {
	decoder   admission.Decoder
	defaulter admission.Defaulter[T]
	// newObject returns an empty object of the kind.
	newObject func() T
}

// Handle returns a JSON patch (RFC 6902), which is empty if nothing changes.
func (m *mutation[T]) Handle(ctx context.Context, req admission.Request) admission.Response {
	before := m.newObject()
	if err := m.decoder.Decode(req, before); err != nil {
		return admission.Allowed("") // the schema or the validation rejects it
	}
	after, ok := before.DeepCopyObject().(T)
	if !ok {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("copy %T: the copy has another type", before))
	}
	if err := m.defaulter.Default(admission.NewContextWithRequest(ctx, req), after); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if reflect.DeepEqual(before, after) { // the common case
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
	return admission.PatchResponseFromRaw(was, is).WithWarnings(normalizedWarnings(list)...)
}

// normalizedWarnings warns about strings that are stored in another form. It ignores added and
// removed values.
func normalizedWarnings(list []change) []string {
	var warnings []string
	warn := func(path *field.Path, before, after any) {
		was, isText := before.(string)
		is, staysText := after.(string)
		if isText && staysText && was != is {
			warnings = append(warnings, fmt.Sprintf("%s: %q is stored as %q; change the manifest, or tools such as Argo CD "+
				"show a difference", path, was, is))
		}
	}
	for _, c := range list {
		if strings.Contains(c.path.String(), v1beta2.CommandsGivenByAnnotation) {
			continue // not part of a manifest
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

// mutate is mutateBy for a defaulter that does not need the request.
func mutate[T client.Object](mgr ctrl.Manager, object T, d defaulter[T]) func() error {
	return mutateBy(mgr, object, d)
}

// mutateBy returns a function that registers the defaulting of one kind under
// controller-runtime's path. The request is in the defaulter's context.
func mutateBy[T client.Object](mgr ctrl.Manager, object T, d admission.Defaulter[T]) func() error {
	return func() error {
		gvk, err := apiutil.GVKForObject(object, mgr.GetScheme())
		if err != nil {
			return fmt.Errorf("register the defaulting webhook of %T: %w", object, err)
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
	return &mutation[T]{decoder: decoder, defaulter: d, newObject: func() T {
		empty, _ := object.DeepCopyObject().(T)
		return empty
	}}
}
