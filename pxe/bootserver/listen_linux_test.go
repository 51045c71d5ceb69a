// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootserver_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/ingot-metal/ingot/pxe/bootserver"
)

// TestListenHost opens the real ports on loopback, if permitted.
func TestListenHost(t *testing.T) {
	cfg := bootserver.Config{Address: netip.MustParseAddr("127.0.0.1")}
	s, err := bootserver.ListenHost(context.Background(), "lo", cfg)
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EADDRINUSE) {
		t.Skipf("the boot server's ports cannot be opened here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"0.0.0.0:67": s.DHCP.LocalAddr().String(), "127.0.0.1:4011": s.BINL.LocalAddr().String(),
		"127.0.0.1:69": s.TFTP.LocalAddr().String(), "127.0.0.1:8880": s.HTTP.Addr().String()} {
		if got != name {
			t.Errorf("listens on %s, want %s", got, name)
		}
	}
	// A second boot server on the same machine must fail.
	if _, err := bootserver.ListenHost(context.Background(), "lo", cfg); err == nil || !strings.Contains(err.Error(), "DHCP") {
		t.Errorf("second server: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	// After a failure all sockets are closed.
	if _, err := bootserver.ListenHost(context.Background(), "", bootserver.Config{Address: netip.MustParseAddr("192.0.2.1")}); err == nil {
		t.Fatal("listens on an address that is not this machine's")
	}
	if s, err = bootserver.ListenHost(context.Background(), "lo", cfg); err != nil {
		t.Fatalf("a failed start left a socket open: %v", err)
	}
	_ = s.Close()
}
