// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"context"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// One address cannot fill the queue, with any number of ports, and an ended session makes room.
func TestAddressIsAdmittedToItsShareOnly(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	s := newServing(Server{MaxTransfers: 1, MaxWaiting: 8}, nil, stopping, t.Context()) // an address may run 1 and have 2 waiting
	req := readRequest{name: "a", mode: "octet"}
	var sessions []*session
	admit := func(address string, port int) error {
		session, err := s.admit(netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port)), req)
		if err == nil {
			sessions = append(sessions, session)
		}
		return err
	}
	var got []error
	for n := range 4 {
		got = append(got, admit("192.0.2.1", 1000+n))
	}
	got = append(got, admit("192.0.2.2", 1000))
	s.end(sessions[0])
	got = append(got, admit("192.0.2.1", 1004))
	if !s.acquire(sessions[1]) {
		t.Error("the first session got no slot")
	}
	stop()
	got = append(got, admit("192.0.2.3", 1000))
	want := []error{nil, nil, nil, errFull, nil, nil, errStopping}
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("admissions (-want +got):\n%s", diff)
	}
	for _, session := range sessions[2:] {
		if s.acquire(session) {
			t.Errorf("the session of %s got a second slot", session.from)
		}
	}
}
