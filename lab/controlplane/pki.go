// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// validity of everything issued here: longer than a lab is kept running.
const validity = 30 * 24 * time.Hour

// A keyPair is a certificate and its key, in memory and as PEM.
type keyPair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// newCA makes a self-signed certificate authority.
func newCA(name string) (*keyPair, error) {
	return issue(nil, &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
}

// server issues a serving certificate for loopback and the given extra names
// and addresses.
func (ca *keyPair) server(name string, dnsNames []string, ips ...net.IP) (*keyPair, error) {
	return issue(ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    append([]string{"localhost"}, dnsNames...),
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1)}, ips...),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// client issues a client certificate: the API server takes the common name for
// the user and the organisations for its groups.
func (ca *keyPair) client(user string, groups ...string) (*keyPair, error) {
	return issue(ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue completes the template with a new key, a serial number and dates and
// signs it by ca, or by itself if ca is nil.
func issue(ca *keyPair, template *x509.Certificate) (*keyPair, error) {
	fail := func(err error) (*keyPair, error) {
		return nil, fmt.Errorf("issue certificate %q: %w", template.Subject.CommonName, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fail(err)
	}
	template.NotBefore = time.Now().Add(-time.Hour) // clocks of guests differ a little
	template.NotAfter = time.Now().Add(validity)
	parent, signer := template, key
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return fail(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return fail(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fail(err)
	}
	return &keyPair{
		cert: cert, key: key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// write saves <name>.crt and <name>.key in dir.
func (k *keyPair) write(dir, name string) error {
	for file, data := range map[string][]byte{name + ".crt": k.certPEM, name + ".key": k.keyPEM} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			return fmt.Errorf("save key pair: %w", err)
		}
	}
	return nil
}

// writePKI makes the keys of a control plane in dir/pki and the kubeconfigs of
// the administrator and the controller manager in dir. serviceIP is the first
// address of the service range, by which pods would reach the API server.
func writePKI(dir, server string, serviceIP net.IP) error {
	pki := filepath.Join(dir, "pki")
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return fmt.Errorf("make the key directory: %w", err)
	}
	ca, err := newCA("ingot-lab")
	if err != nil {
		return err
	}
	apiserver, err := ca.server("kube-apiserver", []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"}, serviceIP)
	if err != nil {
		return err
	}
	serviceAccounts, err := newCA("service-accounts") // only its key is used
	if err != nil {
		return err
	}
	for name, pair := range map[string]*keyPair{"ca": ca, "apiserver": apiserver, "service-accounts": serviceAccounts} {
		if err := pair.write(pki, name); err != nil {
			return err
		}
	}
	// The group system:masters is let through by the API server itself, so no
	// role binding has to exist first.
	admin, err := ca.client("ingot-lab-admin", "system:masters")
	if err != nil {
		return err
	}
	manager, err := ca.client("system:kube-controller-manager")
	if err != nil {
		return err
	}
	if err := writeKubeconfig(filepath.Join(dir, kubeconfigFile), server, ca, admin); err != nil {
		return err
	}
	return writeKubeconfig(filepath.Join(dir, managerKubeconfigFile), server, ca, manager)
}

// writeKubeconfig writes a kubeconfig with everything embedded, so that the
// file alone is enough, in whatever shell.
func writeKubeconfig(path, server string, ca, user *keyPair) error {
	const name = "ingot-lab"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca.certPEM}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: user.certPEM, ClientKeyData: user.keyPEM}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}
