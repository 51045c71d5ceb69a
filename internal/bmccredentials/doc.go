// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmccredentials finds how the BMC of a host is reached: its address, the credentials in
// the Secret that spec.bmc names, and what its certificate is verified with, a CA bundle
// or the pin that was taken at the first use. It says what is missing for it.
//
// What it reads it marks, so that it is cached, watched and moved with its hosts (I18):
// Secrets with credentials are owned by all their hosts, those with certificates by none
// (docs/decisions/0145). It sends nothing to a BMC, and must not know what is asked of
// one; the only look at it is at the certificate that it presents.
//
//	finder := &bmccredentials.Finder{Client: c, Live: reader, Fingerprint: fingerprint, Note: note, Turn: time.Minute}
//	found, err := finder.Find(ctx, host, facts)
//	switch {
//	case found.Problem != lifecycle.BMCOK: // found.Message says what a person has to make
//	case found.Unpinned:
//		facts, refused, err = finder.Pin(ctx, host, facts)
//	}
package bmccredentials
