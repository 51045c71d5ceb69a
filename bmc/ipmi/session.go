// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/bmc"
)

// session is an open RMCP+ session.
type session struct {
	wire *wire
	keys keys
	// localID and bmcID are the session's IDs. Packets to this side carry localID.
	localID, bmcID uint32
	// sequence is that of the last sent packet, highest that of the received packets.
	sequence, highest uint32
	// request is the sequence number of the last request, 6 bits.
	request byte
	// guid is the server's GUID from the login.
	guid [16]byte
}

// role is the requested maximum privilege: Administrator, looked up by the name only (§13.20),
// as in ipmitool.
const role = 0x14

// privilegeAdministrator is the privilege that the calls need (appendix G).
const privilegeAdministrator = 0x04

// openSession opens a session: capabilities, cipher suite, RAKP, privilege (§13.15). If it
// fails, it leaves no session at the BMC.
func openSession(ctx context.Context, host string, target bmc.Target) (*session, error) {
	w, err := openWire(ctx, target, host)
	if err != nil {
		return nil, setupError("resolve the address", nil, err)
	}
	s := &session{wire: w}
	if err := s.capabilities(ctx, plan{}); err != nil {
		w.close()
		return nil, setupError("probe for IPMI v2.0", w, err)
	}
	err = s.negotiate(ctx, target)
	if err == nil {
		if err = s.raisePrivilege(ctx); err != nil {
			s.forget()
		}
	}
	if err != nil {
		w.close()
		return nil, setupError("open a session", w, err)
	}
	return s, nil
}

// ask sends a request outside of any session, in the form of IPMI v1.5.
func (s *session) ask(ctx context.Context, p plan, code byte, data []byte) (answer, error) {
	s.request = s.request%63 + 1
	packet := request15(netFnApp, code, s.request, data)
	var a answer
	err := s.wire.exchange(ctx, p, func() ([]byte, error) { return packet, nil }, func(p []byte) (bool, error) {
		got, err := parse15(p)
		if err != nil || got.command != code || got.sequence != s.request {
			return false, nil
		}
		a = got
		a.data = slices.Clone(got.data) // the buffer is reused
		return true, nil
	})
	return a, err
}

// capabilities sends Get Channel Authentication Capabilities for this channel and
// administrators (§22.13).
func (s *session) capabilities(ctx context.Context, p plan) error {
	a, err := s.ask(ctx, p, 0x38, []byte{0x8e, privilegeAdministrator})
	if err != nil {
		return err
	}
	switch {
	case a.code != 0:
		return &codeError{code: a.code}
	case len(a.data) < 4:
		return bmc.ErrProtocol
	case a.data[1]&0x80 == 0 || a.data[3]&0x02 == 0:
		return fmt.Errorf("%w: the BMC has only IPMI v1.5, which does not encrypt", bmc.ErrNotSupported)
	}
	return nil
}

// offeredSuites reads the BMC's list of cipher suites (§22.15), because some BMCs do not
// answer to an unsupported suite. Nil: the BMC does not report a list.
func (s *session) offeredSuites(ctx context.Context) []int {
	const whole, most = 16, 64 // bytes of an answer that continues; number of answers
	var list []byte
	for index := range most {
		a, err := s.ask(ctx, plan{tries: 2}, 0x54, []byte{0x0e, payloadIPMI, byte(0x80 | index)})
		if err != nil || a.code != 0 || len(a.data) < 1 {
			break
		}
		list = append(list, a.data[1:]...)
		if len(a.data) < 1+whole {
			break
		}
	}
	return parseSuites(list)
}

// parseSuites parses cipher suite records (§22.15.2 table 22-18): C0h and the ID, or C1h, the
// ID and a vendor; then algorithms, whose first two bits are not both set.
func parseSuites(list []byte) []int {
	var ids []int
	for i := 0; i < len(list); i++ {
		if list[i]&0xfe == 0xc0 && i+1 < len(list) {
			if list[i] == 0xc0 {
				ids = append(ids, int(list[i+1]))
			}
			i++
		}
	}
	return ids
}

// negotiate tries the supported cipher suites that the BMC lists, or all if it lists none of
// them. It tries the next one only after a refused suite or a missing answer: a second login
// after a refused one might lock the account.
func (s *session) negotiate(ctx context.Context, target bmc.Target) error {
	wanted := suites()
	offered := s.offeredSuites(ctx)
	if listed := slices.DeleteFunc(suites(), func(c suite) bool { return !slices.Contains(offered, c.id) }); len(listed) > 0 {
		wanted = listed
	}
	var last error
	for i, suite := range wanted {
		p := plan{}
		if i < len(wanted)-1 {
			p.tries = 2 // some BMCs do not answer to an unsupported suite
		}
		err := s.login(ctx, suite, target, p)
		if err == nil {
			return nil
		}
		refused, ok := errors.AsType[*statusError](err)
		if !(ok && refused.mayNeedOtherSuite()) && !(errors.Is(err, errNoAnswer) && s.bmcID == 0) {
			return err
		}
		last = err
	}
	return last
}

