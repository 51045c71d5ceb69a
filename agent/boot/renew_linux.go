// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

// leaseRetry is the least time between two tries (RFC 2131, section 4.4.5, has a minute;
// leases of a minute are given).
const leaseRetry = 30 * time.Second

// Keep asks for the lease again at half of its time, and then after each eighth: the
// server that gave it, and from seven eighths on any (RFC 2131, section 4.4.5). A lease
// that nobody renews is asked for after its end, too: the address is in use, and losing
// it helps nobody. One that is refused is given up, and another asked for.
func (n *leased) Keep(ctx context.Context) {
	defer n.client.Close()
	ack := n.first()
	for ctx.Err() == nil {
		renewed, err := n.renewed(ctx, ack)
		if nak, refused := errors.AsType[*nclient4.ErrNak](err); refused {
			n.log("network: %s is refused by %s, asking for another address", ack.YourIPAddr, nak.Nak.ServerIdentifier())
			renewed = n.replaced(ctx)
		}
		if renewed != nil {
			ack = renewed
		}
	}
}

// renewed waits for the half of the lease and tries until it is renewed, refused, or the
// context ends.
func (n *leased) renewed(ctx context.Context, ack *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	began, life := n.now(), ack.IPAddressLeaseTime(time.Hour)
	for next := max(life/2, leaseRetry); ; next = max(life/8, leaseRetry) {
		if err := n.sleep(ctx, next); err != nil {
			return nil, err
		}
		renewed, err := n.renew(ctx, ack, n.now().Sub(began) >= life-life/8)
		if _, refused := errors.AsType[*nclient4.ErrNak](err); err == nil || refused || ctx.Err() != nil {
			return renewed, err
		}
		n.log("network: renew the lease: %v", err)
	}
}

// renew asks once for the same address: the server that gave it, or any. That another one
// refuses counts only where none says yes: it may know nothing of this lease.
func (n *leased) renew(ctx context.Context, ack *dhcpv4.DHCPv4, ofAny bool) (*dhcpv4.DHCPv4, error) {
	request, err := dhcpv4.NewRenewFromAck(ack, append(identity(false),
		dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)))...)
	if err != nil {
		return nil, fmt.Errorf("make a DHCPREQUEST: %w", err)
	}
	var refusal *dhcpv4.DHCPv4
	answer, err := n.client.SendAndRead(ctx, n.client.RemoteAddr(), request, func(m *dhcpv4.DHCPv4) bool {
		giver := m.ServerIdentifier().Equal(ack.ServerIdentifier())
		switch {
		case !giver && !ofAny:
			return false
		case m.MessageType() == dhcpv4.MessageTypeAck:
			return m.YourIPAddr.Equal(ack.YourIPAddr)
		case m.MessageType() == dhcpv4.MessageTypeNak:
			refusal = m
			return giver
		}
		return false
	})
	switch {
	case ctx.Err() != nil: // who else might have answered is not known
		return nil, context.Cause(ctx)
	case refusal != nil && (err != nil || answer == refusal):
		return nil, &nclient4.ErrNak{Offer: ack, Nak: refusal}
	case err != nil:
		return nil, err
	}
	return answer, nil
}

// replaced takes the address off and configures the NIC anew, until that succeeds; nil
// when the context ends before.
func (n *leased) replaced(ctx context.Context) *dhcpv4.DHCPv4 {
	if err := n.remove(n.link, n.first()); err != nil {
		n.log("network: %v", err)
	}
	for {
		lease, err := n.client.Request(ctx, identity(false)...)
		if err == nil {
			if err = n.put(n.link, lease.ACK); err == nil {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.ack = lease.ACK
				n.log("network: %s/%d by DHCP from %s", lease.ACK.YourIPAddr, prefixLength(lease.ACK), lease.ACK.ServerIdentifier())
				return lease.ACK
			}
		}
		n.log("network: DHCP: %v", err)
		if n.sleep(ctx, leaseRetry) != nil {
			return nil
		}
	}
}
