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

// AwaitPods waits until PodsReady. clusterctl waits for Deployments, which may be
// available without any of their pods.
func (n *Node) AwaitPods(ctx context.Context) error {
	return poll(ctx, "the pods", n.Err, n.PodsReady)
}

// PodsReady returns nil if there is at least one pod and every pod of every
// namespace is Ready and was never restarted; else an error that names each
// which is not, and why.
func (n *Node) PodsReady(ctx context.Context) error {
	pods, err := n.clients.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the pods: %w", err)
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("there are no pods")
	}
	var troubles []string
	for _, pod := range pods.Items {
		if trouble := podTrouble(&pod); trouble != "" {
			troubles = append(troubles, fmt.Sprintf("pod %s/%s: %s", pod.Namespace, pod.Name, trouble))
		}
	}
	if len(troubles) > 0 {
		return fmt.Errorf("%s", strings.Join(troubles, "; "))
	}
	return nil
}

// podTrouble says what is wrong with a pod; nothing is empty.
func podTrouble(pod *corev1.Pod) string {
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
