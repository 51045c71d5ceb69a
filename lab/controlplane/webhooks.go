// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/ingot-metal/ingot/lab/pki"
)

// A WebhookService is a service that webhook configurations name, and the port
// of this machine where its webhook server listens instead.
type WebhookService struct {
	Namespace, Name string
	Port            int
}

// WebhookCertificates returns the directory with tls.crt and tls.key, the
// serving certificate of loopback which every webhook server here uses.
func (c *ControlPlane) WebhookCertificates() string {
	return filepath.Join(c.dir, "webhook-certificates")
}

// writeWebhookCertificates makes them, and keeps the authority to be trusted.
func (c *ControlPlane) writeWebhookCertificates() error {
	ca, err := pki.NewAuthority("ingot-lab-webhooks")
	if err != nil {
		return err
	}
	serving, err := ca.Server("webhooks", nil)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.WebhookCertificates(), 0o700); err != nil {
		return fmt.Errorf("save the webhook certificate: %w", err)
	}
	c.webhookCA = ca.CertificatePEM()
	return serving.Write(c.WebhookCertificates(), "tls") // controller-runtime's names
}

// RepointWebhooks turns every reference to one of the services, in webhook
// configurations and in the conversion of custom resource definitions, into a
// URL on loopback, to be served with the certificate of WebhookCertificates. A
// service that nothing names is an error: its server would go unasked and
// nobody would notice.
func (c *ControlPlane) RepointWebhooks(ctx context.Context, services ...WebhookService) error {
	kube, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	extensions, err := apiextensionsclient.NewForConfig(c.config)
	if err != nil {
		return err
	}
	r := repointer{services: services, ca: c.webhookCA, found: map[string]int{}}
	if err := r.validating(ctx, kube); err != nil {
		return fmt.Errorf("repoint validating webhooks: %w", err)
	}
	if err := r.mutating(ctx, kube); err != nil {
		return fmt.Errorf("repoint mutating webhooks: %w", err)
	}
	if err := r.conversions(ctx, extensions); err != nil {
		return fmt.Errorf("repoint conversions: %w", err)
	}
	for _, s := range services {
		if r.found[s.Namespace+"/"+s.Name] == 0 {
			return fmt.Errorf("repoint webhooks: nothing names service %s/%s", s.Namespace, s.Name)
		}
	}
	return nil
}

type repointer struct {
	services []WebhookService
	ca       []byte
	found    map[string]int // references by namespace/name
}

// url returns where the webhook that a service reference means is found here;
// false if the reference is to another service.
func (r repointer) url(namespace, name string, path *string) (string, bool) {
	for _, s := range r.services {
		if s.Namespace != namespace || s.Name != name {
			continue
		}
		r.found[namespace+"/"+name]++
		url := "https://" + loopback(s.Port)
		if path != nil {
			url += *path
		}
		return url, true
	}
	return "", false
}

// admission changes a client configuration in place; false if it is for
// another service.
func (r repointer) admission(config *admissionv1.WebhookClientConfig) bool {
	if config.Service == nil {
		return false
	}
	url, ok := r.url(config.Service.Namespace, config.Service.Name, config.Service.Path)
	if ok {
		*config = admissionv1.WebhookClientConfig{URL: &url, CABundle: r.ca}
	}
	return ok
}

func (r repointer) validating(ctx context.Context, kube kubernetes.Interface) error {
	client := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range list.Items {
		changed := false
		for i := range item.Webhooks {
			changed = r.admission(&item.Webhooks[i].ClientConfig) || changed
		}
		if !changed {
			continue
		}
		if _, err := client.Update(ctx, &item, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (r repointer) mutating(ctx context.Context, kube kubernetes.Interface) error {
	client := kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range list.Items {
		changed := false
		for i := range item.Webhooks {
			changed = r.admission(&item.Webhooks[i].ClientConfig) || changed
		}
		if !changed {
			continue
		}
		if _, err := client.Update(ctx, &item, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// conversion changes the conversion of one definition in place; false if it is
// for another service.
func (r repointer) conversion(crd *apiextensionsv1.CustomResourceDefinition) bool {
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil || conversion.Webhook.ClientConfig.Service == nil {
		return false
	}
	service := conversion.Webhook.ClientConfig.Service
	url, ok := r.url(service.Namespace, service.Name, service.Path)
	if ok {
		conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: r.ca}
	}
	return ok
}

func (r repointer) conversions(ctx context.Context, extensions apiextensionsclient.Interface) error {
	client := extensions.ApiextensionsV1().CustomResourceDefinitions()
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if !r.conversion(&list.Items[i]) {
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
			return err
		}
	}
	return nil
}

// ScaleToZero tells the Deployments in namespaces that no pod is wanted: what they
// would run are processes of this machine.
func (c *ControlPlane) ScaleToZero(ctx context.Context, namespaces ...string) error {
	kube, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		client := kube.AppsV1().Deployments(namespace)
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list the Deployments of %s: %w", namespace, err)
		}
		for _, deployment := range list.Items {
			none := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: deployment.Name, Namespace: namespace}}
			if _, err := client.UpdateScale(ctx, deployment.Name, none, metav1.UpdateOptions{}); err != nil {
				return fmt.Errorf("scale Deployment %s/%s to zero: %w", namespace, deployment.Name, err)
			}
		}
	}
	return nil
}
