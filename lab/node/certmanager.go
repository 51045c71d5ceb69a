// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	certManagerNamespace = "cert-manager"
	// certManagerWebhook is the configuration that the cainjector gives its CA.
	certManagerWebhook = "cert-manager-webhook"
	injectorSelector   = "app.kubernetes.io/name=cainjector"
	// injectorPatience is how long a Ready cainjector may leave the webhook without
	// a CA; it takes seconds where it works.
	injectorPatience = time.Minute
	injectorLook     = 5 * time.Second
)

// nurseCertManager starts cert-manager's cainjector again where it sleeps, until
// ctx ends, and tells of it. A cainjector whose watch of Secrets began before the
// webhook wrote its CA has been seen to miss it for good: the webhook then answers
// nobody, and clusterctl waits for it in vain.
func (n *Node) nurseCertManager(ctx context.Context, progress io.Writer) {
	tick := time.NewTicker(injectorLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		name, err := sleepingInjector(ctx, n.clients, time.Now())
		if err != nil || name == "" {
			continue // the next look is soon
		}
		err = n.clients.CoreV1().Pods(certManagerNamespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil && progress != nil {
			_, _ = fmt.Fprintf(progress, "cert-manager's webhook has no CA: pod %s is started again\n", name)
		}
	}
}

// sleepingInjector is the name of a cainjector's pod that should have injected the
// webhook's CA by now and did not; empty where there is none.
func sleepingInjector(ctx context.Context, clients kubernetes.Interface, now time.Time) (string, error) {
	webhook, err := clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, certManagerWebhook, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get the webhook configuration %s: %w", certManagerWebhook, err)
	}
	for _, w := range webhook.Webhooks {
		if len(w.ClientConfig.CABundle) > 0 {
			return "", nil
		}
	}
	pods, err := clients.CoreV1().Pods(certManagerNamespace).List(ctx, metav1.ListOptions{LabelSelector: injectorSelector})
	if err != nil {
		return "", fmt.Errorf("list the pods of cert-manager: %w", err)
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && readyFor(&pod, now) >= injectorPatience {
			return pod.Name, nil
		}
	}
	return "", nil
}

// readyFor is how long a pod has been Ready; 0 where it is not.
func readyFor(pod *corev1.Pod, now time.Time) time.Duration {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return now.Sub(condition.LastTransitionTime.Time)
		}
	}
	return 0
}
