// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmctest is the test suite for all drivers: what every bmc.Conn must do, whatever the
// protocol and the vendor. It knows no driver and no emulator: a Rig provides a BMC to call, and the
// server's real state to compare with.
//
//	bmctest.Run(t, func(t *testing.T) bmctest.Rig {
//		return bmctest.Rig{Dial: redfish.Dial, Target: target, Server: emulated}
//	})
package bmctest
