// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/lab/podnet"
	"github.com/ingot-metal/ingot/test/site"
)

// hello is the name of the Deployment and its Service.
const (
	hello     = "hello"
	helloPort = 8080
)

var helloKey = client.ObjectKey{Namespace: "default", Name: hello}

// sayHello runs that many pods that greet, behind a port of every node.
func (w *workloadCluster) sayHello(ctx context.Context, replicas int32) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	deployment := &appsv1.Deployment{}
	err := w.client.Get(ctx, helloKey, deployment)
	if err == nil {
		before := deployment.DeepCopy()
		deployment.Spec.Replicas = &replicas
		return w.client.Patch(ctx, deployment, client.MergeFrom(before))
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	labels := map[string]string{"app": hello}
	meta := metav1.ObjectMeta{Namespace: helloKey.Namespace, Name: hello}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Selector: labels, Ports: []corev1.ServicePort{{Port: helloPort}},
	}}
	if err := w.client.Create(ctx, service); err != nil {
		return err
	}
	return w.client.Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](5),
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
			}},
			Containers: []corev1.Container{greeter()},
		}},
	}})
}

// greeter is what its pods run.
func greeter() corev1.Container {
	return corev1.Container{
		Name: hello, Image: podnet.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args: []string{fmt.Sprintf("--hello=:%d", helloPort)},
	}
}

// stay is the finalizer of a witness.
const stay = "test.ingot.invalid/stay"

// stand puts a pod on a Node that does not go unless let go: who drains the Node must wait
// for it.
func (w *workloadCluster) stand(ctx context.Context, node string) (*corev1.Pod, error) {
	witness := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: helloKey.Namespace, Name: "witness", Finalizers: []string{stay}},
		Spec:       corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](5), Containers: []corev1.Container{greeter()}},
	}
	return witness, w.client.Create(ctx, witness)
}

// evicted is missing until a pod was asked to go as a drain asks.
func (w *workloadCluster) evicted(pod *corev1.Pod) site.Missing {
	return func(ctx context.Context) (string, error) {
		now := &corev1.Pod{}
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(pod), now); err != nil {
			return "", err
		}
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI" {
				return "", nil
			}
		}
		return fmt.Sprintf("it is %s, deleted %v, conditions %v", now.Status.Phase, now.DeletionTimestamp, now.Status.Conditions), nil
	}
}

// letGo ends a witness.
func (w *workloadCluster) letGo(ctx context.Context, pod *corev1.Pod) error {
	return w.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
}

// greeters are its pods that nobody deletes.
func (w *workloadCluster) greeters(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := w.client.List(ctx, list, client.InNamespace(helloKey.Namespace), client.MatchingLabels{"app": hello}); err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp.IsZero() {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// answers says at which node's port no pod greets.
func (w *workloadCluster) answers(ctx context.Context) (string, error) {
	service := &corev1.Service{}
	if err := w.client.Get(ctx, helloKey, service); err != nil {
		return "", err
	}
	nodes, err := w.nodes(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			if a.Type != corev1.NodeInternalIP {
				continue
			}
			text, err := w.get(ctx, fmt.Sprintf("http://%s:%d/", a.Address, service.Spec.Ports[0].NodePort))
			if err != nil || !strings.HasPrefix(text, "hello from "+hello+"-") {
				return fmt.Sprintf("node %s says %q", n.Name, text), err
			}
		}
	}
	return "", nil
}
