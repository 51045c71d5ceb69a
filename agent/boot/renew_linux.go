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

// leaseRetry is the minimum time between two attempts. RFC 2131 section 4.4.5 has a minute,
// but there are leases of a minute.
const leaseRetry = 30 * time.Second

// Keep renews the lease at half of its time and then after each eighth: at the server that
// gave it, and from seven eighths on at any (RFC 2131 section 4.4.5). It continues after the
// end of the lease, since the address is in use. If the lease is refused, it requests another
// address.
func (n *ipv4Lease) Keep(ctx context.Context) {
	defer n.client.Close()
	ack := n.currentACK()
	for ctx.Err() == nil {
		renewed, err := n.awaitRenewal(ctx, ack)
		if nak, refused := errors.AsType[*nclient4.ErrNak](err); refused {
			n.log("network: %s refuses to renew %s; requesting another address", nak.Nak.ServerIdentifier(), ack.YourIPAddr)
			renewed = n.replace(ctx)
		}
		if renewed != nil {
			ack = renewed
		}
	}
}

// awaitRenewal waits for half of the lease time and retries until the lease is renewed or
// refused, or the context ends.
func (n *ipv4Lease) awaitRenewal(ctx context.Context, ack *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	start, life := n.now(), ack.IPAddressLeaseTime(time.Hour)
	for next := max(life/2, leaseRetry); ; next = max(life/8, leaseRetry) {
		if err := n.sleep(ctx, next); err != nil {
			return nil, err
		}
		renewed, err := n.renew(ctx, ack, n.now().Sub(start) >= life-life/8)
		if _, refused := errors.AsType[*nclient4.ErrNak](err); err == nil || refused || ctx.Err() != nil {
			return renewed, err
		}
		n.log("network: renew the lease: %v", err)
	}
}

// renew requests the same address once, from the server that gave it or from any. A refusal
// of another server, which may not know the lease, counts only if none confirms the lease.
func (n *ipv4Lease) renew(ctx context.Context, ack *dhcpv4.DHCPv4, anyServer bool) (*dhcpv4.DHCPv4, error) {
	request, err := dhcpv4.NewRenewFromAck(ack, append(clientOptions(false),
		dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)))...)
	if err != nil {
		return nil, fmt.Errorf("make a DHCPREQUEST: %w", err)
	}
	var refusal *dhcpv4.DHCPv4
	answer, err := n.client.SendAndRead(ctx, n.client.RemoteAddr(), request, func(m *dhcpv4.DHCPv4) bool {
		sameServer := m.ServerIdentifier().Equal(ack.ServerIdentifier())
		switch {
		case !sameServer && !anyServer:
			return false
		case m.MessageType() == dhcpv4.MessageTypeAck:
			return m.YourIPAddr.Equal(ack.YourIPAddr)
		case m.MessageType() == dhcpv4.MessageTypeNak:
			refusal = m
			return sameServer
		}
		return false
	})
	switch {
	case ctx.Err() != nil: // another server might still have confirmed
		return nil, context.Cause(ctx)
	case refusal != nil && (err != nil || answer == refusal):
		return nil, &nclient4.ErrNak{Offer: ack, Nak: refusal}
	case err != nil:
		return nil, err
	}
	return answer, nil
}

// replace removes the address and configures another, with retries. It returns nil if the
// context ends.
func (n *ipv4Lease) replace(ctx context.Context) *dhcpv4.DHCPv4 {
	if err := n.remove(n.link, n.currentACK()); err != nil {
		n.log("network: %v", err)
	}
	for {
		lease, err := n.client.Request(ctx, clientOptions(false)...)
		if err == nil {
			if err = n.apply(n.link, lease.ACK); err == nil {
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
