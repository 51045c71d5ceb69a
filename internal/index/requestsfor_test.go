// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// The facts of many hosts, all at once, are one look of each cluster.
func TestSoon(t *testing.T) {
	queue := &countingQueue{later: map[reconcile.Request]time.Duration{}}
	toAll := EnqueueDelayed(handler.MapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: "c1"}}, {NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: "c2"}}}
	}))
	for i := range 100 {
		hardware := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint(i)}}
		toAll.Create(t.Context(), event.CreateEvent{Object: hardware}, queue)
		toAll.Update(t.Context(), event.UpdateEvent{ObjectOld: hardware, ObjectNew: hardware}, queue)
		toAll.Delete(t.Context(), event.DeleteEvent{Object: hardware}, queue)
	}
	want := map[reconcile.Request]time.Duration{}
	for _, name := range []string{"c1", "c2"} {
		want[reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "n", Name: name}}] = gatherTime
	}
	if diff := cmp.Diff(want, queue.later); diff != "" {
		t.Errorf("what is looked at later (-want +got):\n%s", diff)
	}
}

// countingQueue is a queue to which things are only added for later: each once, as
// controller-runtime's does it.
type countingQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	later map[reconcile.Request]time.Duration
}

func (q *countingQueue) AddAfter(request reconcile.Request, after time.Duration) {
	q.later[request] = after
}
