// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below Linux's default range for outgoing connections
// (32768–60999), so that no connection of a child can occupy one between the
// check and the child's own bind.
const (
	firstPort = 20000
	lastPort  = 31999
)

// given are the ports that FreePorts has returned. The child that one was for may be
// between two lives just now, and nobody listen on it.
var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// FreePorts returns n different TCP ports that nobody listens on, on any
// address of this machine, and that it has not returned before. Another process
// can still take one before it is used; the child then fails to start and says so.
func FreePorts(n int) ([]int, error) {
	given.Lock()
	defer given.Unlock()
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		if tries == 100*n {
			return nil, fmt.Errorf("no %d free TCP ports between %d and %d", n, firstPort, lastPort)
		}
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if given.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		_ = l.Close()
		given.ports[port] = true
		ports = append(ports, port)
	}
	return ports, nil
}

// loopback returns 127.0.0.1:port.
func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
