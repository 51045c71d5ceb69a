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

// Config makes the TLS configuration for a target. serverName is the host of its
// address, a name or an IP address without brackets. The error wraps
// bmc.ErrCertificate: the CA bundle holds no certificate.
func Config(target bmc.Target, serverName string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: cipherSuites(), ServerName: serverName}
	switch {
	case target.Fingerprint != "":
		// What VerifyConnection does instead is more, not less.
		cfg.InsecureSkipVerify = true
		cfg.VerifyConnection = pinned(target.Fingerprint)
	case target.InsecureSkipVerify:
		// The operator's explicit choice, host by host.
		cfg.InsecureSkipVerify = true
	case len(target.CABundle) > 0:
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(target.CABundle) {
			return nil, &bmc.CertificateError{Problem: bmc.CertificateUnknownCA, Detail: "the CA bundle holds no PEM certificate"}
		}
	}
	return cfg, nil
}

// cipherSuites of TLS 1.2: Go's own choice and, where a BMC knows none of it, the
// exchange of keys by RSA with AES, which Go no longer offers by itself: the BMCs of
// several makers take nothing else (H3C HDM 3.57: github.com/mrlhansen/idrac_exporter
// issue 204). They prove the certificate's key as well; what they lack is secrecy of
// what was recorded once the key is stolen. Go asks for them last.
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

// pinned refuses every certificate but one.
func pinned(fingerprint string) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return &bmc.CertificateError{Problem: bmc.CertificateUnusable, Detail: "none was presented"}
		}
		presented := bmc.CertificateFingerprint(state.PeerCertificates[0])
		if presented == fingerprint {
			return nil
		}
		return &bmc.CertificateError{Problem: bmc.CertificateNotPinned, Presented: presented, Detail: "it is not the pinned one, " + fingerprint}
	}
}

// Explain returns the *bmc.CertificateError of a failed handshake; nil where the
// certificate was not the reason.
func Explain(err error) *bmc.CertificateError {
	var told *bmc.CertificateError
	if errors.As(err, &told) {
		return told
	}
	var verify *tls.CertificateVerificationError
	if !errors.As(err, &verify) {
		return nil
	}
	told = &bmc.CertificateError{}
	if len(verify.UnverifiedCertificates) > 0 {
		told.Presented = bmc.CertificateFingerprint(verify.UnverifiedCertificates[0])
	}
	told.Problem, told.Detail = classify(verify.Err)
	return told
}

// classify tells apart what a person mends differently.
func classify(err error) (bmc.CertificateProblem, string) {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &authority):
		return bmc.CertificateUnknownCA, "it is signed by an authority that is not among the trusted ones"
	case errors.As(err, &name):
		return bmc.CertificateWrongName, fmt.Sprintf("it is not for %q, the host of the address", name.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return outOfTime(invalid.Cert)
	}
	return bmc.CertificateUnusable, err.Error()
}

// outOfTime tells one that is too old from one that is too new, which x509 does not.
func outOfTime(certificate *x509.Certificate) (bmc.CertificateProblem, string) {
	if now := time.Now(); now.Before(certificate.NotBefore) {
		return bmc.CertificateNotYetValid, fmt.Sprintf("it is not valid before %s; one of the clocks is wrong", certificate.NotBefore.UTC().Format(time.RFC3339))
	}
	return bmc.CertificateExpired, fmt.Sprintf("it, or one that it was signed with, expired at %s", certificate.NotAfter.UTC().Format(time.RFC3339))
}

// Probe makes a TLS handshake with the target's BMC at host:port, sends nothing over it,
// and returns the fingerprint of the certificate that was presented, whatever that is
// worth. Of the target it uses Connecting only. Errors wrap bmc.ErrAddress,
// bmc.ErrUnreachable, bmc.ErrTimeout or bmc.ErrProtocol, or are the context's
// cancellation.
func Probe(ctx context.Context, target bmc.Target, address string) (string, error) {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("look at the certificate of %s: %w: want host:port", address, bmc.ErrAddress)
	}
	what := "look at the certificate of " + address
	raw, err := target.DialContext(ctx, "tcp", address)
	if refused, ok := errors.AsType[*bmc.SourceError](err); ok {
		return "", refused
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", what, bmc.ErrUnreachable, err)
	}
	defer func() { _ = raw.Close() }()
	// Nothing is trusted here: the certificate is what is asked for.
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: cipherSuites(), ServerName: name, InsecureSkipVerify: true, //nolint:gosec // it asks for the certificate
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
		return "", fmt.Errorf("%s: %w: none was presented", what, bmc.ErrProtocol)
	}
	return bmc.CertificateFingerprint(presented[0]), nil
}
