// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccli_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc/ipmi"
	"github.com/ingot-metal/ingot/cmd/manager/bmccli"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
)

// A user logs in at the serial console over IPMI.
func TestConsoleByIPMI(t *testing.T) {
	ours, port := net.Pipe()
	b, err := labipmi.Start(labipmi.Config{
		Machine: &labbmc.Bench{}, Username: "admin", Password: canary, System: labbmc.System{UUID: "9f3b8a52-0c1d-4e6f-8a7b-112233445566", Serial: "S1"},
		Console: func() (io.ReadWriteCloser, error) { return port, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	typed := make(chan string, 1)
	go func() { // output before the console is open is lost
		in := bufio.NewReader(ours)
		first, _ := in.ReadString('\r')
		_, _ = io.WriteString(ours, "hello "+strings.TrimSpace(first)+"\r\n")
		second, _ := in.ReadString('\r')
		typed <- second
	}()
	keyboard, person := io.Pipe()
	out := &screen{wanted: "hello root", shown: make(chan struct{})}
	go func() {
		_, _ = io.WriteString(person, canary+"\nroot\r")
		<-out.shown
		_, _ = io.WriteString(person, "ls\r")
		typed <- <-typed
		_, _ = io.WriteString(person, "~.")
	}()
	args := []string{"--address", b.Address(), "--username", "admin", "--password-file", "-", "console"}
	if err := bmccli.Run(t.Context(), args, ipmi.Dial, bmccli.Streams{In: keyboard, Out: out, Err: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if got := <-typed; got != "ls\r" {
		t.Errorf("the server got %q", got)
	}
	_ = ours.Close()
}

// screen signals when it has received a text.
type screen struct {
	text, wanted string
	shown        chan struct{}
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	before := strings.Contains(s.text, s.wanted)
	s.text += string(p)
	if !before && strings.Contains(s.text, s.wanted) {
		close(s.shown)
	}
	return len(p), nil
}
