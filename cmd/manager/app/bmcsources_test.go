// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/vendor"
)

// No driver sends a packet outside of --bmc-sources, whether the address is an IP address or a name, and
// the error names the flag.
func TestNoDriverConnectsOutsideOfTheSources(t *testing.T) {
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	udp, err := net.ListenPacket("udp4", tcp.Addr().String())
	if err != nil {
		t.Skip("the port is taken for UDP")
	}
	defer func() { _ = udp.Close() }()
	reached := make(chan string, 100)
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			reached <- "TCP"
			_ = conn.Close()
		}
	}()
	go func() {
		buffer := make([]byte, 1500)
		for {
			if _, _, err := udp.ReadFrom(buffer); err != nil {
				return
			}
			reached <- "UDP"
		}
	}()
	schemes := []string{"", "redfish://", "redfish+http://", "ipmi://"}
	for _, driver := range vendor.Drivers() {
		schemes = append(schemes, driver.Name+"://")
	}
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	sources := bmc.Sources{}
	pool := bmc.NewPool(NewDialer().Dial, bmc.PoolOptions{Sources: &sources, CallTimeout: 20 * time.Second})
	defer func() { _ = pool.Close(context.Background()) }()
	for _, scheme := range schemes {
		for _, host := range []string{"127.0.0.1", "localhost"} {
			target := bmc.Target{Address: scheme + net.JoinHostPort(host, port), Username: "admin", Password: "canary", InsecureSkipVerify: true}
			err := pool.Do(t.Context(), target, func(ctx context.Context, conn bmc.Conn) error {
				_, err := conn.PowerState(ctx) // some drivers connect at the first call
				return err
			})
			if !errors.Is(err, bmc.ErrSourceNotAllowed) || !strings.Contains(err.Error(), "--bmc-sources") || !strings.Contains(err.Error(), host) {
				t.Errorf("%s: %v", target.Address, err)
			}
		}
	}
	if _, err := fingerprint(&sources)(t.Context(), net.JoinHostPort("localhost", port)); !errors.Is(err, bmc.ErrSourceNotAllowed) {
		t.Errorf("the certificate probe: %v", err)
	}
	select {
	case by := <-reached:
		t.Errorf("a server outside of the sources was reached by %s", by)
	default:
	}
}
