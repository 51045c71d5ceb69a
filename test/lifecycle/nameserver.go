// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// A NameServer answers DNS queries for IPv4 addresses by UDP on loopback. The owner of a zone
// answers as they like: each query for a name takes the next of its addresses, and the last
// one stays. A name that is not known does not exist.
type NameServer struct {
	Address string

	mu    sync.Mutex
	names map[string][]netip.Addr
	asked map[string]int
}

// newNameServer starts a name server that ends with the test.
func newNameServer(t *testing.T, names map[string][]string) *NameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, err)
	s := &NameServer{Address: conn.LocalAddr().String(), names: map[string][]netip.Addr{}, asked: map[string]int{}}
	for name, addresses := range names {
		for _, address := range addresses {
			s.names[name] = append(s.names[name], netip.MustParseAddr(address))
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer, err := s.answer(buffer[:n]); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return s
}

// Asked is how often the IPv4 address of a name was asked for.
func (s *NameServer) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

func (s *NameServer) answer(query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(strings.ToLower(question.Name.String()), ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	addresses := s.names[name]
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	switch {
	case len(addresses) == 0:
		reply.RCode = dnsmessage.RCodeNameError
	case question.Type == dnsmessage.TypeA:
		address := addresses[min(s.asked[name], len(addresses)-1)]
		s.asked[name]++
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return reply.Pack()
}
