// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor_test

import (
	"cmp"
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/vendor"
	"github.com/ingot-metal/ingot/lab/bmc/endpoint"
	"github.com/ingot-metal/ingot/lab/bmc/machine"
	"github.com/ingot-metal/ingot/lab/bmc/update"
	"github.com/ingot-metal/ingot/lab/vendorbmc"
	"github.com/ingot-metal/ingot/test/eventually"
)

const (
	// canary is the password: no error may show it in any form.
	canary   = bmctest.Canary
	username = "admin"
	// longWait bounds calls that should not hang; shortWait is a deadline that is meant to pass.
	longWait  = 30 * time.Second
	shortWait = 500 * time.Millisecond
)

// driver returns the driver with a name.
func driver(t *testing.T, name string) bmc.Driver {
	t.Helper()
	all := vendor.Drivers()
	i := slices.IndexFunc(all, func(d bmc.Driver) bool { return d.Name == name })
	if i < 0 {
		t.Fatalf("no driver %s", name)
	}
	return all[i]
}

// plainRig is a BMC that speaks neither Redfish nor IPMI.
type plainRig struct {
	bmctest.NoExtras
	*vendorbmc.Server
	// board is the Server of ASRock Rack; nil: another BMC.
	board  *vendorbmc.ASRockRack
	bench  *machine.Bench
	driver bmc.Driver
	target bmc.Target
}

func (r *plainRig) Powered() bool { return r.bench.Powered() }

func (r *plainRig) Sessions() int {
	if r.board == nil {
		return 0 // other BMCs have no sessions
	}
	return r.board.Sessions()
}

// FirmwareImage implements bmctest.Extras.
func (r *plainRig) FirmwareImage(*testing.T) (image io.Reader, size int64, version string) {
	return firmware(update.BIOS, 8<<20), 8 << 20, newVersion
}

func (r *plainRig) Restart() { _ = r.bench.Power(context.Background(), machine.Reset) }

func (r *plainRig) Boots() []bmc.BootTarget {
	var boots []bmc.BootTarget
	for _, b := range r.bench.Boots() {
		boots = append(boots, bootTarget(b))
	}
	return boots
}

// bootTarget returns the driver's name of the emulator's boot source.
func bootTarget(t machine.Target) bmc.BootTarget {
	words := map[machine.Target]bmc.BootTarget{
		"None": bmc.BootNone, "Pxe": bmc.BootPXE, "Hdd": bmc.BootDisk, "Cd": bmc.BootCD, "UsbCd": bmc.BootCD, "CD/DVD": bmc.BootCD,
		"BiosSetup": bmc.BootSetup, "UefiHttp": bmc.BootHTTP,
	}
	return cmp.Or(words[t], bmc.BootTarget(t))
}

// newPlain starts the BMC of a driver.
func newPlain(t *testing.T, name string, change func(*vendorbmc.Config)) *plainRig {
	t.Helper()
	ca, err := endpoint.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	r := &plainRig{bench: &machine.Bench{}, driver: driver(t, name)}
	cfg := vendorbmc.Config{Authority: ca, Machine: r.bench, Username: username, Password: canary, Agent: true}
	if change != nil {
		change(&cfg)
	}
	start := map[string]func(vendorbmc.Config) (*vendorbmc.Server, error){
		bmctest.DriverRPC: vendorbmc.StartWebhook, bmctest.DriverAMT: vendorbmc.StartAMT,
		bmctest.DriverASRockRack: func(cfg vendorbmc.Config) (*vendorbmc.Server, error) {
			board, err := vendorbmc.StartASRockRack(cfg)
			if err != nil {
				return nil, err
			}
			r.board = board
			return board.Server, nil
		},
	}[name]
	if r.Server, err = start(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer func() { _ = r.Server.Close() }()
		// An abandoned call ends later.
		eventually.Wait{Limit: longWait, Interval: time.Millisecond}.Until(t, "the end of all sessions", eventually.Holds(func() bool { return r.Sessions() == 0 }))
	})
	r.target = bmc.Target{Address: name + "://" + r.Host(), Username: username, Password: canary, CABundle: ca.PEM()}
	return r
}

// dial opens a connection that ends with the test.
func (r *plainRig) dial(t *testing.T) bmc.Conn {
	t.Helper()
	conn, err := r.driver.Dial(t.Context(), r.target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.SetFaults()
		if err := conn.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return conn
}
