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
	// certManagerWebhook is the configuration into which the cainjector writes its CA.
	certManagerWebhook = "cert-manager-webhook"
	injectorSelector   = "app.kubernetes.io/name=cainjector"
	// injectorTimeout is how long a Ready cainjector may need to write the CA; it usually takes
	// seconds.
	injectorTimeout  = time.Minute
	injectorInterval = 5 * time.Second
)

// restartStuckInjector restarts cert-manager's cainjector if it is stuck, until ctx ends, and reports
// it. A cainjector whose watch of Secrets started before the webhook wrote its CA may miss the CA
// permanently. The webhook then accepts no request, and clusterctl waits without effect.
func (n *Node) restartStuckInjector(ctx context.Context, progress io.Writer) {
	tick := time.NewTicker(injectorInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		name, err := stuckInjector(ctx, n.clients, time.Now())
		if err != nil || name == "" {
			continue // checks again soon
		}
		err = n.clients.CoreV1().Pods(certManagerNamespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil && progress != nil {
			_, _ = fmt.Fprintf(progress, "cert-manager's webhook has no CA: restarting pod %s\n", name)
		}
	}
}

// stuckInjector returns the name of a cainjector's pod that should have written the webhook's CA but
// did not; empty: there is none.
func stuckInjector(ctx context.Context, clients kubernetes.Interface, now time.Time) (string, error) {
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
		if pod.DeletionTimestamp == nil && readyFor(&pod, now) >= injectorTimeout {
			return pod.Name, nil
		}
	}
	return "", nil
}

// readyFor returns how long a pod has been Ready; 0: it is not.
func readyFor(pod *corev1.Pod, now time.Time) time.Duration {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return now.Sub(condition.LastTransitionTime.Time)
		}
	}
	return 0
}
