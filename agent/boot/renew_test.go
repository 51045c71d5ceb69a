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

// Two replicas and the addresses that they offer.
var (
	replicaA, replicaB    = net.IPv4(192, 0, 2, 2), net.IPv4(192, 0, 2, 3)
	address, otherAddress = net.IPv4(192, 0, 2, 7), net.IPv4(192, 0, 2, 8)
	hardware              = net.HardwareAddr{2, 0, 0, 0, 0, 1}
)

// reply is a replica's answer to a DHCPREQUEST or DHCPDISCOVER.
type reply struct {
	kind    dhcpv4.MessageType
	by, yip net.IP
}

// renewing is an ipv4Lease of eight hours from replica A. answers returns the replies to the
// n-th request (from 1). The clock advances by sleeping.
type renewing struct {
	*ipv4Lease
	now    time.Time
	waited []time.Duration
	// changes of the address, and lines of the log.
	changes, lines []string
}

func newRenewing(t *testing.T, answers func(n int, asked dhcpv4.MessageType) []reply) *renewing {
	t.Helper()
	client, server := loopback(t, hardware, 500*time.Millisecond, 1)
	go answerRequests(server, answers)
	r := &renewing{now: time.Unix(0, 0)}
	r.ipv4Lease = &ipv4Lease{client: client, ack: lease(replicaA, address), now: func() time.Time { return r.now },
		log: func(format string, args ...any) { r.lines = append(r.lines, fmt.Sprintf(format, args...)) },
		apply: func(_ netlink.Link, ack *dhcpv4.DHCPv4) error {
			r.changes = append(r.changes, "apply "+ack.YourIPAddr.String())
			return nil
		},
		remove: func(_ netlink.Link, ack *dhcpv4.DHCPv4) error {
			r.changes = append(r.changes, "remove "+ack.YourIPAddr.String())
			return nil
		}}
	return r
}

// lease returns an ACK.
func lease(by, yip net.IP) *dhcpv4.DHCPv4 {
	ack, err := dhcpv4.New(dhcpv4.WithHwAddr(hardware), dhcpv4.WithYourIP(yip), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(by)), dhcpv4.WithLeaseTime(8*3600))
	if err != nil {
		panic(err)
	}
	ack.OpCode = dhcpv4.OpcodeBootReply
	return ack
}

func answerRequests(server *net.UDPConn, answers func(n int, asked dhcpv4.MessageType) []reply) {
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
		for _, a := range answers(n, request.MessageType()) {
			reply, err := dhcpv4.NewReplyFromRequest(request, dhcpv4.WithMessageType(a.kind), dhcpv4.WithYourIP(a.yip),
				dhcpv4.WithOption(dhcpv4.OptServerIdentifier(a.by)), dhcpv4.WithLeaseTime(8*3600))
			if err != nil {
				return
			}
			_, _ = server.WriteToUDP(reply.ToBytes(), from)
		}
	}
}

// keep runs Keep for a number of sleeps.
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

// A lease is renewed at its server, and towards its end at any: the first replica may be gone,
// and an install may take longer than the lease.
func TestLeaseIsRenewed(t *testing.T) {
	const (
		ack, nak, offer = dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak, dhcpv4.MessageTypeOffer
		half, eighth    = 4 * time.Hour, time.Hour
	)
	always := func(all ...reply) func(int, dhcpv4.MessageType) []reply {
		return func(int, dhcpv4.MessageType) []reply { return all }
	}
	// offers answers the first requests with first, and later a DHCPDISCOVER and its request.
	offers := func(first []reply, by, yip net.IP) func(int, dhcpv4.MessageType) []reply {
		discovered := false
		return func(_ int, asked dhcpv4.MessageType) []reply {
			switch {
			case asked == dhcpv4.MessageTypeDiscover:
				discovered = true
				return []reply{{offer, by, yip}}
			case discovered:
				return []reply{{ack, by, yip}}
			}
			return first
		}
	}
	for _, c := range []struct {
		name    string
		answers func(n int, asked dhcpv4.MessageType) []reply
		waited  []time.Duration
		changes []string
	}{
		{name: "by its server", answers: always(reply{ack, replicaA, address}), waited: []time.Duration{half, half, half}},
		{
			name: "a lost request", waited: []time.Duration{half, eighth, half},
			answers: func(n int, _ dhcpv4.MessageType) []reply {
				if n == 1 {
					return nil
				}
				return []reply{{ack, replicaA, address}}
			},
		},
		{
			name: "by another replica, then at that one", answers: always(reply{ack, replicaB, address}),
			waited: []time.Duration{half, eighth, eighth, eighth, half, half},
		},
		{
			name: "another address does not count", answers: always(reply{ack, replicaB, otherAddress}),
			waited: []time.Duration{half, eighth, eighth, eighth, eighth, eighth},
		},
		{
			name: "refused by another, and confirmed", answers: always(reply{nak, replicaB, nil}, reply{ack, replicaA, address}),
			waited: []time.Duration{half, half},
		},
		{
			name: "refused by another, towards the end", answers: always(reply{nak, replicaB, nil}, reply{ack, net.IPv4(192, 0, 2, 4), address}),
			waited: []time.Duration{half, eighth, eighth, eighth, half},
		},
		{
			name: "refused by its server", answers: offers([]reply{{nak, replicaA, nil}}, replicaA, otherAddress),
			waited: []time.Duration{half, half, half}, changes: []string{"remove 192.0.2.7", "apply 192.0.2.8"},
		},
		{
			name: "refused by all", answers: offers([]reply{{nak, replicaB, nil}}, replicaB, otherAddress),
			waited: []time.Duration{half, eighth, eighth, eighth, half, half}, changes: []string{"remove 192.0.2.7", "apply 192.0.2.8"},
		},
		{
			name: "refused, without another address", answers: func(n int, _ dhcpv4.MessageType) []reply {
				if n == 1 {
					return []reply{{nak, replicaA, nil}}
				}
				return nil
			},
			waited: []time.Duration{half, leaseRetry, leaseRetry}, changes: []string{"remove 192.0.2.7"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // timeouts use real time
			r := newRenewing(t, c.answers)
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

// A canceled renewal is not a refusal: another server might still have confirmed.
func TestCanceledRenewalIsNoRefusal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newRenewing(t, func(int, dhcpv4.MessageType) []reply {
		time.AfterFunc(100*time.Millisecond, cancel) // the refusal is there by then
		return []reply{{kind: dhcpv4.MessageTypeNak, by: replicaB}}
	})
	if _, err := r.renew(ctx, r.currentACK(), true); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
