// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent"
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
		{name: "nothing", in: "", bad: true},
		{name: "no server", in: without("ingot.server"), bad: true},
		{name: "server without port", in: full + " ingot.server=192.0.2.1", bad: true},
		{name: "no token", in: without("ingot.token"), bad: true},
		{name: "no pin", in: without("ingot.pin"), bad: true},
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
			got := fmt.Sprintf("%s %s %d %s %s", args.Server, args.Files, len(args.Pins), args.Token.Reveal(), args.MAC)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if shown := fmt.Sprintf("%v %+v %#v", args, args, args); strings.Contains(shown, "secret") {
				t.Errorf("printing the arguments shows the token: %s", shown)
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
		if args.Server == "" || args.Token == "" || len(args.Pins) == 0 || len(args.Pins) > 2 {
			t.Errorf("accepted without what is needed: %q", s)
		}
		if n := len(args.MAC); n != 0 && n != 6 {
			t.Errorf("MAC address of %d bytes", n)
		}
	})
}
