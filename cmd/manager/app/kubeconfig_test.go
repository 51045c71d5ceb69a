// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A tenant's kubeconfig cannot read the manager's files, run programs or set a proxy.
func TestPlainKubeconfigs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*clientcmdapi.Config)
		// says is part of the error; empty: it is used.
		says string
	}{
		{"as Cluster API writes it", func(*clientcmdapi.Config) {}, ""},
		{"a token", func(k *clientcmdapi.Config) { k.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"} }, ""},
		{"the manager's token", func(k *clientcmdapi.Config) {
			k.AuthInfos["u"].TokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		}, `user "u": tokenFile would read a file of the manager; use token with the content`},
		{"of a user that the context does not choose", func(k *clientcmdapi.Config) { k.AuthInfos["v"] = &clientcmdapi.AuthInfo{TokenFile: "f"} }, `user "v": tokenFile`},
		{"a certificate of the manager's", func(k *clientcmdapi.Config) { k.AuthInfos["u"].ClientCertificate = "f" }, "client-certificate-data"},
		{"a key of the manager's", func(k *clientcmdapi.Config) { k.AuthInfos["u"].ClientKey = "f" }, "client-key-data"},
		{"a CA of the manager's", func(k *clientcmdapi.Config) { k.Clusters["c"].CertificateAuthority = "f" }, "certificate-authority-data"},
		{"a proxy", func(k *clientcmdapi.Config) { k.Clusters["c"].ProxyURL = "http://192.0.2.1" }, "proxy-url"},
		{"a program", func(k *clientcmdapi.Config) {
			k.AuthInfos["u"].Exec = &clientcmdapi.ExecConfig{Command: "sh", APIVersion: "client.authentication.k8s.io/v1"}
		}, "exec is not supported"},
		{"a provider", func(k *clientcmdapi.Config) {
			k.AuthInfos["u"].AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"}
		}, "auth-provider"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := clientcmdapi.NewConfig()
			config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://192.0.2.1:6443", CertificateAuthorityData: []byte("ca")}
			config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("cert"), ClientKeyData: []byte("key")}
			config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
			config.CurrentContext = "x"
			c.change(config)
			content, err := clientcmd.Write(*config)
			if err != nil {
				t.Fatal(err)
			}
			wantRefused(t, readKubeconfig(t.Context(), content), c.says)
		})
	}
	t.Run("none, and its content is not told", func(t *testing.T) {
		err := readKubeconfig(t.Context(), []byte("clusters: hunter2"))
		wantRefused(t, err, "invalid format")
		if strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
	})
	t.Run("there is no Secret", func(t *testing.T) {
		_, err := kubeconfig.FromSecret(t.Context(), plainKubeconfigs{fake.NewClientBuilder().Build()}, client.ObjectKey{Namespace: "dc1", Name: "prod"})
		if client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("got %v, want not found", err)
		}
	})
}

// readKubeconfig reads a kubeconfig like ClusterCache.
func readKubeconfig(ctx context.Context, content []byte) error {
	stored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "dc1", Name: "prod-kubeconfig"}, Data: map[string][]byte{"value": content}}
	reader := plainKubeconfigs{fake.NewClientBuilder().WithObjects(stored).Build()}
	_, err := kubeconfig.FromSecret(ctx, reader, client.ObjectKey{Namespace: "dc1", Name: "prod"})
	return err
}

func wantRefused(t *testing.T, err error, says string) {
	t.Helper()
	if says == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if !errors.Is(err, errKubeconfig) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "dc1/prod-kubeconfig") {
		t.Errorf("got %v, want an error with %q", err, says)
	}
}
