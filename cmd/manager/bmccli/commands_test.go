// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	"github.com/ingot-metal/ingot/cmd/manager/bmccli"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
)

// canary is the password, which must not appear in any output.
const canary = "canary-7"

// bench is an emulated BMC with its CA and a password file.
type bench struct {
	*labbmc.BMC
	machine  *labbmc.Bench
	ca, file string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	authority, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	maker, _ := personality.Named("dell-idrac9")
	b := &bench{machine: &labbmc.Bench{}, ca: string(authority.PEM()), file: filepath.Join(t.TempDir(), "password")}
	b.BMC, err = labbmc.Start(labbmc.Config{
		Authority: authority, Machine: b.machine, Username: "admin", Password: canary, Personality: maker, System: labbmc.System{Serial: "SER123", MACs: []string{"52:54:00:00:00:01"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if err := os.WriteFile(b.file, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// run runs a command line with input, and returns output and error.
func (b *bench) run(t *testing.T, typed string, args ...string) (string, error) {
	t.Helper()
	var out, told bytes.Buffer
	all := append([]string{"--address", b.Address(), "--username", "admin", "--ca", b.ca}, args...)
	err := bmccli.Run(t.Context(), all, redfish.Dial, bmccli.Streams{In: strings.NewReader(typed), Out: &out, Err: &told})
	if text := out.String() + told.String(); strings.Contains(text, canary) || err != nil && strings.Contains(err.Error(), canary) {
		t.Errorf("the output contains the password: %s, %v", text, err)
	}
	if n := b.Sessions(); n != 0 {
		t.Errorf("%d sessions are left open", n)
	}
	return out.String(), err
}

// Each command acts on the BMC or shows its state.
func TestCommands(t *testing.T) {
	b := newBench(t)
	file := []string{"--password-file", b.file}
	for _, tc := range []struct {
		words string
		want  string // part of the output
		check func() bool
	}{
		{"identity", "SER123", nil},
		{"power", "Off", nil},
		{"power on", "", b.machine.Powered},
		{"power", "On", nil},
		{"boot", "None", nil},
		{"boot pxe", "", nil},
		{"boot", "PXE once", nil},
		{"boot Disk always uefi", "", nil},
		{"boot", "Disk always UEFI", nil},
		{"boot none", "", nil},
		{"boot", "None", nil},
		{"identify", "off", nil},
		{"identify on", "", b.Lit},
		{"identify", "on", nil},
		{"identify off", "", func() bool { return !b.Lit() }},
		{"eventlog", "The system has started.", nil},
		{"eventlog 1", "OK", nil},
		{"eventlog clear", "", nil},
		{"health", "Fan", nil},
		{"media", "empty", nil},
		{"media insert CD http://192.0.2.1/x.iso", "/VirtualMedia/CD", func() bool { return inserted(b) }},
		{"media", "http://192.0.2.1/x.iso", nil},
		{"media eject /redfish/v1/Managers/iDRAC.Embedded.1/VirtualMedia/CD", "", func() bool { return !inserted(b) }},
		{"settings", "BootMode", nil},
		{"settings BootMode", "BootMode", nil},
		{"firmware", "BIOS", nil},
	} {
		got, err := b.run(t, "", append(file, strings.Fields(tc.words)...)...)
		if err != nil || !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%s: %q, %v; want %q", tc.words, got, err, tc.want)
		}
		if tc.check != nil && !tc.check() {
			t.Errorf("%s: no effect on the BMC", tc.words)
		}
	}
	if got, err := b.run(t, "", append(file, "eventlog")...); err != nil || strings.Contains(got, "The system has started.") {
		t.Errorf("after clearing, the log contains %q, %v", got, err)
	}
	writes := len(b.Writes())
	if _, err := b.run(t, "", append(file, "settings", "reset")...); err != nil || len(b.Writes()) != writes+3 { // with login and logout
		t.Errorf("settings reset: %v", err)
	}
}

func inserted(b *bench) bool {
	for _, slot := range b.Media() {
		if slot.Inserted {
			return true
		}
	}
	return false
}

// An invalid command line fails before the BMC is contacted.
func TestInvalidCommandLines(t *testing.T) {
	b := newBench(t)
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no command", nil, "no command"},
		{"another verb", []string{"dance"}, `unknown command "dance"`},
		{"too much", []string{"health", "now"}, "usage: health"},
		{"too little", []string{"media", "insert", "CD"}, "usage: media insert"},
		{"no such action", []string{"--password-file", b.file, "power", "sideways"}, "unknown power action"},
		{"no such boot target", []string{"--password-file", b.file, "boot", "tape"}, "unknown boot target"},
		{"no such way to boot", []string{"--password-file", b.file, "boot", "PXE", "http://192.0.2.1/x"}, "use once or always"},
		{"unknown indicator state", []string{"--password-file", b.file, "identify", "blink"}, "use on or off"},
		{"no count", []string{"--password-file", b.file, "eventlog", "all"}, "must be from 1"},
		{"no such drive", []string{"--password-file", b.file, "media", "insert", "Tape", "http://192.0.2.1/x"}, "unknown drive kind"},
		{"no such setting", []string{"--password-file", b.file, "settings", "Moon"}, `unknown setting "Moon"`},
		{"two ways to trust", []string{"--insecure-skip-verify", "power"}, "use only one of"},
		{"a file of certificates", []string{"--ca", "/etc/ca.crt", "power"}, "not a file name"},
		{"no time", []string{"--timeout", "0s", "power"}, "--timeout"},
		{"no file", []string{"--password-file", b.file + "-none", "power"}, "no such file"},
		{"no password", []string{"power"}, "--password-file is required"},
		{"an empty password", []string{"--password-file", "-", "power"}, "first line is empty"},
		{"no account", []string{"--username", "", "--password-file", b.file, "power"}, "--username is required"},
		{"console", []string{"--password-file", b.file, "console"}, "ipmi://"},
	} {
		if _, err := b.run(t, "", tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := b.run(t, "wrong\n", "--password-file", "-", "power"); !errors.Is(err, bmc.ErrUnauthorized) {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := b.run(t, strings.Repeat("x", 5000), "--password-file", "-", "power"); err == nil || !strings.Contains(err.Error(), "is longer than") {
		t.Errorf("a file on standard input: %v", err)
	}
	if err := bmccli.Run(t.Context(), []string{"power"}, redfish.Dial, bmccli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}); err == nil || !strings.Contains(err.Error(), "--address") {
		t.Errorf("no address: %v", err)
	}
	if _, err := b.run(t, canary+"\r\n", "--password-file", "-", "power"); err != nil {
		t.Errorf("a password from standard input: %v", err)
	}
	if _, err := b.run(t, "", "--help"); err != nil {
		t.Errorf("help: %v", err)
	}
}

// terminal is a BMC whose console or log the test controls.
type terminal struct {
	bmc.Conn
	port net.Conn
	log  []bmc.LogEntry
}

func (c terminal) OpenConsole(context.Context) (io.ReadWriteCloser, error) { return c.port, nil }
func (c terminal) EventLog(context.Context, int) ([]bmc.LogEntry, error)   { return c.log, nil }
func (terminal) Close(context.Context) error                               { return nil }
func (c terminal) dial(context.Context, bmc.Target) (bmc.Conn, error)      { return c, nil }
func (c terminal) run(in io.Reader, out io.Writer, verb string, t *testing.T) error {
	t.Helper()
	return bmccli.Run(t.Context(), []string{"--address", "ipmi://192.0.2.1", "--username", "admin", "--password-file", "-", verb}, c.dial, bmccli.Streams{In: in, Out: out, Err: io.Discard})
}

// The console connects input and output to the server until one of them ends.
func TestConsole(t *testing.T) {
	for _, tc := range []struct {
		name, typed, want string
	}{
		{"to its end", canary + "\nroot\r", "root\r"},
		{"ended", canary + "\nls\r~.more", "ls\r"},
		{"a tilde elsewhere", canary + "\ncd ~.\r", "cd ~.\r"},
		{"a tilde itself", canary + "\n~~.\r~x", "~.\r~x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ours, server := net.Pipe()
			got := make(chan string, 1)
			go func() {
				_, _ = io.WriteString(server, "login: ")
				text, _ := io.ReadAll(server)
				got <- string(text)
			}()
			out := &waiting{first: make(chan struct{})}
			in := io.MultiReader(strings.NewReader(tc.typed[:len(canary)+1]), after{out.first, strings.NewReader(tc.typed[len(canary)+1:])})
			if err := (terminal{port: ours}).run(in, out, "console", t); err != nil {
				t.Error(err)
			}
			if typed := <-got; typed != tc.want {
				t.Errorf("the server got %q, want %q", typed, tc.want)
			}
			if out.text != "login: " {
				t.Errorf("the user saw %q", out.text)
			}
		})
	}
	t.Run("the server ends it", func(t *testing.T) {
		ours, server := net.Pipe()
		in, keyboard := io.Pipe()
		defer func() { _ = keyboard.Close() }()
		go func() {
			_, _ = io.WriteString(keyboard, canary+"\n")
			_ = server.Close()
		}()
		if err := (terminal{port: ours}).run(in, io.Discard, "console", t); err != nil {
			t.Error(err)
		}
	})
}

// waiting signals the first write.
type waiting struct {
	text  string
	first chan struct{}
}

func (w *waiting) Write(p []byte) (int, error) {
	if w.text == "" {
		defer close(w.first)
	}
	w.text += string(p)
	return len(p), nil
}

// after is a reader that waits for a signal.
type after struct {
	happened <-chan struct{}
	io.Reader
}

func (a after) Read(p []byte) (int, error) {
	<-a.happened
	return a.Reader.Read(p)
}

// Text of a BMC cannot control the terminal.
func TestOutputHasNoControlCharacters(t *testing.T) {
	var out bytes.Buffer
	c := terminal{log: []bmc.LogEntry{{Message: "fan\x1b[2J failed\u202e\nOK everything is well"}}}
	if err := c.run(strings.NewReader("pw\n"), &out, "eventlog", t); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "-    fan [2J failed  OK everything is well\n"; strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") || strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("printed %q", got)
	}
}
