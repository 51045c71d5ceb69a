// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// oneWorkload is one workload cluster; nil: it is not connected.
type oneWorkload struct {
	Clusters
	client client.Client
}

func (o oneWorkload) GetClient(context.Context, client.ObjectKey) (client.Client, error) {
	if o.client == nil {
		return nil, clustercache.ErrClusterNotConnected
	}
	return o.client, nil
}

// A Node is found by the claim's provider ID and counts while its cluster hears it.
func TestHeard(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	node := func(name, instance string, ready corev1.ConditionStatus, beat time.Time) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "ingot://metal/h/" + instance},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.NewTime(beat)}}}}
	}
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h"}}
	host.Spec.Claim = &infrav1.HostClaim{ClusterName: "c", InstanceID: "i"}
	for name, tc := range map[string]struct {
		nodes []client.Object
		want  time.Time
	}{
		"reports":            {[]client.Object{node("a", "i", corev1.ConditionTrue, at)}, at},
		"is not ready":       {[]client.Object{node("a", "i", corev1.ConditionFalse, at)}, at},
		"is not heard":       {[]client.Object{node("a", "i", corev1.ConditionUnknown, at)}, time.Time{}},
		"of another machine": {[]client.Object{node("a", "j", corev1.ConditionTrue, at)}, time.Time{}},
		"none":               {nil, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			index := clustercache.NodeProviderIDIndex
			workload := fake.NewClientBuilder().WithObjects(tc.nodes...).WithIndex(index.Object, index.Field, index.ExtractValue).Build()
			heard, err := Reports{Clusters: oneWorkload{client: workload}}.LastReport(t.Context(), host)
			if err != nil || !heard.Equal(tc.want) {
				t.Errorf("%s, %v; want %s", heard, err, tc.want)
			}
		})
	}
	if heard, err := (Reports{Clusters: oneWorkload{}}).LastReport(t.Context(), host); err != nil || !heard.IsZero() {
		t.Errorf("of a cluster that is not connected: %s, %v", heard, err)
	}
}
