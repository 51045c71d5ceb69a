// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInterpreter(t *testing.T) {
	local := "#!ipxe\niseq ${platform} efi && goto leave ||\nsanboot --no-describe --drive 0x80 ||\n:leave\nexit 1\n"
	retries := "#!ipxe\ngoto load\n:retry\nimgfree\nsleep 3\nchain --replace --autofree http://h/s ||\n:load\nkernel http://h/k x || goto retry\nboot || goto retry\n"
	for _, tc := range []struct {
		name, platform, script string
		// failures is how many loads fail before one succeeds.
		failures int
		want     *bootImage
		loads    []string
		err      string
	}{
		{name: "kernel and initrd", script: "#!ipxe\nkernel --name k http://h/k a=b initrd=i\ninitrd --name i /i\nboot\n",
			want: &bootImage{commandLine: "a=b initrd=i", initrds: []string{"i"}}, loads: []string{"http://h/k", "/i"}},
		{name: "retries until success", failures: 2,
			script: "#!ipxe\ngoto load\n:retry\nimgfree\nsleep 3\n:load\nkernel http://h/k x || goto retry\nboot || goto retry\n",
			want:   &bootImage{commandLine: "x"}, loads: []string{"http://h/k", "http://h/k", "http://h/k"}},
		{name: "chain", script: "#!ipxe\nisset ${netX/ip} || dhcp || goto failed\nchain --replace --autofree http://h/${netX/mac}/s || goto failed\n:failed\nexit 1\n",
			want: &bootImage{chain: &chained{location: "http://h/52:54:00:00:00:01/s"}}, loads: []string{"http://h/52:54:00:00:00:01/s"}},
		{name: "files fail, then chain", failures: 1, script: retries,
			want: &bootImage{chain: &chained{location: "http://h/s"}}, loads: []string{"http://h/k", "http://h/s"}},
		{name: "files and chain fail, then files", failures: 2, script: retries,
			want: &bootImage{commandLine: "x"}, loads: []string{"http://h/k", "http://h/s", "http://h/k"}},
		{name: "local disk, UEFI", platform: "efi", script: local, err: errExit.Error()},
		{name: "local disk, BIOS", platform: "pcbios", script: local, err: errExit.Error()},
		{name: "the end is an exit", script: "#!ipxe\necho hello\n", err: errExit.Error()},
		{name: "comments and blank lines", script: "#!ipxe\n\n# a comment\n\t:x\nexit\n", err: errExit.Error()},
		{name: "and after success", script: "#!ipxe\niseq a a && goto x\nboot\n:x\nexit\n", err: errExit.Error()},
		{name: "and after failure", script: "#!ipxe\niseq a b && goto x ||\nkernel /k\nboot\n:x\nexit\n", want: &bootImage{}, loads: []string{"/k"}},
		{name: "nothing to boot", script: "#!ipxe\nboot\n", err: "script ended at"},
		{name: "load fails", failures: 1, script: "#!ipxe\nkernel /k\nboot\n", loads: []string{"/k"}, err: "not there"},
		{name: "not a script", script: "<html>", err: "not an iPXE script"},
		{name: "unknown command", script: "#!ipxe\nprompt\n", err: `"prompt"`},
		{name: "unknown label", script: "#!ipxe\ngoto nowhere\n", err: `"nowhere"`},
		{name: "endless loop", script: "#!ipxe\n:a\ngoto a\n", err: "exceeds"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var loads []string
			load := func(_ context.Context, uri string) error {
				loads = append(loads, uri)
				if len(loads) <= tc.failures {
					return errors.New("not there")
				}
				return nil
			}
			in := &interpreter{
				variables: map[string]string{"platform": tc.platform, "netX/mac": "52:54:00:00:00:01", "netX/ip": "192.0.2.2"},
				pause:     time.Nanosecond,
				load:      load,
				script: func(ctx context.Context, uri string) (*chained, error) {
					return &chained{location: uri}, load(ctx, uri)
				},
			}
			got, err := in.run(t.Context(), tc.script)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(bootImage{}, chained{})); diff != "" {
				t.Errorf("image (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.loads, loads); diff != "" {
				t.Errorf("loads (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzInterpreter shows that every script ends.
func FuzzInterpreter(f *testing.F) {
	f.Add("#!ipxe\nkernel http://h/k a || goto retry\n:retry\nboot && exit\n")
	f.Add("#!ipxe\n:a\niseq ${platform} efi && goto a || chain ${x\n")
	f.Add("#!ipxe\n|| && kernel --name\ninitrd -x\n")
	f.Fuzz(func(t *testing.T, script string) {
		in := &interpreter{
			load:   func(context.Context, string) error { return nil },
			script: func(_ context.Context, uri string) (*chained, error) { return &chained{location: uri}, nil },
		}
		image, err := in.run(t.Context(), script)
		if (image == nil) == (err == nil) {
			t.Errorf("image %v, error %v", image, err)
		}
	})
}

func TestSeedParsers(t *testing.T) {
	meta := metaData("instance-id: i-1-2\r\nlocal-hostname: \"node: 1\"\n# comment\nnested:\n  inner: x\n- item: y\nprovider_id: 'ingot://a/b/c'\n")
	wantMeta := map[string]string{"instance-id": "i-1-2", "local-hostname": "node: 1", "nested": "", "provider_id": "ingot://a/b/c"}
	if diff := cmp.Diff(wantMeta, meta); diff != "" {
		t.Errorf("meta-data (-want +got):\n%s", diff)
	}
	vars := vendorVariables("#!/bin/sh\nINGOT_BOOTED_URL='https://h:1/x'\nINGOT_BOOTED_TOKEN=a=b\n INGOT_INSTANCE_ID=\"i\"\nOTHER=1\ncurl \"$INGOT_BOOTED_URL=x\"\nINGOT_X y=1\n")
	wantVars := map[string]string{"INGOT_BOOTED_URL": "https://h:1/x", "INGOT_BOOTED_TOKEN": "a=b", "INGOT_INSTANCE_ID": "i"}
	if diff := cmp.Diff(wantVars, vars); diff != "" {
		t.Errorf("vendor-data (-want +got):\n%s", diff)
	}
}

func TestParsePins(t *testing.T) {
	raw := strings.Repeat("A", 42) + "8" // 32 bytes in base64url without padding
	for _, tc := range []struct {
		text string
		want int
	}{
		{"sha256/" + raw, 1}, {"sha256/" + raw + ",sha256/" + raw, 2}, {"sha256//" + raw + "=;sha256//" + raw + "=", 2},
		{"", 0}, {"sha256/short", 0}, {"sha1/" + raw, 0}, {raw, 0},
	} {
		pins, err := parsePins(tc.text)
		if len(pins) != tc.want || (err == nil) != (tc.want > 0) {
			t.Errorf("%q: %d pins, %v, want %d", tc.text, len(pins), err, tc.want)
		}
	}
}
