// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dial chooses the driver for a BMC by its address: by the scheme where
// there is one, and for a host alone by asking the BMC which protocol it speaks, in
// the order of the drivers and without credentials. What was found is remembered.
//
// It must not know any driver, nor policy, hosts or Kubernetes: drivers come as
// values.
//
//	dialer := dial.New(redfish.Driver(), redfish.PlainDriver(), ipmi.Driver())
//	pool := bmc.NewPool(dialer.Dial, bmc.PoolOptions{})
//	offers, known := dialer.Offers("ipmi://192.0.2.10")
package dial
