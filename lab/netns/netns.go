// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netns does things inside another network namespace of this machine,
// which needs root. It must not know what the namespace is for.
//
//	err := netns.Do("/proc/4711/ns/net", func() error {
//		link, err := netlink.LinkByName("eth0") // of that namespace
//		...
//	})
package netns

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do calls f on a thread that has entered the network namespace that path
// names. Sockets and devices which f opens belong to that namespace for their
// whole life; goroutines that it starts do not run there.
func Do(path string, f func() error) error {
	namespace, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	defer namespace.Close()
	done := make(chan error)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine, so
		// nobody else ever runs on a thread of a foreign namespace.
		runtime.LockOSThread()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace %s: %w", path, err)
			return
		}
		done <- f()
	}()
	return <-done
}
