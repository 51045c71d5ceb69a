// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"
)

// Payload types (IPMI v2.0 table 13-16).
const (
	payloadIPMI         = 0x00
	payloadSOL          = 0x01
	payloadOpenRequest  = 0x10
	payloadOpenResponse = 0x11
	payloadRAKP1        = 0x12
	payloadRAKP2        = 0x13
	payloadRAKP3        = 0x14
	payloadRAKP4        = 0x15
)

const (
	// headerLength is the length of the RMCP (4) and RMCP+ session (12) headers, §13.6 table 13-8.
	headerLength = 16
	// maxPacket exceeds the payload of every BMC. A longer packet is truncated and fails its check.
	maxPacket = 2048
)

// rmcp is the RMCP header of IPMI messages: version 1.0, no ACK, class IPMI.
var rmcp = [4]byte{0x06, 0x00, 0xff, 0x07}

var errPacket = errors.New("not a packet of this session")

// suite is a cipher suite (§22.15.2 table 22-20).
type suite struct {
	id        int
	auth      types.AuthAlg
	integrity types.IntegrityAlg
}

// suites lists the supported suites in order of preference; both encrypt with AES-CBC-128. 17
// is HMAC-SHA256, and 3 is HMAC-SHA1, which every BMC must support.
func suites() []suite {
	return []suite{
		{17, types.AuthAlg_HMAC_SHA256, types.IntegrityAlg_HMAC_SHA256_128},
		{3, types.AuthAlg_HMAC_SHA1, types.IntegrityAlg_HMAC_SHA1_96},
	}
}

// keys sign and encrypt the packets of a session.
type keys struct {
	suite  suite
	k1, k2 []byte
}

// codeLength returns the length of a packet's signature, in bytes.
func (k *keys) codeLength() int {
	n, _ := crypto.IntegrityAuthCodeLen(k.suite.integrity)
	return n
}

// code signs a packet from the byte after its RMCP header (§13.28.4).
func (k *keys) code(signed []byte) ([]byte, error) {
	return crypto.SessionIntegrityAuthCode(k.suite.integrity, signed, k.k1, "")
}

// plainPacket packs a payload outside of a session.
func plainPacket(payloadType byte, payload []byte) []byte {
	p := make([]byte, headerLength, headerLength+len(payload))
	copy(p, rmcp[:])
	p[4], p[5] = 0x06, payloadType
	binary.LittleEndian.PutUint16(p[14:], uint16(len(payload)))
	return append(p, payload...)
}

// seal packs, encrypts and signs a payload of a session.
func (k *keys) seal(payloadType byte, session, sequence uint32, payload []byte) ([]byte, error) {
	iv := make([]byte, 16)
	_, _ = rand.Read(iv) // never fails
	body, err := crypto.EncryptAESPayload(payload, k.k2, iv)
	if err != nil {
		return nil, fmt.Errorf("encrypt packet: %w", err)
	}
	p := plainPacket(payloadType|0xc0, body)
	binary.LittleEndian.PutUint32(p[6:], session)
	binary.LittleEndian.PutUint32(p[10:], sequence)
	// The trailer pads to a multiple of four: pad, its length, next header.
	pad := (4 - (len(p)-4+2)%4) % 4
	for range pad {
		p = append(p, 0xff)
	}
	p = append(p, byte(pad), 0x07)
	code, err := k.code(p[4:])
	if err != nil {
		return nil, fmt.Errorf("sign packet: %w", err)
	}
	return append(p, code...), nil
}

// openPlain unpacks a payload outside of a session.
func openPlain(p []byte) (payloadType byte, payload []byte, _ error) {
	if len(p) < headerLength || p[0] != rmcp[0] || p[3] != rmcp[3] || p[4] != 0x06 || p[5]&0xc0 != 0 {
		return 0, nil, errPacket
	}
	n := int(binary.LittleEndian.Uint16(p[14:]))
	if len(p) < headerLength+n {
		return 0, nil, errPacket
	}
	return p[5] & 0x3f, p[headerLength : headerLength+n], nil
}

// unseal verifies and decrypts a packet of a session. It does not parse packets with a wrong
// signature.
func (k *keys) unseal(p []byte, session uint32) (payloadType byte, sequence uint32, payload []byte, _ error) {
	n := k.codeLength()
	if len(p) < headerLength+2+n || p[0] != rmcp[0] || p[3] != rmcp[3] || p[4] != 0x06 || p[5]&0xc0 != 0xc0 {
		return 0, 0, nil, errPacket
	}
	if binary.LittleEndian.Uint32(p[6:]) != session {
		return 0, 0, nil, errPacket
	}
	signed, code := p[4:len(p)-n], p[len(p)-n:]
	want, err := k.code(signed)
	if err != nil || !hmac.Equal(want, code) {
		return 0, 0, nil, errPacket
	}
	length := int(binary.LittleEndian.Uint16(p[14:]))
	if headerLength+length+2 > len(p)-n || length < 32 || length%16 != 0 {
		return 0, 0, nil, errPacket
	}
	payload, err = crypto.DecryptAESPayload(p[headerLength:headerLength+length], k.k2)
	if err != nil {
		return 0, 0, nil, errPacket
	}
	return p[5] & 0x3f, binary.LittleEndian.Uint32(p[10:]), payload, nil
}

// Addresses in messages (§5.5): the BMC, and the software of a remote console.
const (
	addressBMC     = 0x20
	addressConsole = 0x81
)

// message packs an IPMI request (§13.8).
func message(netFn, command, sequence byte, data []byte) []byte {
	m := []byte{addressBMC, netFn << 2, 0, addressConsole, sequence << 2, command}
	m[2] = checksum(m[:2])
	m = append(m, data...)
	return append(m, checksum(m[3:]))
}

// answer is an IPMI response.
type answer struct {
	netFn, command, sequence byte
	code                     byte
	data                     []byte
}

// parseMessage unpacks an IPMI response.
func parseMessage(m []byte) (answer, error) {
	if len(m) < 8 || checksum(m[:2]) != m[2] || checksum(m[3:len(m)-1]) != m[len(m)-1] {
		return answer{}, errPacket
	}
	return answer{netFn: m[1] >> 2, sequence: m[4] >> 2, command: m[5], code: m[6], data: m[7 : len(m)-1]}, nil
}

// checksum is the two's complement of the sum (§13.8).
func checksum(b []byte) (sum byte) {
	for _, x := range b {
		sum -= x
	}
	return sum
}

// request15 packs a request outside of any session in the form of IPMI v1.5, which is required
// for the first request (§13.15).
func request15(netFn, command, sequence byte, data []byte) []byte {
	m := message(netFn, command, sequence, data)
	p := append(append([]byte(nil), rmcp[:]...), make([]byte, 10)...)
	p[13] = byte(len(m))
	return append(p, m...)
}

// parse15 unpacks the answer to request15. Some BMCs answer in the form of IPMI v2.0 outside of
// any session (pyghmi, and so VirtualBMC, to Get Channel Cipher Suites).
func parse15(p []byte) (answer, error) {
	if kind, payload, err := openPlain(p); err == nil && kind == payloadIPMI {
		return parseMessage(payload)
	}
	if len(p) < 14 || p[0] != rmcp[0] || p[3] != rmcp[3] || p[4] != 0 || len(p) < 14+int(p[13]) {
		return answer{}, errPacket
	}
	return parseMessage(p[14 : 14+int(p[13])])
}
