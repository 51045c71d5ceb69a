// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmcaddress reads the addresses of BMCs as people write them, and tells
// whether two lead to the same server, so that admission can refuse a server that
// is registered twice (I8).
//
// It must not know the API, the drivers or the network: nothing is resolved or
// contacted, and two names of one BMC are different to it.
//
//	a, err := bmcaddress.Parse("redfish://bmc-1.example/redfish/v1/Systems/1")
package bmcaddress
