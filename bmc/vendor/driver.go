// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"slices"

	"github.com/bmc-toolbox/bmclib/v2/providers/dell"
	"github.com/bmc-toolbox/bmclib/v2/providers/openbmc"
	"github.com/bmc-toolbox/bmclib/v2/providers/rpc"
	"github.com/bmc-toolbox/bmclib/v2/providers/supermicro"
	"github.com/go-logr/logr"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
)

// The names of the drivers in addresses.
const (
	nameDell       = "dell"
	nameSupermicro = "supermicro"
	nameOpenBMC    = "openbmc"
	nameASRockRack = "asrockrack"
	nameAMT        = "intelamt"
	nameRPC        = "rpc"
)

// driverSpec describes one driver.
type driverSpec struct {
	name string
	// usesRedfish: package redfish does everything but pushed firmware.
	usesRedfish bool
	// lacks are capabilities that these BMCs lack although Redfish has them; offers are those
	// of a driver that does not use Redfish.
	lacks, offers []bmc.Capability
	// relayed: the driver has its own HTTP client.
	relayed bool
	// login is wire.login.
	login string
	// library returns the driver and makes no request.
	library func(l *link, ep endpoint) library
	// conn returns the Conn of a driver that does not use Redfish.
	conn func(c *base) bmc.Conn
}

// driverSpecs returns the drivers. intelamt is not a driver of bmclib. Left out are bmclib's homeassistant,
// which switches sockets, and ipmitool and redfish, whose protocols have packages of their own.
func driverSpecs() []driverSpec {
	return []driverSpec{
		{name: nameDell, usesRedfish: true, library: func(l *link, ep endpoint) library {
			// A host with a scheme and without a port is used unchanged, IPv6 in brackets too.
			return dell.New("https://"+ep.host, l.target.Username, l.target.Password.Reveal(), logr.Discard(),
				dell.WithHttpClient(l.wire.client()), dell.WithPort(""))
		}},
		{name: nameSupermicro, usesRedfish: true, relayed: true, library: func(l *link, _ endpoint) library {
			// It ignores the client that NewClient takes (Config.HttpClient).
			return supermicro.NewClient(l.relay.url(), l.target.Username, l.target.Password.Reveal(), logr.Discard(),
				supermicro.WithSecureTLS(l.relay.pool), supermicro.WithPort(""))
		}},
		{name: nameOpenBMC, usesRedfish: true, lacks: []bmc.Capability{bmc.CapSettings, bmc.CapSecureBoot, bmc.CapFirmwareFetch}, library: func(l *link, ep endpoint) library {
			return openbmc.New("https://"+ep.host, l.target.Username, l.target.Password.Reveal(), logr.Discard(),
				openbmc.WithHttpClient(l.wire.client()), openbmc.WithPort(""))
		}},
		{name: nameASRockRack, login: "/api/session", offers: []bmc.Capability{bmc.CapFirmware, bmc.CapFirmwarePush, bmc.CapReset}, conn: newASRockRack, library: newASRockRackLibrary},
		{name: nameAMT, conn: newAMT, library: func(l *link, ep endpoint) library { return newAMTLibrary(l, ep) }},
		{name: nameRPC, conn: newRPC, library: func(l *link, ep endpoint) library {
			// The password is the secret that signs the notifications.
			p := rpc.New("https://"+ep.host+"/", ep.name, rpc.Secrets{rpc.SHA256: {l.target.Password.Reveal()}})
			p.HTTPClient = l.wire.client()
			p.LogNotificationsDisabled = true
			return p
		}},
	}
}

// Drivers returns the drivers of this package, each named "vendor+<driver>", with everything they
// can do. They hold no state.
func Drivers() []bmc.Driver {
	all := driverSpecs()
	drivers := make([]bmc.Driver, len(all))
	for i, d := range all {
		drivers[i] = bmc.Driver{Name: Scheme + d.name, Dial: d.dial, Offers: d.offers}
		if d.usesRedfish {
			drivers[i].Offers = slices.DeleteFunc(redfish.Driver().Offers, func(c bmc.Capability) bool { return slices.Contains(d.lacks, c) })
		}
	}
	return drivers
}

// dial opens a session. Errors wrap bmc.ErrAddress, ErrCertificate, ErrUnauthorized, ErrUnreachable,
// ErrTimeout, ErrBusy, ErrNotSupported (also if the driver does not support the machine),
// ErrProtocol or the context's error.
func (d driverSpec) dial(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	if d.usesRedfish {
		return d.dialRedfish(ctx, target)
	}
	l, err := dialLink(ctx, d, target)
	if err != nil {
		return nil, err
	}
	return d.conn(&base{spec: d, target: target, link: l}), nil
}
