// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"
)

// The replicas on a segment, and the addresses that they give.
var (
	replicaA, replicaB    = net.IPv4(192, 0, 2, 2), net.IPv4(192, 0, 2, 3)
	address, otherAddress = net.IPv4(192, 0, 2, 7), net.IPv4(192, 0, 2, 8)
	hardware              = net.HardwareAddr{2, 0, 0, 0, 0, 1}
)

// said is what one replica says to a request, or to a DISCOVER.
type said struct {
	kind    dhcpv4.MessageType
	by, yip net.IP
}

// renewing is the boot NIC with a lease of eight hours of replica A's, on a segment whose
// replicas answer the n-th request (from 1 on) with what says returns. The time passes when
// it is waited.
type renewing struct {
	*leased
	now    time.Time
	waited []time.Duration
	// changes of the link's address, and lines of the log.
	changes, lines []string
}

func newRenewing(t *testing.T, says func(n int, asked dhcpv4.MessageType) []said) *renewing {
	t.Helper()
	client, server := loopback(t, hardware, 500*time.Millisecond, 1)
	go answerRequests(server, says)
	r := &renewing{now: time.Unix(0, 0)}
	r.leased = &leased{client: client, ack: lease(replicaA, address), now: func() time.Time { return r.now },
		log: func(format string, args ...any) { r.lines = append(r.lines, fmt.Sprintf(format, args...)) },
		put: func(_ netlink.Link, ack *dhcpv4.DHCPv4) error {
			r.changes = append(r.changes, "put "+ack.YourIPAddr.String())
			return nil
		},
		remove: func(_ netlink.Link, ack *dhcpv4.DHCPv4) error {
			r.changes = append(r.changes, "remove "+ack.YourIPAddr.String())
			return nil
		}}
	return r
}

// lease is the ACK of one.
func lease(by, yip net.IP) *dhcpv4.DHCPv4 {
	ack, err := dhcpv4.New(dhcpv4.WithHwAddr(hardware), dhcpv4.WithYourIP(yip), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(by)), dhcpv4.WithLeaseTime(8*3600))
	if err != nil {
		panic(err)
	}
	ack.OpCode = dhcpv4.OpcodeBootReply
	return ack
}

func answerRequests(server *net.UDPConn, says func(n int, asked dhcpv4.MessageType) []said) {
	buf := make([]byte, 2048)
	for n := 1; ; n++ {
		size, from, err := server.ReadFromUDP(buf)
		if err != nil {
			return
		}
		request, err := dhcpv4.FromBytes(buf[:size])
		if err != nil {
			continue
		}
		for _, a := range says(n, request.MessageType()) {
			reply, err := dhcpv4.NewReplyFromRequest(request, dhcpv4.WithMessageType(a.kind), dhcpv4.WithYourIP(a.yip),
				dhcpv4.WithOption(dhcpv4.OptServerIdentifier(a.by)), dhcpv4.WithLeaseTime(8*3600))
			if err != nil {
				return
			}
			_, _ = server.WriteToUDP(reply.ToBytes(), from)
		}
	}
}

// keep lets so many waits pass.
func (r *renewing) keep(t *testing.T, waits int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.sleep = func(ctx context.Context, d time.Duration) error {
		if r.waited, r.now = append(r.waited, d), r.now.Add(d); len(r.waited) == waits {
			cancel()
		}
		return ctx.Err()
	}
	r.Keep(ctx)
}

// A lease is renewed by who gave it, and towards its end by anybody: the replica that gave
// it may be gone for good, and the server at an install that takes longer than the lease.
func TestKeep(t *testing.T) {
	const (
		ack, nak, offer = dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak, dhcpv4.MessageTypeOffer
		half, eighth    = 4 * time.Hour, time.Hour
	)
	always := func(all ...said) func(int, dhcpv4.MessageType) []said {
		return func(int, dhcpv4.MessageType) []said { return all }
	}
	// gives answers a DISCOVER and the request after it; before that the first says.
	gives := func(first []said, by, yip net.IP) func(int, dhcpv4.MessageType) []said {
		anew := false
		return func(_ int, asked dhcpv4.MessageType) []said {
			switch {
			case asked == dhcpv4.MessageTypeDiscover:
				anew = true
				return []said{{offer, by, yip}}
			case anew:
				return []said{{ack, by, yip}}
			}
			return first
		}
	}
	for _, c := range []struct {
		name    string
		says    func(n int, asked dhcpv4.MessageType) []said
		waited  []time.Duration
		changes []string
	}{
		{name: "by who gave it", says: always(said{ack, replicaA, address}), waited: []time.Duration{half, half, half}},
		{
			name: "one request is lost", waited: []time.Duration{half, eighth, half},
			says: func(n int, _ dhcpv4.MessageType) []said {
				if n == 1 {
					return nil
				}
				return []said{{ack, replicaA, address}}
			},
		},
		{
			name: "by another replica, and then by that one", says: always(said{ack, replicaB, address}),
			waited: []time.Duration{half, eighth, eighth, eighth, half, half},
		},
		{
			name: "another address is none", says: always(said{ack, replicaB, otherAddress}),
			waited: []time.Duration{half, eighth, eighth, eighth, eighth, eighth},
		},
		{
			name: "refused by another, and renewed", says: always(said{nak, replicaB, nil}, said{ack, replicaA, address}),
			waited: []time.Duration{half, half},
		},
		{
			name: "refused by another, towards the end", says: always(said{nak, replicaB, nil}, said{ack, net.IPv4(192, 0, 2, 4), address}),
			waited: []time.Duration{half, eighth, eighth, eighth, half},
		},
		{
			name: "refused by who gave it", says: gives([]said{{nak, replicaA, nil}}, replicaA, otherAddress),
			waited: []time.Duration{half, half, half}, changes: []string{"remove 192.0.2.7", "put 192.0.2.8"},
		},
		{
			name: "refused by all that are left", says: gives([]said{{nak, replicaB, nil}}, replicaB, otherAddress),
			waited: []time.Duration{half, eighth, eighth, eighth, half, half}, changes: []string{"remove 192.0.2.7", "put 192.0.2.8"},
		},
		{
			name: "refused, and nobody gives another", says: func(n int, _ dhcpv4.MessageType) []said {
				if n == 1 {
					return []said{{nak, replicaA, nil}}
				}
				return nil
			},
			waited: []time.Duration{half, leaseRetry, leaseRetry}, changes: []string{"remove 192.0.2.7"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // what is not answered is waited for in real time
			r := newRenewing(t, c.says)
			r.keep(t, len(c.waited))
			if diff := cmp.Diff(c.waited, r.waited); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.changes, r.changes); diff != "" {
				t.Error(diff)
			}
			if t.Failed() {
				t.Log(r.lines)
			}
		})
	}
}

// One that is called off while it waits does not know whether another would have said yes.
func TestRenewIsCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newRenewing(t, func(int, dhcpv4.MessageType) []said {
		time.AfterFunc(100*time.Millisecond, cancel) // the refusal is there by then
		return []said{{kind: dhcpv4.MessageTypeNak, by: replicaB}}
	})
	if _, err := r.renew(ctx, r.first(), true); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
