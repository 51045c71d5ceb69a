// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	controlPlaneRole = "node-role.kubernetes.io/control-plane"
	mirrorAnnotation = "kubernetes.io/config.mirror"
	// registry of kubeadm's images.
	registry = "registry.k8s.io"
)

// Arguments of the kubelet that affect the Node.
const (
	argProviderID = "provider-id"
	argLabels     = "node-labels"
	argTaints     = "register-with-taints"
)

// checkName refuses the name of a node that is Ready, like kubeadm.
func (m *machine) checkName(ctx context.Context) error {
	node := &corev1.Node{}
	err := m.cluster.client.Get(ctx, client.ObjectKey{Name: m.node}, node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return fmt.Errorf("a Ready node with the name %s exists", m.node)
		}
	}
	return nil
}

// register creates the Node, or keeps an existing one.
func (m *machine) register(ctx context.Context) error {
	args := m.config.NodeRegistration.KubeletExtraArgs
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node, Labels: map[string]string{
		corev1.LabelHostname: m.node, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}}}
	for _, label := range strings.FieldsFunc(args[argLabels], func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(label, "=")
		node.Labels[key] = value
	}
	if m.controlPlane {
		node.Labels[controlPlaneRole] = ""
	}
	node.Spec = corev1.NodeSpec{ProviderID: args[argProviderID], Taints: m.taints()}
	return create(ctx, m.cluster.client, node)
}

// taints returns the taints of the registration: kubeadm's, and those of the kubelet's arguments
// (key=value:effect).
func (m *machine) taints() []corev1.Taint {
	var taints []corev1.Taint
	if given := m.config.NodeRegistration.Taints; given != nil {
		taints = slices.Clone(*given)
	} else if m.controlPlane {
		taints = append(taints, corev1.Taint{Key: controlPlaneRole, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, text := range strings.FieldsFunc(m.config.NodeRegistration.KubeletExtraArgs[argTaints], func(r rune) bool { return r == ',' }) {
		name, effect, _ := strings.Cut(text, ":")
		key, value, _ := strings.Cut(name, "=")
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints
}

// report writes the state of the node and its pods: the kubelet's report while the power is on, and
// the node controller's afterwards.
func (m *machine) report(ctx context.Context, on bool) error {
	if on {
		// A starting kubelet registers again if its Node is missing.
		if err := m.register(ctx); err != nil {
			return err
		}
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	if !on {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node}}
	err := m.cluster.change(ctx, node, func() {
		if on {
			m.describe(node)
		}
		setConditions(node, ready, on)
	})
	if apierrors.IsNotFound(err) {
		return nil // deleted with its Machine
	}
	return errors.Join(err, m.podsReady(ctx, on))
}

// heartbeat is the kubelet's report without a change. The lock is held.
func (m *machine) heartbeat(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node}}
	err := m.cluster.change(ctx, node, func() {
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(time.Now().Truncate(time.Second))
		}
	})
	if apierrors.IsNotFound(err) {
		return nil // deleted with its Machine
	}
	return err
}

// describe sets the values that the kubelet reports.
func (m *machine) describe(node *corev1.Node) {
	node.Status.NodeInfo = corev1.NodeSystemInfo{
		BootID: m.bootID, SystemUUID: m.os.UUID, MachineID: strings.ReplaceAll(m.os.UUID, "-", ""),
		KubeletVersion: m.version, OSImage: "Ingot Lab", OperatingSystem: "linux", Architecture: "amd64",
		ContainerRuntimeVersion: "containerd://2.0.0",
	}
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: m.os.Address.String()}, {Type: corev1.NodeHostName, Address: m.node},
	}
}

// setConditions sets Ready and the pressure conditions.
func setConditions(node *corev1.Node, ready corev1.NodeCondition, on bool) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	all := []corev1.NodeCondition{ready}
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		c := corev1.NodeCondition{Type: pressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficient"}
		if !on {
			c.Status, c.Reason = corev1.ConditionUnknown, ready.Reason
		}
		all = append(all, c)
	}
	for i := range all {
		all[i].LastHeartbeatTime, all[i].LastTransitionTime = now, now
		for _, before := range node.Status.Conditions {
			if before.Type == all[i].Type && before.Status == all[i].Status {
				all[i].LastTransitionTime = before.LastTransitionTime
			}
		}
	}
	node.Status.Conditions = all
}

// staticPods creates the static pods of a control plane.
func (m *machine) staticPods(ctx context.Context) error {
	etcd := map[string]string{
		cloudv1.EtcdClusterIDAnnotationName: m.cluster.etcdID, cloudv1.EtcdMemberIDAnnotationName: randomID(),
	}
	for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem, Name: component + "-" + m.node,
				Labels:      map[string]string{"component": component, "tier": "control-plane"},
				Annotations: map[string]string{mirrorAnnotation: "lab"},
			},
			Spec: corev1.PodSpec{
				NodeName: m.node, HostNetwork: true,
				Containers: []corev1.Container{{Name: component, Image: registry + "/" + component + ":" + m.version}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, HostIP: m.os.Address.String(), PodIP: m.os.Address.String()},
		}
		if component == "etcd" {
			maps.Copy(pod.Annotations, etcd)
		}
		// A node that returns with the same name has new pods.
		if err := m.cluster.client.Delete(ctx, pod); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err) {
			return err
		}
		if err := create(ctx, m.cluster.client, pod); err != nil {
			return err
		}
	}
	return nil
}

// podsReady sets the readiness of all pods of the node.
func (m *machine) podsReady(ctx context.Context, on bool) error {
	status := corev1.ConditionFalse
	if on {
		status = corev1.ConditionTrue
	}
	pods := &corev1.PodList{}
	if err := m.cluster.list(ctx, pods); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != m.node {
			continue
		}
		err := m.cluster.change(ctx, pod, func() {
			pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodReady, Status: status}, {Type: corev1.ContainersReady, Status: status},
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
			}
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// create creates an object unless it exists.
func create(ctx context.Context, c inmemoryruntime.Client, obj client.Object) error {
	if err := c.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}

// watchNodes deletes the pods of deleted nodes, like the pod garbage collector of Kubernetes.
func (p *Plane) watchNodes(ctx context.Context) error {
	informer, err := p.manager.GetCache().GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return err
	}
	if err := informer.AddEventHandler(nodeGone(p.orphans)); err != nil {
		return err
	}
	p.tasks.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.orphans:
				_ = p.collect(ctx) // the next run deletes the rest
			}
		}
	})
	return nil
}

// nodeGone wakes up the collector. It is called with the cache's lock held.
type nodeGone chan struct{}

func (n nodeGone) OnDelete(string, client.Object) {
	select {
	case n <- struct{}{}:
	default:
	}
}

func (nodeGone) OnCreate(string, client.Object)                {}
func (nodeGone) OnUpdate(string, client.Object, client.Object) {}
func (nodeGone) OnGeneric(string, client.Object)               {}

// collect deletes pods without a node.
func (p *Plane) collect(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, e := range p.endpoints {
		if e.cluster != nil {
			errs = append(errs, e.cluster.collect(ctx), e.cluster.settle(ctx, e))
		}
	}
	return errors.Join(errs...)
}

func (c *cluster) collect(ctx context.Context) error {
	nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
	if err := errors.Join(c.list(ctx, nodes), c.list(ctx, pods)); err != nil {
		return err
	}
	for i := range pods.Items {
		name := pods.Items[i].Spec.NodeName
		exists := slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == name && n.DeletionTimestamp.IsZero() })
		if name == "" || exists {
			continue
		}
		if err := c.client.Delete(ctx, &pods.Items[i]); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
