// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dial selects the driver for a BMC by the scheme of its address. For an address
// without a scheme it probes the BMC for each protocol, in the order of the drivers and
// without credentials, and remembers the result.
//
// The package knows no driver, policy, host or Kubernetes: drivers are passed as values.
//
//	dialer := dial.New(redfish.Driver(), redfish.PlainDriver(), ipmi.Driver())
//	pool := bmc.NewPool(dialer.Dial, bmc.PoolOptions{})
//	offers, known := dialer.Offers("ipmi://192.0.2.10")
package dial
