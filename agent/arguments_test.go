// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agentapi"
)

// pinText is a well-formed pin.
var pinText = "sha256/" + strings.Repeat("A", 42) + "E"

func TestParseArguments(t *testing.T) {
	full := "BOOT_IMAGE=x console=ttyS0 ingot.server=192.0.2.1:8843 ingot.files=http://192.0.2.1:8880/ " +
		"ingot.pin=" + pinText + "," + pinText + " ingot.token=secret ingot.mac=52:54:00:00:00:0A quiet\n"
	without := func(name string) string {
		var out []string
		for _, w := range strings.Fields(full) {
			if !strings.HasPrefix(w, name+"=") {
				out = append(out, w)
			}
		}
		return strings.Join(out, " ")
	}
	for _, tc := range []struct {
		name, in string
		// want is server, files, number of pins, token, mac.
		want string
		bad  bool
	}{
		{name: "everything", in: full, want: "192.0.2.1:8843 http://192.0.2.1:8880 2 secret 52:54:00:00:00:0a"},
		{name: "without the optional ones", in: strings.Join(strings.Fields(without("ingot.mac")), " "), want: "192.0.2.1:8843 http://192.0.2.1:8880 2 secret "},
		{name: "the last counts", in: full + " ingot.token=other", want: "192.0.2.1:8843 http://192.0.2.1:8880 2 other 52:54:00:00:00:0a"},
		{name: "quoted, IPv6", in: without("ingot.server") + ` ingot.server="[2001:db8::1]:8843"`, want: "[2001:db8::1]:8843 http://192.0.2.1:8880 2 secret 52:54:00:00:00:0a"},
		{name: "two replicas", in: full + " ingot.server=192.0.2.1:8843,192.0.2.2:8843", want: "192.0.2.1:8843,192.0.2.2:8843 http://192.0.2.1:8880 2 secret 52:54:00:00:00:0a"},
		{name: "nothing", in: "", want: "  0  "},
		{name: "server without port", in: full + " ingot.server=192.0.2.1", bad: true},
		{name: "one of two servers without port", in: full + " ingot.server=192.0.2.1:8843,192.0.2.2", bad: true},
		{name: "three pins", in: full + " ingot.pin=" + strings.Repeat(pinText+",", 2) + pinText, bad: true},
		{name: "pin of another digest", in: full + " ingot.pin=sha512/" + pinText[7:], bad: true},
		{name: "short pin", in: full + " ingot.pin=sha256/AAAA", bad: true},
		{name: "files by https", in: full + " ingot.files=https://192.0.2.1", bad: true},
		{name: "not a MAC address", in: full + " ingot.mac=52:54", bad: true},
		{name: "an InfiniBand address", in: full + " ingot.mac=00:01:02:03:04:05:06:07", bad: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args, err := agent.ParseArguments(tc.in)
			if tc.bad {
				if !errors.Is(err, agent.ErrArguments) {
					t.Fatalf("error %v", err)
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("the error shows the token: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s %s %d %s %s", strings.Join(args.Servers, ","), args.Files, len(args.Pins), args.Token.Reveal(), args.MAC)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if shown := fmt.Sprintf("%v %+v %#v", args, args, args); strings.Contains(shown, "secret") {
				t.Errorf("printing the arguments shows the token: %s", shown)
			}
		})
	}
}

// DHCP adds what the command line lacks and overrides nothing.
func TestFillDoesNotOverrideTheCommandLine(t *testing.T) {
	other := "sha256/" + strings.Repeat("B", 42) + "E"
	options := agentapi.BootOptions{Server: "192.0.2.9:8843", Pin: other, Token: "dhcp-token", Files: "http://192.0.2.9:8880"}
	for _, tc := range []struct {
		name, line string
		options    agentapi.BootOptions
		// want is server, files, the first pin, token; missing is what the line lacks.
		want, missing string
		bad           bool
	}{
		{name: "empty line", options: options, missing: "ingot.pin ingot.server ingot.token", want: "192.0.2.9:8843 http://192.0.2.9:8880 " + other + " dhcp-token"},
		{name: "pin in the line", line: "ingot.pin=" + pinText, options: options, missing: "ingot.server ingot.token",
			want: "192.0.2.9:8843 http://192.0.2.9:8880 " + pinText + " dhcp-token"},
		{name: "complete line", line: "ingot.server=192.0.2.1:8843 ingot.token=line ingot.pin=" + pinText, options: options,
			want: "192.0.2.1:8843 http://192.0.2.9:8880 " + pinText + " line"},
		{name: "no DHCP options", missing: "ingot.pin ingot.server ingot.token", bad: true},
		{name: "no token", options: agentapi.BootOptions{Server: options.Server, Pin: options.Pin}, missing: "ingot.pin ingot.server ingot.token", bad: true},
		{name: "server without port", options: agentapi.BootOptions{Server: "192.0.2.9", Pin: options.Pin, Token: "dhcp-token"}, missing: "ingot.pin ingot.server ingot.token", bad: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args, err := agent.ParseArguments(tc.line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.missing, strings.Join(args.Missing(), " ")); diff != "" {
				t.Error(diff)
			}
			args, err = args.Fill(tc.options)
			if tc.bad {
				if !errors.Is(err, agent.ErrIncomplete) || strings.Contains(err.Error(), "dhcp-token") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s %s %s %s", strings.Join(args.Servers, ","), args.Files, args.Pins[0], args.Token.Reveal())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPinsRoundTrip(t *testing.T) {
	pins, err := agent.ParsePins(pinText)
	if err != nil {
		t.Fatal(err)
	}
	if got := pins[0].String(); got != pinText {
		t.Errorf("%s, want %s", got, pinText)
	}
}

func FuzzParseArguments(f *testing.F) {
	f.Add("ingot.server=192.0.2.1:8843 ingot.pin=" + pinText + " ingot.token=t")
	f.Add(`ingot.server="a b:1" "`)
	f.Add("ingot.mac=52:54:00:00:00:0a\x00")
	f.Fuzz(func(t *testing.T, s string) {
		args, err := agent.ParseArguments(s)
		if err != nil {
			return
		}
		if len(args.Pins) > 2 || slices.Contains(args.Servers, "") {
			t.Errorf("accepted %d pins and servers %q: %q", len(args.Pins), args.Servers, s)
		}
		if n := len(args.MAC); n != 0 && n != 6 {
			t.Errorf("MAC address of %d bytes", n)
		}
	})
}

// A CD image adds what the command line lacks; a pin in the command line stays.
func TestWithDoesNotOverrideTheCommandLine(t *testing.T) {
	media := "ingot.server=192.0.2.1:8843\ningot.files=http://192.0.2.1:8880\ningot.mac=52:54:00:00:00:0a\n" +
		"ingot.pin=" + pinText + "," + pinText + "\ningot.token=secret\n\n\n\n"
	built, err := agent.ParseArguments("quiet ingot.pin=" + pinText)
	if err != nil {
		t.Fatal(err)
	}
	got, err := built.With(media)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %s %d %s %s", got.Servers, got.Files, len(got.Pins), got.Token.Reveal(), got.MAC); text != "[192.0.2.1:8843] http://192.0.2.1:8880 1 secret 52:54:00:00:00:0a" {
		t.Errorf("got %s", text)
	}
	for name, text := range map[string]string{
		"unterminated quote": "ingot.token=\"a ingot.pin=" + pinText,
		"invalid server":     "ingot.server=here",
	} {
		t.Run(name, func(t *testing.T) {
			after, err := built.With(text)
			if len(after.Pins) != 1 || after.Pins[0] != built.Pins[0] || err == nil && len(after.Missing()) == 0 {
				t.Errorf("got %+v, %v", after, err)
			}
		})
	}
}
