// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trust is how drivers trust a BMC's TLS certificate: by the authorities of
// the system or of a CA bundle, by one pinned certificate, or blindly where a person
// chose so. And it looks at a certificate before anybody trusts it.
//
// A pin takes the place of chain, name and dates: BMCs come with certificates that
// they signed themselves, for names that are not theirs, and with clocks that lie. It
// is compared in every handshake, a resumed one too, by tls.Config.VerifyConnection.
//
// It knows TLS only: no protocol above it, and no credentials.
//
//	cfg, err := trust.Config(target, "10.0.0.9")
//	transport := &http.Transport{TLSClientConfig: cfg}
//	…
//	err = trust.Explain(err) // a *bmc.CertificateError, if the certificate was it
//
//	fingerprint, err := trust.Probe(ctx, target, "10.0.0.9:443")
package trust
