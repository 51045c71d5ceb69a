// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cluster is a control plane from kubeadm init on. The plane's lock guards it, except for its
// objects, which have their own.
type cluster struct {
	// group names its objects.
	group   string
	client  inmemoryruntime.Client
	scheme  *runtime.Scheme
	ca      *authority
	etcdCA  *authority
	serving *tls.Certificate
	// version is the Kubernetes version of kubeadm init.
	version string
	// etcdID identifies the etcd cluster.
	etcdID string
	// members by the name of their etcd pod.
	members map[string]*member
}

// member is a control plane node: API server and etcd.
type member struct {
	etcd *tls.Certificate
	up   bool
}

const etcdPrefix = "etcd-"

// newCluster starts kubeadm init. The lock is held.
func (p *Plane) newCluster(e *endpoint, config *kubeadmConfig, k *keys, version string) error {
	if e.cluster != nil {
		if e.cluster.serves() {
			return fmt.Errorf("a control plane serves at %s already", e.address)
		}
		// The old etcd has permanently lost its majority, so the new cluster replaces it.
		p.manager.DeleteResourceGroup(e.cluster.group)
	}
	host, _, err := net.SplitHostPort(e.address)
	if err != nil {
		return err
	}
	serving, err := k.ca.serve("kube-apiserver", append([]string{host, "localhost", "127.0.0.1", "kubernetes"}, config.APIServer.CertSANs...)...)
	if err != nil {
		return err
	}
	p.clusters++
	c := &cluster{
		group: fmt.Sprintf("%s#%d", e.address, p.clusters), scheme: p.manager.GetScheme(), ca: k.ca, etcdCA: k.etcdCA, serving: serving,
		version: version, etcdID: randomID(), members: map[string]*member{},
	}
	p.manager.AddResourceGroup(c.group)
	c.client = p.manager.GetResourceGroup(c.group).GetClient()
	e.cluster = c
	return nil
}

// randomID returns an etcd ID as text. It fits into the signed numbers of the in-memory etcd.
func randomID() string { return strconv.FormatUint(uint64(rand.Uint32())+1, 10) }

// serves reports whether the API answers: a majority of the etcd members, each with an API server,
// runs.
func (c *cluster) serves() bool {
	up := 0
	for _, m := range c.members {
		if m.up {
			up++
		}
	}
	return 2*up > len(c.members)
}

// addMember adds the etcd member of a control plane node. The lock is held.
func (c *cluster) addMember(e *endpoint, node string) error {
	host, _, err := net.SplitHostPort(e.address)
	if err != nil {
		return err
	}
	pod := etcdPrefix + node
	cert, err := c.etcdCA.serve(pod, pod, node, "localhost", host)
	if err != nil {
		return err
	}
	c.members[pod] = &member{etcd: cert}
	return nil
}

// etcdPods returns the pods of the current members.
func (c *cluster) etcdPods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.list(ctx, list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": "etcd"}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		_, removed := pod.Annotations[cloudv1.EtcdMemberRemoved]
		return removed
	}), nil
}

// settle updates the leader, the members and the endpoint after a change of members. The lock is held.
func (c *cluster) settle(ctx context.Context, e *endpoint) error {
	pods, err := c.etcdPods(ctx)
	if err != nil {
		return err
	}
	for name := range c.members {
		if !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Name == name }) {
			delete(c.members, name)
		}
	}
	if c.serves() {
		if err := c.elect(ctx, pods); err != nil {
			return err
		}
	}
	e.listener.set(c.serves())
	return nil
}

// elect makes a running member the leader if the current leader does not run. The member with the
// latest time, in whole seconds, is the leader.
func (c *cluster) elect(ctx context.Context, pods []corev1.Pod) error {
	var leader, candidate *corev1.Pod
	var since time.Time
	for i := range pods {
		m := c.members[pods[i].Name]
		if m != nil && m.up && candidate == nil {
			candidate = &pods[i]
		}
		at, err := time.Parse(time.RFC3339, pods[i].Annotations[cloudv1.EtcdLeaderFromAnnotationName])
		if err == nil && at.After(since) {
			leader, since = &pods[i], at
		}
	}
	if candidate == nil || leader != nil && c.members[leader.Name] != nil && c.members[leader.Name].up {
		return nil
	}
	from := time.Now()
	if !from.Truncate(time.Second).After(since) {
		from = since.Add(time.Second)
	}
	return c.change(ctx, candidate, func() {
		candidate.Annotations[cloudv1.EtcdLeaderFromAnnotationName] = from.Format(time.RFC3339)
	})
}

// change reads an object, changes it and writes it, with retries after conflicts.
func (c *cluster) change(ctx context.Context, obj client.Object, how func()) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		how()
		return c.client.Update(ctx, obj)
	})
}

// admits checks the bootstrap token and the expected authority of a joining node (kubeadm's token
// discovery).
func (c *cluster) admits(ctx context.Context, config *kubeadmConfig) error {
	given := config.Discovery.BootstrapToken
	id, secret, ok := strings.Cut(given.Token, ".")
	if !ok {
		return fmt.Errorf("%w: a join without a bootstrap token is not supported", errFinal)
	}
	stored := &corev1.Secret{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}, stored)
	if apierrors.IsNotFound(err) {
		return errors.New("the bootstrap token does not exist")
	}
	if err != nil {
		return err
	}
	if string(stored.Data["token-secret"]) != secret {
		return errors.New("the bootstrap token is wrong")
	}
	if until := string(stored.Data["expiration"]); until != "" {
		at, err := time.Parse(time.RFC3339, until)
		if err != nil || time.Now().After(at) {
			return fmt.Errorf("the bootstrap token expired at %s", until)
		}
	}
	sum := sha256.Sum256(c.ca.cert.RawSubjectPublicKeyInfo)
	pin := "sha256:" + hex.EncodeToString(sum[:])
	if len(given.CACertHashes) > 0 && !slices.Contains(given.CACertHashes, pin) {
		return fmt.Errorf("%w: the cluster's authority does not match caCertHashes", errFinal)
	}
	return nil
}
