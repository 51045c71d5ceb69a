// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/trust"
)

// timeout bounds connections that would otherwise hang.
const timeout = 30 * time.Second

// certified is a certificate, its key, and its PEM form.
type certified struct {
	tls.Certificate
	pem []byte
}

func (c certified) fingerprint() string { return bmc.CertificateFingerprint(c.Leaf) }

// sign creates a certificate for a host that is valid from a day ago until tomorrow. A nil
// by makes it self-signed.
func sign(t *testing.T, host string, by *certified, change func(*x509.Certificate)) certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: by == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	if change != nil {
		change(template)
	}
	parent, parentKey := template, any(key)
	if by != nil {
		parent, parentKey = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certified{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// server accepts handshakes on loopback until the test ends, and sends to sent the data that
// each connection receives after its handshake.
func server(t *testing.T, certificate certified, sent chan<- string) (address string) {
	t.Helper()
	return serverOf(t, &tls.Config{Certificates: []tls.Certificate{certificate.Certificate}}, sent)
}

func serverOf(t *testing.T, cfg *tls.Config, sent chan<- string) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(timeout))
			_, _ = conn.Write([]byte("hello")) // carries the session ticket of TLS 1.3 with it
			got, _ := io.ReadAll(conn)
			_ = conn.Close()
			sent <- string(got)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}

// shake makes one handshake.
func shake(t *testing.T, address string, cfg *tls.Config) (resumed bool, _ error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.ReadFull(conn, make([]byte, len("hello"))); err != nil {
		return false, err
	}
	secure, ok := conn.(*tls.Conn)
	if !ok {
		t.Fatalf("%T", conn)
	}
	return secure.ConnectionState().DidResume, nil
}

// TestConfig shows that a pin replaces the checks of chain, name and dates, and that the
// problems of certificates without a pin are distinguished.
func TestConfig(t *testing.T) {
	const here = "127.0.0.1"
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }
	future := func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }
	ca := sign(t, "ca", nil, nil)
	good, self := sign(t, here, &ca, nil), sign(t, "elsewhere", nil, expired)
	byCA := bmc.Target{CABundle: ca.pem}
	for name, tc := range map[string]struct {
		presents certified
		target   bmc.Target
		want     bmc.CertificateProblem // "": trusted
		text     string
	}{
		"signed by the CA":               {good, byCA, "", ""},
		"the system's authorities":       {good, bmc.Target{}, bmc.CertificateUnknownCA, "authority"},
		"another CA":                     {good, bmc.Target{CABundle: self.pem}, bmc.CertificateUnknownCA, "authority"},
		"another name":                   {sign(t, "bmc-7.example", &ca, nil), byCA, bmc.CertificateWrongName, `"127.0.0.1"`},
		"another address":                {sign(t, "10.0.0.7", &ca, nil), byCA, bmc.CertificateWrongName, `"127.0.0.1"`},
		"expired":                        {sign(t, here, &ca, expired), byCA, bmc.CertificateExpired, "expired at"},
		"not yet valid":                  {sign(t, here, &ca, future), byCA, bmc.CertificateNotYetValid, "clock"},
		"for clients only":               {sign(t, here, &ca, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), byCA, bmc.CertificateUnusable, "usage"},
		"unverified":                     {self, bmc.Target{InsecureSkipVerify: true}, "", ""},
		"pinned, another name, expired":  {self, bmc.Target{Fingerprint: self.fingerprint()}, "", ""},
		"not the pinned one":             {self, bmc.Target{Fingerprint: good.fingerprint()}, bmc.CertificateNotPinned, good.fingerprint()},
		"signed by the CA, not pinned":   {good, bmc.Target{Fingerprint: self.fingerprint(), CABundle: ca.pem}, bmc.CertificateNotPinned, ""},
		"unverified, not the pinned one": {good, bmc.Target{Fingerprint: self.fingerprint(), InsecureSkipVerify: true}, bmc.CertificateNotPinned, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan string, 1)
			address := server(t, tc.presents, sent)
			cfg, err := trust.Config(tc.target, here)
			if err != nil {
				t.Fatal(err)
			}
			_, err = shake(t, address, cfg)
			<-sent
			if tc.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			got := trust.Explain(err)
			if got == nil || got.Problem != tc.want || got.Presented != tc.presents.fingerprint() {
				t.Fatalf("Explain(%v) = %+v, want %s of %s", err, got, tc.want, tc.presents.fingerprint())
			}
			if !errors.Is(got, bmc.ErrCertificate) || !strings.Contains(got.Error(), tc.text) || !strings.Contains(got.Error(), got.Presented) {
				t.Errorf("text %q, want %q and the fingerprint in it", got, tc.text)
			}
		})
	}
	if _, err := trust.Config(bmc.Target{CABundle: []byte("nonsense")}, here); !errors.Is(err, bmc.ErrCertificate) {
		t.Errorf("a bundle without certificates: %v", err)
	}
	if got := trust.Explain(io.ErrUnexpectedEOF); got != nil {
		t.Errorf("a lost connection is explained by %v", got)
	}
}

