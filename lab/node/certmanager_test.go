// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

func TestStuckInjector(t *testing.T) {
	now := time.Now()
	webhook := func(ca string) runtime.Object {
		return &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: certManagerWebhook},
			Webhooks:   []admissionv1.ValidatingWebhook{{ClientConfig: admissionv1.WebhookClientConfig{CABundle: []byte(ca)}}},
		}
	}
	injector := func(name string, status corev1.ConditionStatus, age time.Duration) runtime.Object {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: certManagerNamespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": "cainjector"}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-age)),
			}}},
		}
	}
	tests := map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"not installed": {},
		"CA written":    {objects: []runtime.Object{webhook("ca"), injector("a", corev1.ConditionTrue, time.Hour)}},
		"just started":  {objects: []runtime.Object{webhook(""), injector("a", corev1.ConditionTrue, 10*time.Second)}},
		"not ready":     {objects: []runtime.Object{webhook(""), injector("a", corev1.ConditionFalse, time.Hour)}},
		"ready without CA": {
			objects: []runtime.Object{webhook(""), injector("b", corev1.ConditionTrue, 2*time.Minute)}, want: "b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := stuckInjector(t.Context(), fake.NewClientset(test.objects...), now)
			if err != nil || got != test.want {
				t.Errorf("stuckInjector = %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
