// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Requests returns a reconcile request for each object that it lists. list is an empty list of their
// kind. If they cannot be listed, it logs the error and returns none.
func Requests(ctx context.Context, reader client.Reader, list client.ObjectList, which ...client.ListOption) []reconcile.Request {
	return RequestsIf(ctx, reader, list, func(client.Object) bool { return true }, which...)
}

// RequestsIf is Requests for those objects for which isWanted is true. T is a pointer to the kind of
// list. isWanted must not change the object, which belongs to the cache.
func RequestsIf[T client.Object](ctx context.Context, reader client.Reader, list client.ObjectList, isWanted func(T) bool, which ...client.ListOption) []reconcile.Request {
	var requests []reconcile.Request
	err := reader.List(ctx, list, append([]client.ListOption{client.UnsafeDisableDeepCopy}, which...)...)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(T)
			if !ok {
				return fmt.Errorf("list %T: unexpected item %T", list, item)
			}
			if isWanted(object) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
			}
			return nil
		})
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the objects to reconcile", "list", fmt.Sprintf("%T", list), "by", fmt.Sprint(which))
		return nil
	}
	return requests
}
