// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/test/site"
)

// A workloadCluster is the cluster as its administrator sees it.
type workloadCluster struct {
	// client reads what has been watched since it was asked for first.
	client client.Client
	// http speaks to the servers.
	http *http.Client
}

// connect waits for the kubeconfig, and makes a client of it.
func connect(t *testing.T, s *stage) *workloadCluster {
	t.Helper()
	secret := &corev1.Secret{}
	s.site.AwaitFor(t, patience, "a kubeconfig", func(ctx context.Context) (string, error) {
		key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.cluster.Name + "-kubeconfig"}
		err := s.site.Client.Get(ctx, key, secret)
		if apierrors.IsNotFound(err) {
			return "the Secret", nil
		}
		return "", err
	})
	s.write(t, "kubeconfig", secret.Data["value"])
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	check(t, err)
	config.Dial, config.Timeout = s.operator.DialContext, 20*time.Second
	s.site.AwaitFor(t, patience, "an API server at the endpoint", func(ctx context.Context) (string, error) {
		direct, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
		if err == nil {
			err = direct.List(ctx, &corev1.NodeList{})
		}
		if err != nil {
			return "an answer", err
		}
		return "", nil
	})
	cached, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme, Cache: &client.CacheOptions{Reader: s.watching(t, config)}})
	check(t, err)
	transport := &http.Transport{DialContext: s.operator.DialContext, DisableKeepAlives: true}
	return &workloadCluster{client: cached, http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
}

// watching is a cache until the whole test ends: an emulated API server has better things to do
// than to list its Nodes for every look.
func (s *stage) watching(t *testing.T, config *rest.Config) client.Reader {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Timeout = 0 // a watch lasts
	objects, err := cache.New(config, cache.Options{Scheme: clientgoscheme.Scheme})
	check(t, err)
	beside(s.whole, func(ctx context.Context) {
		if err := objects.Start(ctx); err != nil {
			s.whole.Errorf("cache of the cluster: %v", err)
		}
	})
	return objects
}

// apply creates the objects of a manifest that are not there.
func (w *workloadCluster) apply(ctx context.Context, manifest []byte) error {
	for _, document := range bytes.Split(manifest, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return err
		}
		if err := client.IgnoreAlreadyExists(w.client.Create(ctx, object)); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func (w *workloadCluster) nodes(ctx context.Context) ([]corev1.Node, error) {
	list := &corev1.NodeList{}
	err := w.client.List(ctx, list)
	return list.Items, err
}

func (w *workloadCluster) node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, w.client.Get(ctx, client.ObjectKey{Name: name}, node)
}

// ready says which Nodes are missing or not ready.
func (w *workloadCluster) ready(c *site.Cluster) site.Missing {
	return func(ctx context.Context) (string, error) {
		nodes, err := w.nodes(ctx)
		if err != nil {
			return "", err
		}
		if want := c.ControlPlanes + c.Workers; len(nodes) != want {
			return fmt.Sprintf("%d of %d Nodes", len(nodes), want), nil
		}
		for _, n := range nodes {
			if lack := notReady(n); lack != "" {
				return n.Name + ": " + lack, nil
			}
		}
		return "", nil
	}
}

// notReady says why a Node is not Ready; empty: it is.
func notReady(n corev1.Node) string {
	for _, condition := range n.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return ""
		}
		return condition.Message
	}
	return "it says nothing of itself"
}

// A fieldsEntry is what one manager wrote of an object.
type fieldsEntry metav1.ManagedFieldsEntry

// has says whether a field is among it, by its name there.
func (e fieldsEntry) has(field string) bool {
	return e.FieldsV1 != nil && strings.Contains(e.FieldsV1.String(), `"`+field+`"`)
}

// podsReady says which pod is not Ready.
func (w *workloadCluster) podsReady(ctx context.Context) (string, error) {
	list := &corev1.PodList{}
	if err := w.client.List(ctx, list); err != nil {
		return "", err
	}
	for _, p := range list.Items {
		ready := false
		for _, c := range p.Status.Conditions {
			ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		if !ready && p.DeletionTimestamp.IsZero() {
			return fmt.Sprintf("pod %s on %s is %s: %s", p.Name, p.Spec.NodeName, p.Status.Phase, waiting(p)), nil
		}
	}
	return "", nil
}

// waiting is what the first container of a pod waits for.
func waiting(p corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			return c.State.Waiting.Reason + " " + c.State.Waiting.Message
		}
	}
	return ""
}

// describe is what there is to know of a cluster in trouble.
func (w *workloadCluster) describe(ctx context.Context) string {
	var b strings.Builder
	nodes, err := w.nodes(ctx)
	fmt.Fprintf(&b, "Nodes (%v):\n", err)
	for _, n := range nodes {
		fmt.Fprintf(&b, "  %s %s %q: %s\n", n.Name, n.Status.NodeInfo.KubeletVersion, n.Spec.ProviderID, notReady(n))
	}
	list := &corev1.PodList{}
	fmt.Fprintf(&b, "pods (%v):\n", w.client.List(ctx, list))
	for _, p := range list.Items {
		fmt.Fprintf(&b, "  %s/%s on %s %s %s\n", p.Namespace, p.Name, p.Spec.NodeName, p.Status.Phase, waiting(p))
	}
	return b.String()
}

// get reads a page of a server.
func (w *workloadCluster) get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := w.http.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	return string(body), err
}

// coreDNSTag is the one of the image of a node.
func coreDNSTag(t *testing.T, version string) string {
	t.Helper()
	names, err := os.ReadFile(filepath.Join(filepath.Dir(disk(t, version)), "images.txt"))
	check(t, err)
	for _, name := range strings.Fields(string(names)) {
		if _, tag, found := strings.Cut(name, "/coredns:"); found {
			return tag
		}
	}
	t.Fatalf("no CoreDNS in the image: %s", names)
	return ""
}
