// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// restoreVerb is the RBAC verb of those who may create objects with what only
// Ingot writes in them: clusterctl move, and restoring a backup (I9).
const restoreVerb = "restore"

// access asks what a user may do.
type access interface {
	// allowed reports whether user may do what attributes say. An error means
	// that nobody knows, and the request is refused.
	allowed(ctx context.Context, user authenticationv1.UserInfo, attributes authorizationv1.ResourceAttributes) (bool, error)
}

// reviewer asks the API server, by a SubjectAccessReview.
type reviewer struct {
	client client.Client
}

func (r reviewer) allowed(ctx context.Context, user authenticationv1.UserInfo, attributes authorizationv1.ResourceAttributes) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &attributes,
	}}
	if err := r.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask whether %s may %s %s: %w", user.Username, attributes.Verb, attributes.Resource, err)
	}
	return review.Status.Allowed, nil
}

// guard knows who may write what only Ingot writes.
type guard struct {
	managerUsername string
	access          access
}

// isManager reports whether the manager's identity asks.
func (g guard) isManager(ctx context.Context) (bool, error) {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return false, fmt.Errorf("find the requester: %w", err)
	}
	return g.managerUsername != "" && req.UserInfo.Username == g.managerUsername, nil
}

// mayCreate reports whether the requester may create object of the resource with
// what only Ingot writes in it: the manager, or who has the verb restore.
func (g guard) mayCreate(ctx context.Context, resource string, object client.Object) (bool, error) {
	manager, err := g.isManager(ctx)
	if manager || err != nil {
		return manager, err
	}
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return false, fmt.Errorf("find the requester: %w", err)
	}
	return g.access.allowed(ctx, req.UserInfo, authorizationv1.ResourceAttributes{
		Verb: restoreVerb, Group: v1beta2.GroupVersion.Group, Version: v1beta2.GroupVersion.Version,
		Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName(),
	})
}

// ledger is the part of a host's spec that only Ingot writes (I9).
type ledger struct {
	Claim    *v1beta2.HostClaim    `json:"claim,omitempty"`
	Record   *v1beta2.HostRecord   `json:"record,omitempty"`
	Order    *v1beta2.HostOrder    `json:"order,omitempty"`
	Commands []v1beta2.HostCommand `json:"commands,omitempty"`
}

func ledgerOf(host *v1beta2.IngotHost) ledger {
	return ledger{Claim: host.Spec.Claim, Record: host.Spec.Record, Order: host.Spec.Order, Commands: host.Spec.Commands}
}

// createdLedger refuses a new host with a ledger, unless the requester may
// restore: a ledger that somebody made up could release, or hide, a server in use.
func (g guard) createdLedger(ctx context.Context, host *v1beta2.IngotHost) (field.ErrorList, error) {
	list, err := changes(field.NewPath("spec"), ledger{}, ledgerOf(host))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	ok, err := g.mayCreate(ctx, "ingothosts", host)
	if err != nil || ok {
		return nil, err
	}
	return refuseChanges(list, fmt.Sprintf("only Ingot writes claim, record, order and commands; remove them to register the server again, "+
		"or restore as somebody with the RBAC verb %s on ingothosts", restoreVerb)), nil
}

// changedLedger refuses a change of the ledger by anybody but the manager.
func (g guard) changedLedger(ctx context.Context, before, after *v1beta2.IngotHost) (field.ErrorList, error) {
	list, err := changes(field.NewPath("spec"), ledgerOf(before), ledgerOf(after))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	manager, err := g.isManager(ctx)
	if err != nil || manager {
		return nil, err
	}
	return refuseChanges(list, fmt.Sprintf("only Ingot's manager changes claim, record, order and commands; leave them as they are "+
		"(kubectl apply and patch do), delete the Machine to release a host, or annotate the host with %s or %s",
		inventory.CommandText(v1beta2.ReleaseDanglingAnnotation), inventory.CommandText(v1beta2.ClearQuarantineAnnotation))), nil
}
