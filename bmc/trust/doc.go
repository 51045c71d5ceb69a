// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trust verifies the TLS certificate of a BMC for the drivers: with the system's
// authorities, with a CA bundle, with one pinned certificate, or not at all if the operator
// chose so. It can also read a certificate before it is trusted.
//
// A pin replaces the checks of chain, name and dates, because BMCs come with self-signed
// certificates for other names and with wrong clocks. tls.Config.VerifyConnection compares
// the pin in every handshake, including resumed ones.
//
// The package does not know the protocols above TLS, and no credentials.
//
//	cfg, err := trust.Config(target, "10.0.0.9")
//	transport := &http.Transport{TLSClientConfig: cfg}
//	…
//	err = trust.Explain(err) // a *bmc.CertificateError, if the certificate was the cause
//
//	fingerprint, err := trust.Probe(ctx, target, "10.0.0.9:443")
package trust
