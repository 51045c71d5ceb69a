// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"strings"
)

// CertificateProblem is why a certificate is not trusted.
type CertificateProblem string

// The problems.
const (
	// CertificateNotPinned: it is not the one of Target.Fingerprint.
	CertificateNotPinned CertificateProblem = "NotPinned"
	// CertificateUnknownCA: none of the trusted authorities signed it.
	CertificateUnknownCA CertificateProblem = "UnknownCA"
	// CertificateWrongName: it is another host's.
	CertificateWrongName CertificateProblem = "WrongName"
	// CertificateExpired and CertificateNotYetValid, by the manager's clock.
	CertificateExpired     CertificateProblem = "Expired"
	CertificateNotYetValid CertificateProblem = "NotYetValid"
	// CertificateUnusable: anything else that is wrong with it.
	CertificateUnusable CertificateProblem = "Unusable"
)

// CertificateError says what is wrong with the certificate that a BMC presented. It
// wraps ErrCertificate.
type CertificateError struct {
	Problem CertificateProblem
	// Presented is the fingerprint of the BMC's certificate; empty: it presented none.
	Presented string
	// Detail in words, without secrets.
	Detail string
}

// Error implements error.
func (e *CertificateError) Error() string {
	var text strings.Builder
	text.WriteString(ErrCertificate.Error())
	if e.Detail != "" {
		text.WriteString(": " + e.Detail)
	}
	if e.Presented != "" {
		text.WriteString(" (presented: " + e.Presented + ")")
	}
	return text.String()
}

// Unwrap returns ErrCertificate.
func (e *CertificateError) Unwrap() error { return ErrCertificate }

// CertificateFingerprint is how certificates are pinned: "sha256:" and the SHA-256 of
// the DER form in hex.
func CertificateFingerprint(certificate *x509.Certificate) string {
	digest := sha256.Sum256(certificate.Raw)
	return "sha256:" + hex.EncodeToString(digest[:])
}
