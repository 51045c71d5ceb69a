// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errKubeconfig is returned for an unsafe kubeconfig.
var errKubeconfig = errors.New("unsafe kubeconfig")

// plainKubeconfigs reads the kubeconfig Secrets of workload clusters, and rejects kubeconfigs that
// make this process open a file, start a program or use a proxy. A tenant can write the Secret and
// choose the server, and would otherwise receive the manager's ServiceAccount token, given as a file.
type plainKubeconfigs struct{ client.Reader }

// Get implements client.Reader. Its error for an unsafe kubeconfig wraps errKubeconfig and contains
// the remedy.
func (r plainKubeconfigs) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := r.Reader.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	found, ok := obj.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("%w: %s is a %T instead of a Secret", errKubeconfig, key, obj)
	}
	if err := plainKubeconfig(found.Data[secret.KubeconfigDataName]); err != nil {
		return fmt.Errorf("%w: Secret %s, key %s: %w", errKubeconfig, key, secret.KubeconfigDataName, err)
	}
	return nil
}

// plainKubeconfig checks all entries, not only those of the current context. Its errors do not
// contain the parser's error, which may quote the content.
func plainKubeconfig(content []byte) error {
	config, err := clientcmd.Load(content)
	if err != nil {
		return errors.New("parse the content as a kubeconfig: invalid format")
	}
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		if err := plainCluster(config.Clusters[name]); err != nil {
			return fmt.Errorf("cluster %q: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		if err := plainUser(config.AuthInfos[name]); err != nil {
			return fmt.Errorf("user %q: %w", name, err)
		}
	}
	return nil
}

func plainCluster(cluster *clientcmdapi.Cluster) error {
	switch {
	case cluster.CertificateAuthority != "":
		return fileError("certificate-authority", "certificate-authority-data")
	case cluster.ProxyURL != "":
		return errors.New("proxy-url is not supported; set HTTPS_PROXY for the manager if it needs a proxy")
	}
	return nil
}

func plainUser(user *clientcmdapi.AuthInfo) error {
	switch {
	case user.TokenFile != "":
		return fileError("tokenFile", "token")
	case user.ClientCertificate != "":
		return fileError("client-certificate", "client-certificate-data")
	case user.ClientKey != "":
		return fileError("client-key", "client-key-data")
	case user.Exec != nil:
		return errors.New("exec is not supported; use token, or client-certificate-data and client-key-data")
	case user.AuthProvider != nil:
		return errors.New("auth-provider is not supported; use token, or client-certificate-data and client-key-data")
	}
	return nil
}

func fileError(key, instead string) error {
	return fmt.Errorf("%s would read a file of the manager; use %s with the content", key, instead)
}