// setup exchanges one message of session setup. It identifies the answer by type and session.
func (s *session) setup(ctx context.Context, p plan, ask byte, payload []byte, want byte) ([]byte, error) {
	packet := plainPacket(ask, payload)
	var got []byte
	err := s.wire.exchange(ctx, p, func() ([]byte, error) { return packet, nil }, func(p []byte) (bool, error) {
		kind, payload, err := openPlain(p)
		if err != nil || kind != want || len(payload) < 8 {
			return false, nil
		}
		if id := binary.LittleEndian.Uint32(payload[4:]); id != s.localID && payload[1] == 0 {
			return false, nil // another session, or an earlier attempt
		}
		got = append([]byte(nil), payload...)
		return true, nil
	})
	return got, err
}

// login runs Open Session and RAKP with one suite.
func (s *session) login(ctx context.Context, suite suite, target bmc.Target, p plan) error {
	var random [20]byte
	_, _ = rand.Read(random[:]) // never fails
	s.localID, s.bmcID = binary.LittleEndian.Uint32(random[16:])|1, 0
	auth, integrity, crypt := rmcpplus.NewAlgorithmPayloads(suite.auth, suite.integrity, types.CryptAlg_AES_CBC_128)
	open := &rmcpplus.OpenSessionRequest{
		RemoteConsoleSessionID: s.localID, AuthenticationPayload: auth, IntegrityPayload: integrity, ConfidentialityPayload: crypt,
	}
	raw, err := s.setup(ctx, p, payloadOpenRequest, open.Pack(), payloadOpenResponse)
	if err != nil {
		return err
	}
	var opened rmcpplus.OpenSessionResponse
	if err := opened.Unpack(raw); err != nil {
		return fmt.Errorf("%w: open session: %w", bmc.ErrProtocol, err)
	}
	if opened.RmcpStatusCode != 0 {
		return &statusError{status: byte(opened.RmcpStatusCode), suite: suite.id, opening: true}
	}
	chosen, ok := suiteOf(opened)
	switch {
	case !ok:
		return fmt.Errorf("%w: the BMC chose other algorithms than those of cipher suites 17 and 3, requested %d", bmc.ErrProtocol, suite.id)
	case opened.ManagedSystemSessionID == 0:
		return fmt.Errorf("%w: session 0", bmc.ErrProtocol)
	}
	s.bmcID = opened.ManagedSystemSessionID
	return s.rakp(ctx, chosen, target, [16]byte(random[:16]))
}

// suiteOf returns the supported suite that the BMC chose, which may differ from the requested
// one: pyghmi, and so VirtualBMC, always answers with suite 3. That loses no security, because
// a BMC that refuses suite 17 gets suite 3 too. Weaker suites are refused.
func suiteOf(opened rmcpplus.OpenSessionResponse) (suite, bool) {
	for _, s := range suites() {
		if opened.AuthAlg == byte(s.auth) && opened.IntegrityAlg == byte(s.integrity) && opened.CryptAlg == byte(types.CryptAlg_AES_CBC_128) {
			return s, true
		}
	}
	return suite{}, false
}

