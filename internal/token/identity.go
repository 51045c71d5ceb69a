// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Pin identifies a public key: "sha256/<base64url without padding>" of its SubjectPublicKeyInfo (RFC
// 7469 with an alphabet for kernel arguments).
type Pin string

// PinOf returns the pin of a SubjectPublicKeyInfo.
func PinOf(spki []byte) Pin {
	sum := sha256.Sum256(spki)
	return Pin("sha256/" + base64.RawURLEncoding.EncodeToString(sum[:]))
}

// Curl formats pins for curl's --pinnedpubkey.
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

// KeyHash returns the SHA-256 hash, in hex, of a certificate's SubjectPublicKeyInfo. The host's order
// stores the hash of the agent's ephemeral key.
func KeyHash(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
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
		return tls.Certificate{}, fmt.Errorf("create certificate of the agent API: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("parse certificate of the agent API: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
