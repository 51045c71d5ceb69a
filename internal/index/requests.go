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

// Requests lists the objects that a change concerns, for a watch: one request for each.
// list says of which kind they are. A watch has nobody to tell that they cannot be
// listed, so that is logged, and there are none.
func Requests(ctx context.Context, reader client.Reader, list client.ObjectList, which ...client.ListOption) []reconcile.Request {
	return RequestsIf(ctx, reader, list, func(client.Object) bool { return true }, which...)
}

// RequestsIf is Requests for those of the objects that are wanted. T is a pointer to the
// kind that list is of. wanted changes nothing: what it is given is the cache's own.
func RequestsIf[T client.Object](ctx context.Context, reader client.Reader, list client.ObjectList, wanted func(T) bool, which ...client.ListOption) []reconcile.Request {
	var requests []reconcile.Request
	err := reader.List(ctx, list, append([]client.ListOption{client.UnsafeDisableDeepCopy}, which...)...)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(T)
			if !ok {
				return fmt.Errorf("a %T is not of the kind that is wanted", item)
			}
			if wanted(object) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
			}
			return nil
		})
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the objects that a change concerns", "list", fmt.Sprintf("%T", list), "by", fmt.Sprint(which))
		return nil
	}
	return requests
}
