// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
)

// DHCPLoad is a run of Kea's perfdhcp: exchanges of four packets, through a relay
// that it plays itself.
type DHCPLoad struct {
	Server string
	Device string
	// Rate is how many exchanges are begun each second.
	Rate int
	// Clients is how many different MAC addresses there are, those of ClientMAC.
	Clients int
	Seconds int
}

// baseMAC is the first client's.
var baseMAC = net.HardwareAddr{0x00, 0x0c, 0x01, 0x02, 0x03, 0x04}

// ClientMAC is the address of a client, as perfdhcp makes it: the number's bytes
// are added to the last ones of the first address, each by itself.
func ClientMAC(n int) net.HardwareAddr {
	mac := append(net.HardwareAddr(nil), baseMAC...)
	for i := len(mac) - 1; i >= 0 && n > 0; i-- {
		mac[i] += byte(n)
		n >>= 8
	}
	return mac
}

// Args are those of perfdhcp. It ends by itself, with status 3 if packets were
// lost.
func (l DHCPLoad) Args() []string {
	return []string{"-4", "-r", strconv.Itoa(l.Rate), "-R", strconv.Itoa(l.Clients), "-p", strconv.Itoa(l.Seconds),
		"-b", "mac=" + baseMAC.String(), "-l", l.Device, "-W", "500000", l.Server}
}

// Exchanged is what perfdhcp says of a run.
type Exchanged struct {
	// Rate is how many exchanges were completed for each second in which some were
	// begun. The rate that perfdhcp itself tells is less: it counts the time in
	// which it waits for the last ones.
	Rate float64
	// Lost is the part of packets that were not answered, 0 to 1, of the worse of
	// both pairs.
	Lost float64
}

var sentLine = regexp.MustCompile(`(?m)^sent packets: ([0-9]+)\s*\nreceived packets: ([0-9]+)`)

// Read reads the report of perfdhcp.
func (l DHCPLoad) Read(report string) (Exchanged, error) {
	pairs := sentLine.FindAllStringSubmatch(report, -1)
	if len(pairs) != 2 { // DISCOVER and OFFER, REQUEST and ACK
		return Exchanged{}, fmt.Errorf("perfdhcp says: %s", report)
	}
	var e Exchanged
	for _, p := range pairs {
		sent, errSent := strconv.ParseFloat(p[1], 64)
		received, errReceived := strconv.ParseFloat(p[2], 64)
		if err := errors.Join(errSent, errReceived); err != nil {
			return Exchanged{}, err
		}
		e.Rate = received / float64(l.Seconds)
		if sent > 0 {
			e.Lost = max(e.Lost, 1-received/sent)
		}
	}
	return e, nil
}