// rakp proves each side's knowledge of the password and derives the keys (§13.20–13.25, §13.31).
func (s *session) rakp(ctx context.Context, suite suite, target bmc.Target, ours [16]byte) error {
	key := crypto.PadPassword20([]byte(target.Password.Reveal()))
	first := &rmcpplus.RAKPMessage1{
		ManagedSystemSessionID: s.bmcID, RemoteConsoleRandomNumber: ours, NameOnlyLookup: true,
		RequestedMaximumPrivilegeLevel: privilegeAdministrator,
		UsernameLength:                 uint8(len(target.Username)), Username: []byte(target.Username),
	}
	raw, err := s.setup(ctx, plan{}, payloadRAKP1, first.Pack(), payloadRAKP2)
	if errors.Is(err, errNoAnswer) {
		return errSilentUser
	}
	if err != nil {
		return err
	}
	second := rmcpplus.RAKPMessage2{AuthAlg: suite.auth}
	if err := second.Unpack(raw); err != nil {
		return fmt.Errorf("%w: RAKP message 2: %w", bmc.ErrProtocol, err)
	}
	if second.RmcpStatusCode != 0 {
		return &statusError{status: byte(second.RmcpStatusCode), suite: suite.id}
	}
	theirs, guid := second.ManagedSystemRandomNumber[:], second.ManagedSystemGUID[:]
	want, err := crypto.RAKP2AuthCode(suite.auth, s.localID, s.bmcID, ours[:], theirs, guid, role, target.Username, key)
	if err != nil {
		return fmt.Errorf("RAKP message 2: %w", err)
	}
	third := &rmcpplus.RAKPMessage3{ManagedSystemSessionID: s.bmcID}
	if !hmac.Equal(want, second.KeyExchangeAuthenticationCode) {
		// The BMC has another password. The message lets it drop the session.
		third.RmcpStatusCode = types.RmcpStatusCodeInvalidIntegrityCheckValue
		_, _ = s.setup(ctx, plan{tries: 1}, payloadRAKP3, third.Pack(), payloadRAKP4)
		return &statusError{status: byte(third.RmcpStatusCode), suite: suite.id}
	}
	if third.KeyExchangeAuthenticationCode, err = crypto.RAKP3AuthCode(suite.auth, theirs, s.localID, role, target.Username, key); err != nil {
		return fmt.Errorf("RAKP message 3: %w", err)
	}
	sik, k1, k2, err := crypto.DeriveSessionKeys(suite.auth, ours[:], theirs, role, target.Username, key)
	if err != nil {
		return fmt.Errorf("session keys: %w", err)
	}
	if raw, err = s.setup(ctx, plan{}, payloadRAKP3, third.Pack(), payloadRAKP4); err != nil {
		return err
	}
	fourth := rmcpplus.RAKPMessage4{AuthAlg: suite.auth}
	if err := fourth.Unpack(raw); err != nil {
		return fmt.Errorf("%w: RAKP message 4: %w", bmc.ErrProtocol, err)
	}
	if fourth.RmcpStatusCode != 0 {
		return &statusError{status: byte(fourth.RmcpStatusCode), suite: suite.id}
	}
	check, err := crypto.RAKP4ICV(suite.auth, ours[:], s.bmcID, guid, sik)
	if err != nil || !hmac.Equal(check, fourth.IntegrityCheckValue) {
		return fmt.Errorf("%w: RAKP message 4 has a wrong check value", bmc.ErrProtocol)
	}
	s.keys = keys{suite: suite, k1: k1, k2: k2}
	s.guid = second.ManagedSystemGUID
	return nil
}

// raisePrivilege requests the privilege for the calls: a session starts as User (§22.18).
func (s *session) raisePrivilege(ctx context.Context) error {
	a, err := s.do(ctx, plan{}, netFnApp, 0x3b, []byte{privilegeAdministrator})
	if err != nil {
		return err
	}
	if a.code == 0x80 || a.code == 0x81 { // not available to this user; above its limit
		return fmt.Errorf("%w: the account has no administrator privilege", bmc.ErrUnauthorized)
	}
	if a.code != 0 {
		return &codeError{code: a.code}
	}
	return nil
}

// do runs one command in the session. The caller checks the answer's code.
func (s *session) do(ctx context.Context, p plan, netFn, command byte, data []byte) (answer, error) {
	s.request = s.request%63 + 1
	m := message(netFn, command, s.request, data)
	var a answer
	err := s.wire.exchange(ctx, p, func() ([]byte, error) { return s.seal(payloadIPMI, m) }, func(p []byte) (bool, error) {
		kind, payload, err := s.unseal(p)
		if err != nil || kind != payloadIPMI {
			return false, nil
		}
		got, err := parseMessage(payload)
		if err != nil || got.sequence != s.request || got.command != command || got.netFn != netFn|1 {
			return false, nil
		}
		a = got
		return true, nil
	})
	return a, err
}

func (s *session) seal(kind byte, payload []byte) ([]byte, error) {
	s.sequence++
	return s.keys.seal(kind, s.bmcID, s.sequence, payload)
}

// unseal rejects packets of other sessions, and packets older than the standard's window
// (§6.12.13, extended to 32).
func (s *session) unseal(p []byte) (byte, []byte, error) {
	kind, sequence, payload, err := s.keys.unseal(p, s.localID)
	if err != nil || sequence == 0 || sequence+32 <= s.highest {
		return 0, nil, errPacket
	}
	s.highest = max(s.highest, sequence)
	return kind, payload, nil
}

// close ends the session at the BMC and the socket.
func (s *session) close(ctx context.Context) error {
	defer s.wire.close()
	a, err := s.do(ctx, plan{tries: 2}, netFnApp, 0x3c, binary.LittleEndian.AppendUint32(nil, s.bmcID))
	if err != nil {
		return setupError("close the session", s.wire, err)
	}
	if a.code != 0 && a.code != 0x87 { // 87h: no such session
		return (&codeError{code: a.code}).as("close the session", false)
	}
	return nil
}

// forget sends the end of a session without waiting for an answer.
func (s *session) forget() {
	s.request = s.request%63 + 1
	if p, err := s.seal(payloadIPMI, message(netFnApp, 0x3c, s.request, binary.LittleEndian.AppendUint32(nil, s.bmcID))); err == nil {
		_, _ = s.wire.conn.Write(p)
	}
	s.wire.close()
}
