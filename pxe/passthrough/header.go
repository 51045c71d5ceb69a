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
	// proxyVersion is the version that supports TLVs.
	proxyVersion = 2
	// sealType is the TLV of the seal, a custom type (PROXY protocol specification, section
	// 2.2, PP2_TYPE_MIN_CUSTOM).
	sealType = proxyproto.PP2Type(0xE1)
	// hardwareType is the TLV of the MAC address from Config.Hardware. It is only sent when
	// known, for compatibility with managers that do not support it.
	hardwareType = proxyproto.PP2Type(0xE2)
	// timeBytes is the length of the time before the MAC in the seal.
	timeBytes = 8
	// sealLifetime is the maximal clock difference of the two sides, and limits the replay
	// of recorded headers. It equals the lifetime of tokens.
	sealLifetime = 10 * time.Minute
)

// errSeal means that the header was written without the key or long ago.
var errSeal = errors.New("PROXY header has no valid seal")

// newHeader returns the header for a connection. Parameter hardware is the boot NIC of the
// source, or nil.
func newHeader(source, destination net.Addr, hardware net.HardwareAddr, now time.Time, seal func([]byte) []byte) (*proxyproto.Header, error) {
	header := proxyproto.HeaderProxyFromAddrs(proxyVersion, source, destination)
	if header.Command != proxyproto.PROXY {
		return nil, fmt.Errorf("PROXY header does not support addresses %s and %s", source, destination)
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

// sealedMessage returns the message that the seal authenticates: both addresses, the time, and
// the MAC address if known.
func sealedMessage(header *proxyproto.Header, hardware net.HardwareAddr, at []byte) []byte {
	message := fmt.Appendf(nil, "ingot passthrough\n%s\n%s\n%x", normalize(header.SourceAddr), normalize(header.DestinationAddr), at)
	if len(hardware) > 0 {
		message = fmt.Appendf(message, "\n%s", hardware)
	}
	return message
}

// hardwareIn returns the MAC address in a header, or nil.
func hardwareIn(tlvs []proxyproto.TLV) net.HardwareAddr {
	for _, tlv := range tlvs {
		if tlv.Type == hardwareType {
			return net.HardwareAddr(tlv.Value)
		}
	}
	return nil
}

// normalize normalizes an address as a header carries it: without zone, and IPv4 as IPv4.
func normalize(address net.Addr) netip.AddrPort {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// check fails for every header that newHeader would not have written.
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
		return fmt.Errorf("%w: written %s ago; check the clocks of the nodes", errSeal, age)
	}
	return nil
}