// TestRSAKeyExchange shows that firmware without another key exchange is supported, that its
// certificate is verified, and that weaker ciphers are refused.
func TestRSAKeyExchange(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	old := certified{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	for name, tc := range map[string]struct {
		suite uint16
		pem   []byte
		taken bool
	}{
		"GCM":                      {tls.TLS_RSA_WITH_AES_256_GCM_SHA384, old.pem, true},
		"CBC":                      {tls.TLS_RSA_WITH_AES_128_CBC_SHA, old.pem, true},
		"an untrusted certificate": {tls.TLS_RSA_WITH_AES_256_GCM_SHA384, sign(t, "ca", nil, nil).pem, false},
		"RC4":                      {tls.TLS_RSA_WITH_RC4_128_SHA, old.pem, false},
		"3DES":                     {tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA, old.pem, false},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan string, 2)
			address := serverOf(t, &tls.Config{
				Certificates: []tls.Certificate{old.Certificate}, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tc.suite},
			}, sent)
			cfg, err := trust.Config(bmc.Target{CABundle: tc.pem}, "127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := shake(t, address, cfg); (err == nil) != tc.taken {
				t.Errorf("taken %v, error %v", err == nil, err)
			}
			if !tc.taken {
				return
			}
			if got, err := trust.Probe(t.Context(), bmc.Target{}, address); err != nil || got != old.fingerprint() {
				t.Errorf("Probe = %q, %v", got, err)
			}
		})
	}
}

// TestPinOfResumedSession shows that the pin is compared in a resumed handshake, in which
// the server presents no certificate.
func TestPinOfResumedSession(t *testing.T) {
	self, other := sign(t, "a", nil, nil), sign(t, "b", nil, nil)
	sent := make(chan string, 3)
	address := server(t, self, sent)
	cfg, err := trust.Config(bmc.Target{Fingerprint: self.fingerprint()}, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i, want := range []bool{false, true} {
		if resumed, err := shake(t, address, cfg); err != nil || resumed != want {
			t.Fatalf("handshake %d: resumed %v, error %v", i, resumed, err)
		}
	}
	strict, err := trust.Config(bmc.Target{Fingerprint: other.fingerprint()}, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	strict.ClientSessionCache = cfg.ClientSessionCache
	_, err = shake(t, address, strict)
	if got := trust.Explain(err); got == nil || got.Problem != bmc.CertificateNotPinned {
		t.Errorf("a resumed session with another pin: %v", err)
	}
}

// TestProbe shows that Probe sends nothing after the handshake and is bounded.
func TestProbe(t *testing.T) {
	self := sign(t, "example", nil, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
	sent := make(chan string, 1)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	got, err := trust.Probe(ctx, bmc.Target{}, server(t, self, sent))
	if err != nil || got != self.fingerprint() {
		t.Errorf("Probe = %q, %v, want %q", got, err, self.fingerprint())
	}
	if got := <-sent; got != "" {
		t.Errorf("the probe sent %q", got)
	}

	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := plain.Addr().String()
	_ = plain.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	soon, cancelSoon := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancelSoon()
	gone, cancelGone := context.WithCancel(t.Context())
	cancelGone()
	for name, tc := range map[string]struct {
		ctx     context.Context
		address string
		want    error
	}{
		"closed port": {ctx, closed, bmc.ErrUnreachable},
		"no port":     {ctx, "bmc.example", bmc.ErrAddress},
		"silent":      {soon, silent.Addr().String(), bmc.ErrTimeout},
		"canceled":    {gone, silent.Addr().String(), context.Canceled},
	} {
		if _, err := trust.Probe(tc.ctx, bmc.Target{}, tc.address); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}
