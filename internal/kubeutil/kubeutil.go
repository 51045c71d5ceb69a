// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeutil has helpers that reconcilers share: reads of objects that may not exist,
// predicates and requests.
//
//	cluster, err := kubeutil.Find[clusterv1.Cluster](ctx, reader, namespace, name)
package kubeutil

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Find reads an object. It returns nil if the object does not exist.
func Find[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, namespace, name string) (P, error) {
	object := P(new(T))
	key := client.ObjectKey{Namespace: namespace, Name: name}
	switch err := reader.Get(ctx, key, object); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", reflect.TypeFor[T]().Name(), key, err)
	}
	return object, nil
}

// OnUpdate returns a predicate that passes the updates for which changed returns true, and all
// other events.
func OnUpdate[T client.Object](changed func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(T)
		after, both := e.ObjectNew.(T)
		return ok && both && changed(before, after)
	}}
}

// Never is a field of predicate.Funcs for events that do not trigger a reconcile.
func Never[E any](E) bool { return false }

// Request returns a request for one object.
func Request(namespace, name string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}
