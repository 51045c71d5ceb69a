// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"time"
)

// validity of the issued certificates.
const validity = 365 * 24 * time.Hour

// authority signs certificates with the cluster's keys, like kubeadm.
type authority struct {
	cert *x509.Certificate
	key  crypto.PrivateKey
	pool *x509.CertPool
}

// newAuthority parses certificate and key from PEM.
func newAuthority(certificate, key []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("certificate %q is not a CA certificate", cert.Subject.CommonName)
	}
	a := &authority{cert: cert, key: pair.PrivateKey, pool: x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a, nil
}

// equal reports whether two authorities have the same certificate.
func (a *authority) equal(other *authority) bool { return bytes.Equal(a.cert.Raw, other.cert.Raw) }

// serve issues a serving certificate for names and addresses.
func (a *authority) serve(name string, hosts ...string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, SerialNumber: serial,
		NotBefore: a.cert.NotBefore, NotAfter: time.Now().Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate %q: %w", name, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key}, nil
}

// tlsConfig returns the configuration of the etcd member with the requested name of its pod, or of the
// API server. Clients need a certificate of the same authority.
func (c *cluster) tlsConfig(name string) (*tls.Config, error) {
	cert, clients := c.serving, c.ca.pool
	if m := c.members[name]; m != nil {
		if !m.up {
			return nil, errors.New("etcd member does not run")
		}
		cert, clients = m.etcd, c.etcdCA.pool
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{*cert},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}, nil
}

// quietLog drops the handshake errors of net/http: clients often connect too early.
func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }
