// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// coreDNSVersion is kubeadm's default version.
const coreDNSVersion = "v1.12.1"

// upload creates the other objects of kubeadm init besides nodes and pods.
func (m *machine) upload(ctx context.Context) error {
	objects := []client.Object{
		namespace(metav1.NamespaceSystem), namespace(metav1.NamespacePublic), namespace(metav1.NamespaceDefault),
		&corev1.ConfigMap{
			ObjectMeta: system("kubeadm-config"),
			Data:       map[string]string{"ClusterConfiguration": m.config.clusterConfiguration},
		},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:get-nodes"},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
		},
		bind("kubeadm:get-nodes", "kubeadm:get-nodes", "system:bootstrappers:kubeadm:default-node-token"),
		bind("kubeadm:cluster-admins", "cluster-admin", "kubeadm:cluster-admins"),
		bind("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", "system:bootstrappers:kubeadm:default-node-token"),
	}
	if !m.config.skips("addon/kube-proxy") {
		objects = append(objects, &appsv1.DaemonSet{
			ObjectMeta: system("kube-proxy"),
			Spec:       appsv1.DaemonSetSpec{Selector: selector("kube-proxy"), Template: template("kube-proxy", registry+"/kube-proxy:"+strings.ReplaceAll(m.version, "+", "_"))},
		})
	}
	if !m.config.skips("addon/coredns") {
		objects = append(objects,
			&corev1.ConfigMap{ObjectMeta: system("coredns"), Data: map[string]string{"Corefile": ".:53 {\n    errors\n    kubernetes cluster.local in-addr.arpa ip6.arpa\n    forward . /etc/resolv.conf\n}\n"}},
			&appsv1.Deployment{
				ObjectMeta: system("coredns"),
				Spec:       appsv1.DeploymentSpec{Selector: selector("kube-dns"), Template: template("coredns", registry+"/coredns/coredns:"+coreDNSVersion)},
			})
	}
	for _, obj := range objects {
		if err := create(ctx, m.cluster.client, obj); err != nil {
			return err
		}
	}
	return nil
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func system(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
}

// bind binds a role to a group.
func bind(name, role, group string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": app}}
}

func template(name, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image}}}}
}
