// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloudinit shows what Ingot renders for the first boot of a system to the
// programs that read it there: cloud-init, as Debian 13 has it, and netplan's own parser.
// It holds tests only; each says what is missing where a program is not installed.
//
//	hack/packages.sh test && go test ./test/cloudinit
package cloudinit
