// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitPods waits until PodsReady. clusterctl waits only for Deployments, which may be available
// without all of their pods.
func (n *Node) AwaitPods(ctx context.Context) error {
	return poll(ctx, "the pods", n.Err, n.PodsReady)
}

// PodsReady returns nil if there are pods, and all of them are Ready and were never restarted.
// Otherwise the error names each other pod with its problem.
func (n *Node) PodsReady(ctx context.Context) error {
	pods, err := n.clients.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the pods: %w", err)
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("there are no pods")
	}
	var problems []string
	for _, pod := range pods.Items {
		if problem := podProblem(&pod); problem != "" {
			problems = append(problems, fmt.Sprintf("pod %s/%s: %s", pod.Namespace, pod.Name, problem))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s", strings.Join(problems, "; "))
	}
	return nil
}

// podProblem returns the problem of a pod; empty: none.
func podProblem(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			return fmt.Sprintf("container %s waits: %s %s", container.Name, waiting.Reason, waiting.Message)
		}
		if container.RestartCount > 0 {
			return fmt.Sprintf("container %s was restarted %d times", container.Name, container.RestartCount)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return "not ready, " + string(pod.Status.Phase)
}
