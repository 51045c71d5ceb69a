// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tftp

import (
	"errors"
	"net/netip"
)

// sendSegments is Linux's.
func (*ownSocket) sendSegments([]byte, int) bool { return false }

// connect is Linux's.
func (*ownSocket) connect() bool { return false }

// RouteMTU is Linux's; elsewhere Ethernet is assumed.
func RouteMTU(netip.Addr) (int, error) { return 0, errors.ErrUnsupported }
