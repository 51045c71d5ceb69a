// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	proxyproto "github.com/pires/go-proxyproto"
)

const (
	// proxyVersion is the only version with room for a seal.
	proxyVersion = 2
	// sealType is the TLV with the seal, of the range for own use (PROXY protocol
	// specification, section 2.2, PP2_TYPE_MIN_CUSTOM).
	sealType = proxyproto.PP2Type(0xE1)
	// timeBytes is the length of the time before the sum in the seal.
	timeBytes = 8
	// sealLifetime is how far the clocks of the two sides may be apart, and how long
	// a header that somebody recorded could be used again. A token lives as long.
	sealLifetime = 10 * time.Minute
)

// errSeal: the header was not written by one who has the key, or long ago.
var errSeal = errors.New("PROXY header has no valid seal")

// newHeader describes a connection that came from source to destination.
func newHeader(source, destination net.Addr, now time.Time, seal func([]byte) []byte) (*proxyproto.Header, error) {
	header := proxyproto.HeaderProxyFromAddrs(proxyVersion, source, destination)
	if header.Command != proxyproto.PROXY {
		return nil, fmt.Errorf("addresses %s and %s have no form in a PROXY header", source, destination)
	}
	at := binary.BigEndian.AppendUint64(nil, uint64(now.Unix()))
	value := append(at, seal(sealedMessage(header, at))...)
	if err := header.SetTLVs([]proxyproto.TLV{{Type: sealType, Value: value}}); err != nil {
		return nil, fmt.Errorf("PROXY header: %w", err)
	}
	return header, nil
}

// sealedMessage is what the seal covers: both addresses and the time.
func sealedMessage(header *proxyproto.Header, at []byte) []byte {
	return fmt.Appendf(nil, "ingot passthrough\n%s\n%s\n%x", plain(header.SourceAddr), plain(header.DestinationAddr), at)
}

// plain is an address as it is after the way over the wire: the header carries no
// zone, and IPv4 in either of its forms.
func plain(address net.Addr) netip.AddrPort {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// check refuses every header that newHeader would not have written.
func check(header *proxyproto.Header, now time.Time, sealed func(message, sum []byte) bool) error {
	if header.Version != proxyVersion || header.Command != proxyproto.PROXY {
		return errSeal
	}
	if _, _, ok := header.TCPAddrs(); !ok {
		return errSeal
	}
	tlvs, err := header.TLVs()
	if err != nil || len(tlvs) != 1 || tlvs[0].Type != sealType || len(tlvs[0].Value) < timeBytes {
		return errSeal
	}
	at, sum := tlvs[0].Value[:timeBytes], tlvs[0].Value[timeBytes:]
	if !sealed(sealedMessage(header, at), sum) {
		return errSeal
	}
	written := time.Unix(int64(binary.BigEndian.Uint64(at)), 0)
	if age := now.Sub(written); age > sealLifetime || age < -sealLifetime {
		return fmt.Errorf("%w: it was written %s ago; are the clocks of the nodes right?", errSeal, age)
	}
	return nil
}
