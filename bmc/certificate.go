// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
)

// CertificateProblem is the reason why a certificate is not trusted.
type CertificateProblem string

const (
	// CertificateNotPinned: the certificate is not the one of Target.Fingerprint.
	CertificateNotPinned CertificateProblem = "NotPinned"
	// CertificateUnknownCA: none of the trusted authorities signed it.
	CertificateUnknownCA CertificateProblem = "UnknownCA"
	// CertificateWrongName: it belongs to another host name.
	CertificateWrongName CertificateProblem = "WrongName"
	// CertificateExpired and CertificateNotYetValid refer to the manager's clock.
	CertificateExpired     CertificateProblem = "Expired"
	CertificateNotYetValid CertificateProblem = "NotYetValid"
	// CertificateUnusable: any other problem.
	CertificateUnusable CertificateProblem = "Unusable"
)

// CertificateError describes the problem with the certificate that a BMC presented. It
// wraps ErrCertificate.
type CertificateError struct {
	Problem CertificateProblem
	// Presented is the fingerprint of the BMC's certificate; empty: the BMC presented none.
	Presented string
	// Detail is text for operators, without secrets.
	Detail string
}

func (e *CertificateError) Error() string {
	text := ErrCertificate.Error()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Presented != "" {
		text += " (presented: " + e.Presented + ")"
	}
	return text
}

// Unwrap returns ErrCertificate.
func (e *CertificateError) Unwrap() error { return ErrCertificate }

// CertificateFingerprint returns the form in which certificates are pinned: "sha256:" and
// the SHA-256 of the DER form in hex.
func CertificateFingerprint(certificate *x509.Certificate) string {
	digest := sha256.Sum256(certificate.Raw)
	return "sha256:" + hex.EncodeToString(digest[:])
}
