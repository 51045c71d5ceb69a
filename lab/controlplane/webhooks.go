// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// writeWebhookCertificate makes the serving certificate of all webhook servers
// in dir, under the names that controller-runtime looks for, and returns the
// authority to be trusted, as PEM.
func writeWebhookCertificate(dir string) ([]byte, error) {
	ca, err := newCA("ingot-lab-webhooks")
	if err != nil {
		return nil, err
	}
	serving, err := ca.server("webhooks", nil)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("save the webhook certificate: %w", err)
	}
	return ca.certPEM, serving.write(dir, "tls")
}

// repoint turns every service reference to one of the providers, in webhook
// configurations and in the conversion of custom resource definitions, into a
// URL on loopback. That none is found is an error: the managers would then run
// without their webhooks, unnoticed.
func (c *ControlPlane) repoint(ctx context.Context, all []provider, ca []byte) error {
	kube, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	extensions, err := apiextensionsclient.NewForConfig(c.config)
	if err != nil {
		return err
	}
	r := repointer{providers: all, ca: ca}
	for _, step := range []func(context.Context, kubernetes.Interface) (int, error){r.validating, r.mutating} {
		found, err := step(ctx, kube)
		if err != nil {
			return fmt.Errorf("repoint webhooks: %w", err)
		}
		if found == 0 {
			return fmt.Errorf("repoint webhooks: no configuration names a service of Cluster API")
		}
	}
	found, err := r.conversions(ctx, extensions)
	if err != nil {
		return fmt.Errorf("repoint conversions: %w", err)
	}
	if found == 0 {
		return fmt.Errorf("repoint conversions: no definition names a service of Cluster API")
	}
	return nil
}

type repointer struct {
	providers []provider
	ca        []byte
}

// admission changes a client configuration in place; false if it is not one of
// the providers'.
func (r repointer) admission(config *admissionv1.WebhookClientConfig) bool {
	if config.Service == nil {
		return false
	}
	url, ok := serviceURL(r.providers, config.Service.Namespace, config.Service.Name, config.Service.Path)
	if ok {
		*config = admissionv1.WebhookClientConfig{URL: &url, CABundle: r.ca}
	}
	return ok
}

func (r repointer) validating(ctx context.Context, kube kubernetes.Interface) (found int, err error) {
	client := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, item := range list.Items {
		before := found
		for i := range item.Webhooks {
			if r.admission(&item.Webhooks[i].ClientConfig) {
				found++
			}
		}
		if found == before {
			continue
		}
		if _, err := client.Update(ctx, &item, metav1.UpdateOptions{}); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (r repointer) mutating(ctx context.Context, kube kubernetes.Interface) (found int, err error) {
	client := kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, item := range list.Items {
		before := found
		for i := range item.Webhooks {
			if r.admission(&item.Webhooks[i].ClientConfig) {
				found++
			}
		}
		if found == before {
			continue
		}
		if _, err := client.Update(ctx, &item, metav1.UpdateOptions{}); err != nil {
			return found, err
		}
	}
	return found, nil
}

// conversion changes the conversion of one definition in place; false if it is
// not one of the providers'.
func (r repointer) conversion(crd *apiextensionsv1.CustomResourceDefinition) bool {
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil || conversion.Webhook.ClientConfig.Service == nil {
		return false
	}
	service := conversion.Webhook.ClientConfig.Service
	url, ok := serviceURL(r.providers, service.Namespace, service.Name, service.Path)
	if ok {
		conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: r.ca}
	}
	return ok
}

func (r repointer) conversions(ctx context.Context, extensions apiextensionsclient.Interface) (found int, err error) {
	client := extensions.ApiextensionsV1().CustomResourceDefinitions()
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		if !r.conversion(list.Items[i].DeepCopy()) {
			continue
		}
		// The API server itself writes the status of fresh definitions.
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			crd, err := client.Get(ctx, list.Items[i].Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			r.conversion(crd)
			_, err = client.Update(ctx, crd, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return found, err
		}
		found++
	}
	return found, nil
}

// scaleToZero tells the Deployments of the providers that no pod is wanted:
// their managers are children of this process.
func (c *ControlPlane) scaleToZero(ctx context.Context, all []provider) error {
	kube, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	for _, p := range all {
		client := kube.AppsV1().Deployments(p.namespace)
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list the Deployments of %s: %w", p.namespace, err)
		}
		for _, deployment := range list.Items {
			none := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: deployment.Name, Namespace: p.namespace}}
			if _, err := client.UpdateScale(ctx, deployment.Name, none, metav1.UpdateOptions{}); err != nil {
				return fmt.Errorf("scale Deployment %s/%s to zero: %w", p.namespace, deployment.Name, err)
			}
		}
	}
	return nil
}
