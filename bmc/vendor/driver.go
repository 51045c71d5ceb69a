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

// The names of the drivers, as in addresses.
const (
	nameDell       = "dell"
	nameSupermicro = "supermicro"
	nameOpenBMC    = "openbmc"
	nameASRockRack = "asrockrack"
	nameAMT        = "intelamt"
	nameRPC        = "rpc"
)

// maker is one driver.
type maker struct {
	name string
	// overRedfish: our Redfish driver does all but the pushing of firmware.
	overRedfish bool
	// lacks are what Redfish offers, and these BMCs never; offers are those of a
	// driver that is not over Redfish.
	lacks, offers []bmc.Capability
	// relayed: the driver brings an HTTP client of its own.
	relayed bool
	// login is the path of the POST that opens a session; empty: see wire.
	login string
	// library makes the driver, without a request.
	library func(l *link, ep endpoint) library
	// words are the driver's for power actions; those that it has not are missing.
	words map[bmc.PowerAction]string
	// conn makes the Conn of a driver that is not over Redfish.
	conn func(c *base) bmc.Conn
}

// makers lists the drivers that are offered; intelamt is no driver of the library. What is left out: homeassistant, which
// switches sockets; ipmitool and redfish, whose protocols have drivers of our own.
func makers() []maker {
	return []maker{
		{name: nameDell, overRedfish: true, library: func(l *link, ep endpoint) library {
			// A host with a scheme and no port is taken as it is, IPv6 in brackets too.
			return dell.New("https://"+ep.host, l.target.Username, l.target.Password.Reveal(), logr.Discard(),
				dell.WithHttpClient(l.wire.client()), dell.WithPort(""))
		}},
		{name: nameSupermicro, overRedfish: true, relayed: true, library: func(l *link, _ endpoint) library {
			// It takes a client and forgets it (NewClient, Config.HttpClient).
			return supermicro.NewClient(l.relay.url(), l.target.Username, l.target.Password.Reveal(), logr.Discard(),
				supermicro.WithSecureTLS(l.relay.pool), supermicro.WithPort(""))
		}},
		{name: nameOpenBMC, overRedfish: true, lacks: []bmc.Capability{bmc.CapSettings, bmc.CapSecureBoot, bmc.CapFirmwareFetch}, library: func(l *link, ep endpoint) library {
			return openbmc.New("https://"+ep.host, l.target.Username, l.target.Password.Reveal(), logr.Discard(),
				openbmc.WithHttpClient(l.wire.client()), openbmc.WithPort(""))
		}},
		{name: nameASRockRack, login: "/api/session", offers: []bmc.Capability{bmc.CapFirmware, bmc.CapFirmwarePush, bmc.CapReset}, words: wordsASRockRack(), conn: newASRockRack, library: newASRockRackLibrary},
		{name: nameAMT, conn: newAMT, library: func(l *link, ep endpoint) library { return newAMTLibrary(l, ep) }},
		{name: nameRPC, words: wordsRPC(), conn: newRPC, library: func(l *link, ep endpoint) library {
			// The password is the secret that the notifications are signed with.
			p := rpc.New("https://"+ep.host+"/", ep.name, rpc.Secrets{rpc.SHA256: {l.target.Password.Reveal()}})
			p.HTTPClient = l.wire.client()
			p.LogNotificationsDisabled = true
			return p
		}},
	}
}

// Drivers are the drivers of this package, each named "vendor+<driver>", and what
// they can at best. They hold no state.
func Drivers() []bmc.Driver {
	all := makers()
	drivers := make([]bmc.Driver, len(all))
	for i, m := range all {
		drivers[i] = bmc.Driver{Name: Scheme + m.name, Dial: m.dial, Offers: m.offers}
		if m.overRedfish {
			drivers[i].Offers = slices.DeleteFunc(redfish.Driver().Offers, func(c bmc.Capability) bool { return slices.Contains(m.lacks, c) })
		}
	}
	return drivers
}

// dial opens a session.
//
// Errors wrap bmc.ErrAddress, ErrCertificate, ErrUnauthorized, ErrUnreachable,
// ErrTimeout, ErrBusy, ErrNotSupported (also a machine that the driver is not for)
// or ErrProtocol, or are the context's.
func (m maker) dial(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	if m.overRedfish {
		return m.dialOverRedfish(ctx, target)
	}
	l, err := dialLink(ctx, m, target)
	if err != nil {
		return nil, err
	}
	return m.conn(&base{maker: m, target: target, link: l}), nil
}
