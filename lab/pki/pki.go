// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

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

// A KeyPair is a certificate and its key, in memory and as PEM.
type KeyPair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// CertificatePEM returns the certificate, PEM.
func (k *KeyPair) CertificatePEM() []byte { return k.certPEM }

// NewAuthority makes a self-signed certificate authority.
func NewAuthority(name string) (*KeyPair, error) {
	return issue(nil, &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
}

// Server issues a serving certificate for loopback and the given extra names
// and addresses.
func (ca *KeyPair) Server(name string, dnsNames []string, ips ...net.IP) (*KeyPair, error) {
	return issue(ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    append([]string{"localhost"}, dnsNames...),
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1)}, ips...),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Client issues a client certificate: the API server takes the common name for
// the user and the organisations for its groups.
func (ca *KeyPair) Client(user string, groups ...string) (*KeyPair, error) {
	return issue(ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue completes the template with a new key, a serial number and dates and
// signs it by ca, or by itself if ca is nil.
func issue(ca *KeyPair, template *x509.Certificate) (*KeyPair, error) {
	fail := func(err error) (*KeyPair, error) {
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
	return &KeyPair{
		cert: cert, key: key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// Write saves <name>.crt and <name>.key in dir.
func (k *KeyPair) Write(dir, name string) error {
	for file, data := range map[string][]byte{name + ".crt": k.certPEM, name + ".key": k.keyPEM} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			return fmt.Errorf("save key pair: %w", err)
		}
	}
	return nil
}

// WriteKubeconfig writes a kubeconfig with everything embedded, so that the
// file alone is enough, in whatever shell.
func WriteKubeconfig(path, server string, ca, user *KeyPair) error {
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
