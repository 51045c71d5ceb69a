// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pause holds the namespaces of a pod, or of a whole node: it reaps the
// orphans that it becomes the parent of, and ends on a signal. The kubelet's
// sandbox containers want such a program as their image
// registry.k8s.io/pause, and lab/node as its first process.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	reap() // what ended before the signal was asked for
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended; signals of one kind that come
// together arrive as one.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 || err != nil {
			return
		}
	}
}
