// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Files of the key directory. The controllers mount all of it; the boot server
// needs FileHMAC and FilePins only, so that it holds no private key.
const (
	// FileHMAC and FileHMACOld hold the token keys, raw bytes. The old one is optional.
	FileHMAC    = "token.key"
	FileHMACOld = "token-old.key"
	// FileTLSKey is the private key (PEM) of the agent API.
	FileTLSKey = "agent-tls.key"
	// FilePins holds the pins of the current and, on a second line, the next key.
	FilePins = "agent-tls.pins"
)

// Pin names a public key: "sha256/<base64url without padding>" of its
// SubjectPublicKeyInfo (RFC 7469 with an alphabet that kernel arguments carry).
type Pin string

// PinOf computes the pin of a certificate's key.
func PinOf(spki []byte) Pin {
	sum := sha256.Sum256(spki)
	return Pin("sha256/" + base64.RawURLEncoding.EncodeToString(sum[:]))
}

// Curl writes pins as curl's --pinnedpubkey wants them.
func Curl(pins []Pin) (string, error) {
	var out []string
	for _, pin := range pins {
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(string(pin), "sha256/"))
		if err != nil || len(raw) != sha256.Size {
			return "", fmt.Errorf("pin %q is not sha256/<base64url>", pin)
		}
		out = append(out, "sha256//"+base64.StdEncoding.EncodeToString(raw))
	}
	return strings.Join(out, ";"), nil
}

// KeyHash names an agent's ephemeral key in the ledger: SHA-256 in hex of its
// SubjectPublicKeyInfo.
func KeyHash(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// LoadKeys reads the token keys from the directory.
func LoadKeys(dir string) (Keys, error) {
	current, err := os.ReadFile(filepath.Join(dir, FileHMAC))
	if err != nil {
		return Keys{}, fmt.Errorf("token key: %w", err)
	}
	keys := [][]byte{current}
	old, err := os.ReadFile(filepath.Join(dir, FileHMACOld))
	switch {
	case err == nil:
		keys = append(keys, old)
	case !errors.Is(err, fs.ErrNotExist):
		return Keys{}, fmt.Errorf("old token key: %w", err)
	}
	return NewKeys(keys...)
}

// LoadPins reads the pins from the directory.
func LoadPins(dir string) ([]Pin, error) {
	raw, err := os.ReadFile(filepath.Join(dir, FilePins))
	if err != nil {
		return nil, fmt.Errorf("agent API pins: %w", err)
	}
	var pins []Pin
	for line := range strings.FieldsSeq(string(raw)) {
		pins = append(pins, Pin(line))
	}
	if len(pins) == 0 || len(pins) > 2 {
		return nil, fmt.Errorf("%s holds %d pins: one or two are needed", FilePins, len(pins))
	}
	if _, err := Curl(pins); err != nil {
		return nil, err
	}
	return pins, nil
}

// LoadCertificate reads the private key of the agent API and makes a certificate
// for it. Agents look at the key only (I15), so that the certificate's name and
// dates carry no meaning and it need not be kept.
func LoadCertificate(dir string) (tls.Certificate, error) {
	raw, err := os.ReadFile(filepath.Join(dir, FileTLSKey))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("agent API key: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return tls.Certificate{}, fmt.Errorf("agent API key %s: no PEM block", FileTLSKey)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("agent API key %s: %w", FileTLSKey, err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return tls.Certificate{}, fmt.Errorf("agent API key %s: must be an ECDSA key", FileTLSKey)
	}
	return selfSigned(ec)
}

func selfSigned(key *ecdsa.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "ingot-agent-api"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280 §4.1.2.5: no end
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"ingot-agent-api"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate of the agent API: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate of the agent API: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// Generate fills a directory with new keys where it has none, for the demo, for
// tests and for the installation's first start. Existing files are kept.
func Generate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("key directory: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, FileTLSKey)); err == nil {
		return nil
	}
	hmacKey := make([]byte, MinKeyBytes)
	if _, err := rand.Read(hmacKey); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	var tlsKey bytes.Buffer
	if err := pem.Encode(&tlsKey, &pem.Block{Type: "PRIVATE KEY", Bytes: der}); err != nil {
		return err
	}
	// The TLS key is written last: it marks the directory as complete.
	files := []struct {
		name string
		data []byte
	}{{FileHMAC, hmacKey}, {FilePins, []byte(PinOf(spki) + "\n")}, {FileTLSKey, tlsKey.Bytes()}}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, 0o600); err != nil {
			return fmt.Errorf("key directory: %w", err)
		}
	}
	return nil
}
