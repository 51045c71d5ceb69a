// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/lab/netns"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/needs"
)

// TestTapJoinsANamespace connects the kernel's stack behind the tap and a user-space stack with TCP.
func TestTapJoinsANamespace(t *testing.T) {
	namespace := needs.Namespace(t)
	sw := network.NewSwitch()
	defer sw.Close()
	tap := network.Tap{NetNS: namespace, Interface: "prov0", Address: netip.MustParsePrefix("192.168.0.1/16")}
	port, err := sw.AttachTap(tap)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sw.AttachTap(tap); err == nil {
		t.Error("two interfaces of one name")
	}

	var listener net.Listener
	err = netns.Do(namespace, func() (err error) {
		listener, err = net.Listen("tcp", "192.168.0.1:80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20 // many frames, both ways
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	client := newStack(t, sw, "client", "192.168.5.5/16")
	answer, err := (&http.Client{Transport: &http.Transport{DialContext: client.DialContext}}).Get("http://192.168.0.1/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); n != size || err != nil {
		t.Errorf("%d bytes, %v, want %d", n, err, size)
	}

	for _, step := range []struct {
		set  func() error
		want net.Flags
	}{{tap.Down, 0}, {tap.Up, net.FlagUp}} {
		if err := step.set(); err != nil {
			t.Fatal(err)
		}
		var is *net.Interface
		if err := netns.Do(namespace, func() (err error) { is, err = net.InterfaceByName("prov0"); return err }); err != nil {
			t.Fatal(err)
		}
		if is.Flags&net.FlagUp != step.want {
			t.Errorf("flags %s, want %s", is.Flags, step.want)
		}
	}

	if err := port.Close(); err != nil {
		t.Error(err)
	}
	gone := func() bool {
		var err error
		_ = netns.Do(namespace, func() error { _, err = net.InterfaceByName("prov0"); return nil })
		return err != nil
	}
	eventually.Wait{Interval: 10 * time.Millisecond}.Until(t, "the end of the interface with its port", eventually.Holds(gone))
	if tap.Down() == nil {
		t.Error("no error for a removed interface")
	}
}
