// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

const (
	pinPrefix = "sha256/"
	// maxPins allows the current and the next key (I15).
	maxPins = 2
)

// errPin reports that the server's TLS key matches none of the pins.
var errPin = errors.New("the manager's TLS key matches no pin")

// Pin is the SHA-256 of a SubjectPublicKeyInfo.
type Pin [sha256.Size]byte

// PinOf returns the pin of a certificate's key.
func PinOf(cert *x509.Certificate) Pin { return sha256.Sum256(cert.RawSubjectPublicKeyInfo) }

// String returns the form of the kernel argument, "sha256/<base64url, no padding>".
func (p Pin) String() string { return pinPrefix + base64.RawURLEncoding.EncodeToString(p[:]) }

// ParsePins reads one or two comma-separated pins.
func ParsePins(s string) ([]Pin, error) {
	var pins []Pin
	for text := range strings.SplitSeq(s, ",") {
		digest, ok := strings.CutPrefix(text, pinPrefix)
		raw, err := base64.RawURLEncoding.Strict().DecodeString(digest)
		if !ok || err != nil || len(raw) != sha256.Size {
			return nil, errors.New("a pin must be sha256/<43 characters of base64url>")
		}
		pins = append(pins, Pin(raw))
	}
	if len(pins) > maxPins {
		return nil, fmt.Errorf("%d pins, at most %d", len(pins), maxPins)
	}
	return pins, nil
}

// Identity identifies the agent during one boot by an ephemeral key and a boot ID. A retry
// within the boot keeps both, so that the manager can tell it from another machine (I14).
type Identity struct {
	BootID      string
	certificate tls.Certificate
}

// NewIdentity makes an ephemeral key and a self-signed certificate for it. The certificate
// is always valid, since the clock of a server is often wrong after power-on.
func NewIdentity() (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the session key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "ingot-agent"},
		NotBefore:    time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the session certificate: %w", err)
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, fmt.Errorf("make the boot ID: %w", err)
	}
	return &Identity{
		BootID:      hex.EncodeToString(id),
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}, nil
}

// tlsConfig trusts exactly the pinned keys: certificate authorities, names and dates do not count.
func (id *Identity) tlsConfig(pins []Pin) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{id.certificate},
		// VerifyConnection checks the pin instead. It also runs for resumed sessions.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks the pin
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) > 0 && slices.Contains(pins, PinOf(state.PeerCertificates[0])) {
				return nil
			}
			return errPin
		},
	}
}
