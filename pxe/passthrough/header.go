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
	// hardwareType is the TLV with the MAC address of Config.Hardware. It is left out where
	// there is none, so that managers which do not know it take the rest.
	hardwareType = proxyproto.PP2Type(0xE2)
	// timeBytes is the length of the time before the sum in the seal.
	timeBytes = 8
	// sealLifetime is how far the clocks of the two sides may be apart, and how long
	// a header that somebody recorded could be used again. A token lives as long.
	sealLifetime = 10 * time.Minute
)

// errSeal: the header was not written by one who has the key, or long ago.
var errSeal = errors.New("PROXY header has no valid seal")

// newHeader describes a connection that came from source to destination. Hardware is the
// boot NIC at the source; nil: it is not known.
func newHeader(source, destination net.Addr, hardware net.HardwareAddr, now time.Time, seal func([]byte) []byte) (*proxyproto.Header, error) {
	header := proxyproto.HeaderProxyFromAddrs(proxyVersion, source, destination)
	if header.Command != proxyproto.PROXY {
		return nil, fmt.Errorf("addresses %s and %s have no form in a PROXY header", source, destination)
	}
	at := binary.BigEndian.AppendUint64(nil, uint64(now.Unix()))
	value := append(at, seal(sealedMessage(header, hardware, at))...)
	tlvs := []proxyproto.TLV{{Type: sealType, Value: value}}
	if len(hardware) > 0 {
		tlvs = append(tlvs, proxyproto.TLV{Type: hardwareType, Value: hardware})
	}
	if err := header.SetTLVs(tlvs); err != nil {
		return nil, fmt.Errorf("PROXY header: %w", err)
	}
	return header, nil
}

// sealedMessage is what the seal covers: both addresses, the time, and the MAC address if
// there is one.
func sealedMessage(header *proxyproto.Header, hardware net.HardwareAddr, at []byte) []byte {
	message := fmt.Appendf(nil, "ingot passthrough\n%s\n%s\n%x", plain(header.SourceAddr), plain(header.DestinationAddr), at)
	if len(hardware) > 0 {
		message = fmt.Appendf(message, "\n%s", hardware)
	}
	return message
}

// hardwareIn returns the MAC address in a header; nil: there is none.
func hardwareIn(tlvs []proxyproto.TLV) net.HardwareAddr {
	for _, tlv := range tlvs {
		if tlv.Type == hardwareType {
			return net.HardwareAddr(tlv.Value)
		}
	}
	return nil
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
	if err != nil || len(tlvs) == 0 || tlvs[0].Type != sealType || len(tlvs[0].Value) < timeBytes {
		return errSeal
	}
	hardware := hardwareIn(tlvs[1:])
	if len(tlvs) > 2 || len(tlvs) == 2 && len(hardware) != 6 {
		return errSeal
	}
	at, sum := tlvs[0].Value[:timeBytes], tlvs[0].Value[timeBytes:]
	if !sealed(sealedMessage(header, hardware, at), sum) {
		return errSeal
	}
	written := time.Unix(int64(binary.BigEndian.Uint64(at)), 0)
	if age := now.Sub(written); age > sealLifetime || age < -sealLifetime {
		return fmt.Errorf("%w: it was written %s ago; are the clocks of the nodes right?", errSeal, age)
	}
	return nil
}
