// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ingot-metal/ingot/lab/pki"
)

// Server and client meet by files alone, as an API server and kubectl do.
func TestFilesServeMutualTLS(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.NewAuthority("lab")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := ca.Server("api", []string{"kubernetes"}, net.IPv4(10, 96, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := serving.Write(dir, "api"); err != nil {
		t.Fatal(err)
	}
	admin, err := ca.Client("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := pki.WriteKubeconfig(kubeconfig, "https://127.0.0.1:6443", ca, admin); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	user, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	server, err := tls.LoadX509KeyPair(filepath.Join(dir, "api.crt"), filepath.Join(dir, "api.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(config.CAData) || !roots.AppendCertsFromPEM(ca.CertificatePEM()) {
		t.Fatal("the authority is no certificate")
	}
	for _, name := range []string{"localhost", "127.0.0.1", "kubernetes", "10.96.0.1"} {
		subject := handshake(t,
			&tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert},
			&tls.Config{Certificates: []tls.Certificate{user}, RootCAs: roots, ServerName: name})
		if diff := cmp.Diff([]string{"admin", "system:masters"}, subject); diff != "" {
			t.Errorf("as %s (-want +got):\n%s", name, diff)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "api.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %v, %v", info.Mode(), err)
	}
}

// handshake returns user and groups as the server saw them.
func handshake(t *testing.T, server, client *tls.Config) []string {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	failed := make(chan error, 1)
	go func() { failed <- tls.Client(near, client).HandshakeContext(t.Context()) }()
	conn := tls.Server(far, server)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	subject := conn.ConnectionState().PeerCertificates[0].Subject
	return append([]string{subject.CommonName}, subject.Organization...)
}
