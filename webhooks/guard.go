// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
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
