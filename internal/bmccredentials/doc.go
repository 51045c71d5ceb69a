// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmccredentials finds how to reach a host's BMC: its address, the credentials in the Secret
// that spec.bmc names, and the trust in its certificate: a CA bundle, or the pin of the first use. It
// reports what is missing.
//
// It labels the objects that it reads, so that they are cached, watched and moved with their hosts
// (I18). Hosts own a Secret with credentials only if its creator asks for that, and never own
// certificates. The package sends nothing to a BMC; it only reads the certificate that the BMC
// presents.
//
//	finder := &bmccredentials.Finder{Client: c, Live: reader, Fingerprint: fingerprint, Note: note, Turn: time.Minute}
//	found, err := finder.Find(ctx, host, facts)
//	switch {
//	case found.Problem != lifecycle.BMCOK: // found.Message names what is missing
//	case found.Unpinned:
//		facts, refused, err = finder.Pin(ctx, host, facts)
//	}
package bmccredentials
