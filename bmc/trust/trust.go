// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// Config returns the TLS configuration for a target. serverName is the host of its address:
// a name, or an IP address without brackets. It returns bmc.ErrCertificate if the CA bundle
// holds no certificate.
func Config(target bmc.Target, serverName string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: cipherSuites(), ServerName: serverName}
	switch {
	case target.Fingerprint != "":
		// VerifyConnection replaces the verification by a stricter one.
		cfg.InsecureSkipVerify = true
		cfg.VerifyConnection = pinned(target.Fingerprint)
	case target.InsecureSkipVerify:
		// The operator disabled the verification for this host.
		cfg.InsecureSkipVerify = true
	case len(target.CABundle) > 0:
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(target.CABundle) {
			return nil, &bmc.CertificateError{Problem: bmc.CertificateUnknownCA, Detail: "the CA bundle holds no PEM certificate"}
		}
	}
	return cfg, nil
}

// cipherSuites returns Go's own cipher suites for TLS 1.2 and those with RSA key exchange
// and AES, which Go disables by default: the BMCs of several vendors support no others (H3C
// HDM 3.57, github.com/mrlhansen/idrac_exporter issue 204). RSA key exchange also proves
// possession of the certificate's key, but lacks forward secrecy. Go offers these last.
func cipherSuites() []uint16 {
	suites := []uint16{
		tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA,
	}
	for _, suite := range tls.CipherSuites() {
		suites = append(suites, suite.ID)
	}
	return suites
}

// pinned accepts only the certificate with a fingerprint.
func pinned(fingerprint string) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return &bmc.CertificateError{Problem: bmc.CertificateUnusable, Detail: "the BMC presented none"}
		}
		presented := bmc.CertificateFingerprint(state.PeerCertificates[0])
		if presented == fingerprint {
			return nil
		}
		return &bmc.CertificateError{Problem: bmc.CertificateNotPinned, Presented: presented, Detail: "it is not the pinned certificate " + fingerprint}
	}
}

// Explain returns the *bmc.CertificateError of a failed handshake, or nil if the certificate
// was not the cause.
func Explain(err error) *bmc.CertificateError {
	if explained, ok := errors.AsType[*bmc.CertificateError](err); ok {
		return explained
	}
	verify, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return nil
	}
	explained := &bmc.CertificateError{}
	if len(verify.UnverifiedCertificates) > 0 {
		explained.Presented = bmc.CertificateFingerprint(verify.UnverifiedCertificates[0])
	}
	explained.Problem, explained.Detail = classify(verify.Err)
	return explained
}

// classify distinguishes the problems that need different corrections.
func classify(err error) (bmc.CertificateProblem, string) {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return bmc.CertificateUnknownCA, "no trusted authority signed it"
	}
	if name, ok := errors.AsType[x509.HostnameError](err); ok {
		return bmc.CertificateWrongName, fmt.Sprintf("it is not valid for %q, the host of the address", name.Host)
	}
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case !ok || invalid.Reason != x509.Expired:
		return bmc.CertificateUnusable, err.Error()
	case time.Now().Before(invalid.Cert.NotBefore): // x509 has the same reason for both
		return bmc.CertificateNotYetValid, fmt.Sprintf("it is not valid before %s; the clock of the BMC or the manager is wrong", invalid.Cert.NotBefore.UTC().Format(time.RFC3339))
	}
	return bmc.CertificateExpired, fmt.Sprintf("it, or its issuer's certificate, expired at %s", invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
}

// Probe performs a TLS handshake with the target's BMC at host:port, sends nothing else, and
// returns the fingerprint of the presented certificate without verifying it. It uses only
// the target's Connecting. It returns bmc.ErrAddress, bmc.ErrUnreachable, bmc.ErrTimeout,
// bmc.ErrProtocol or the context's cancellation.
func Probe(ctx context.Context, target bmc.Target, address string) (string, error) {
	what := "read the certificate of " + address
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%s: %w: want host:port", what, bmc.ErrAddress)
	}
	raw, err := target.DialContext(ctx, "tcp", address)
	if refused, ok := errors.AsType[*bmc.SourceError](err); ok {
		return "", refused
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", what, bmc.ErrUnreachable, err)
	}
	defer func() { _ = raw.Close() }()
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: cipherSuites(), ServerName: name, InsecureSkipVerify: true, //nolint:gosec // it only reads the certificate
	})
	switch err := conn.HandshakeContext(ctx); {
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("%s: %w: %w", what, bmc.ErrTimeout, err)
	case errors.Is(err, context.Canceled):
		return "", fmt.Errorf("%s: %w", what, err)
	case err != nil:
		return "", fmt.Errorf("%s: %w: %w", what, bmc.ErrProtocol, err)
	}
	presented := conn.ConnectionState().PeerCertificates
	if len(presented) == 0 {
		return "", fmt.Errorf("%s: %w: the BMC presented none", what, bmc.ErrProtocol)
	}
	return bmc.CertificateFingerprint(presented[0]), nil
}
