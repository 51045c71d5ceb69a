// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/test/site"
)

// operatorAddress is whence the test speaks to the cluster: a computer of its own
// in the servers' network.
var operatorAddress = netip.MustParsePrefix("10.77.0.60/24")

// A workloadCluster is the cluster as its administrator sees it.
type workloadCluster struct{ client client.Client }

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
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	check(t, err)
	stack, err := network.NewStack(s.world.DataCentre.Switch, network.StackConfig{Name: "operator", Address: operatorAddress})
	check(t, err)
	t.Cleanup(func() { _ = stack.Close() })
	config.Dial, config.Timeout = stack.DialContext, 20*time.Second
	// Without a mapper of its own it would ask before there is an API server.
	w := &lazyClient{new: func() (client.Client, error) {
		return client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	}}
	s.site.AwaitFor(t, patience, "an API server at the endpoint", w.connected)
	return &workloadCluster{client: w.made}
}

// A lazyClient is made when the API server answers.
type lazyClient struct {
	new  func() (client.Client, error)
	made client.Client
}

func (l *lazyClient) connected(ctx context.Context) (string, error) {
	made, err := l.new()
	if err != nil {
		return "an answer", err
	}
	if err := made.List(ctx, &corev1.NodeList{}); err != nil {
		return "an answer", err
	}
	l.made = made
	return "", nil
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

// imageOf is the name of an image that every node holds.
func (w *workloadCluster) imageOf(ctx context.Context, part string) (string, error) {
	nodes, err := w.nodes(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		for _, image := range n.Status.Images {
			for _, name := range image.Names {
				if strings.Contains(name, part) && !strings.Contains(name, "@") {
					return name, nil
				}
			}
		}
	}
	return "", fmt.Errorf("no node holds an image %s", part)
}
