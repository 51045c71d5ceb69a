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

// errKubeconfig: a kubeconfig Secret is not used for what it holds.
var errKubeconfig = errors.New("kubeconfig refused")

// plainKubeconfigs reads the Secrets by which workload clusters are reached, and refuses
// kubeconfigs that have this process open a file, start a program or use a proxy. Who
// may write such a Secret is a tenant, who chooses the server as well: the token of the
// manager's ServiceAccount, named as a file, would be sent there.
type plainKubeconfigs struct{ client.Reader }

// Get is the Reader's, with an error that wraps errKubeconfig and names what to change
// for a kubeconfig that is refused.
func (r plainKubeconfigs) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := r.Reader.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	found, ok := obj.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("%w: %T %s is read, not a Secret", errKubeconfig, obj, key)
	}
	if err := plainKubeconfig(found.Data[secret.KubeconfigDataName]); err != nil {
		return fmt.Errorf("%w: Secret %s, key %s: %w", errKubeconfig, key, secret.KubeconfigDataName, err)
	}
	return nil
}

// plainKubeconfig checks all entries, whichever the current context chooses. What the
// parser says is not repeated: it may quote the content.
func plainKubeconfig(content []byte) error {
	config, err := clientcmd.Load(content)
	if err != nil {
		return errors.New("it does not parse as a kubeconfig")
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
		return namesFile("certificate-authority", "certificate-authority-data")
	case cluster.ProxyURL != "":
		return errors.New("proxy-url is not followed: set HTTPS_PROXY for the manager if it needs a proxy")
	}
	return nil
}

func plainUser(user *clientcmdapi.AuthInfo) error {
	switch {
	case user.TokenFile != "":
		return namesFile("tokenFile", "token")
	case user.ClientCertificate != "":
		return namesFile("client-certificate", "client-certificate-data")
	case user.ClientKey != "":
		return namesFile("client-key", "client-key-data")
	case user.Exec != nil:
		return errors.New("exec is not run: write token, or client-certificate-data and client-key-data")
	case user.AuthProvider != nil:
		return errors.New("auth-provider is not supported: write token, or client-certificate-data and client-key-data")
	}
	return nil
}

func namesFile(key, instead string) error {
	return fmt.Errorf("%s names a file, and would be one of the manager's: write the content as %s", key, instead)
}
