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

// restoreVerb is the RBAC verb that allows creating objects with fields that only Ingot writes. It
// is for clusterctl move and for restoring a backup (I9).
const restoreVerb = "restore"

// access checks what a user is allowed to do.
type access interface {
	// allowed reports whether user may perform the action of attributes. On an error the
	// webhook rejects the request.
	allowed(ctx context.Context, user authenticationv1.UserInfo, attributes authorizationv1.ResourceAttributes) (bool, error)
}

// reviewer asks the API server with a SubjectAccessReview.
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
		return false, fmt.Errorf("check whether %s may %s %s: %w", user.Username, attributes.Verb, attributes.Resource, err)
	}
	return review.Status.Allowed, nil
}

// guard decides who may write the fields that only Ingot writes.
type guard struct {
	managerUsername string
	access          access
}

// isManager reports whether the manager sent the request.
func (g guard) isManager(ctx context.Context) (bool, error) {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return false, fmt.Errorf("read the requester: %w", err)
	}
	return g.managerUsername != "" && req.UserInfo.Username == g.managerUsername, nil
}

// mayCreate reports whether the requester is the manager or has the verb restore on the resource.
func (g guard) mayCreate(ctx context.Context, resource string, object client.Object) (bool, error) {
	manager, err := g.isManager(ctx)
	if manager || err != nil {
		return manager, err
	}
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return false, fmt.Errorf("read the requester: %w", err)
	}
	return g.access.allowed(ctx, req.UserInfo, authorizationv1.ResourceAttributes{
		Verb: restoreVerb, Group: v1beta2.GroupVersion.Group, Version: v1beta2.GroupVersion.Version,
		Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName(),
	})
}

// ledger is the part of a host's spec that only Ingot writes (I9): its persistent state.
type ledger struct {
	Claim    *v1beta2.HostClaim    `json:"claim,omitempty"`
	Record   *v1beta2.HostRecord   `json:"record,omitempty"`
	Order    *v1beta2.HostOrder    `json:"order,omitempty"`
	Commands []v1beta2.HostCommand `json:"commands,omitempty"`
}

func ledgerOf(host *v1beta2.IngotHost) ledger {
	return ledger{Claim: host.Spec.Claim, Record: host.Spec.Record, Order: host.Spec.Order, Commands: host.Spec.Commands}
}

// checkNewLedger rejects a new host that has a ledger, unless the requester may restore: a forged
// ledger could release or hide a server in use.
func (g guard) checkNewLedger(ctx context.Context, host *v1beta2.IngotHost) (field.ErrorList, error) {
	list, err := changes(field.NewPath("spec"), ledger{}, ledgerOf(host))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	ok, err := g.mayCreate(ctx, "ingothosts", host)
	if err != nil || ok {
		return nil, err
	}
	return invalidChanges(list, fmt.Sprintf("only Ingot writes claim, record, order and commands; remove them to register the server again, "+
		"or restore as a user with the RBAC verb %s on ingothosts", restoreVerb)), nil
}

// checkLedgerUnchanged rejects a change of the ledger by any user except the manager.
func (g guard) checkLedgerUnchanged(ctx context.Context, before, after *v1beta2.IngotHost) (field.ErrorList, error) {
	list, err := changes(field.NewPath("spec"), ledgerOf(before), ledgerOf(after))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	manager, err := g.isManager(ctx)
	if err != nil || manager {
		return nil, err
	}
	return invalidChanges(list, fmt.Sprintf("only Ingot changes claim, record, order and commands; leave them unchanged "+
		"(kubectl apply and patch do), delete the Machine to release a host, or annotate the host with %s or %s",
		inventory.CommandText(v1beta2.ReleaseAnnotation), inventory.CommandText(v1beta2.ClearQuarantineAnnotation))), nil
}
