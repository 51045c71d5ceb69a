// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A package in the cache is complete, even after an interrupted download.
func TestDownload(t *testing.T) {
	const whole = "the whole package"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(whole)))
	for name, tc := range map[string]struct {
		there string // in the cache; empty: nothing
		sends string // by apt; empty: it is not to be asked
		fails bool
	}{
		"not there":                {"", whole, false},
		"there":                    {whole, "", false},
		"half of it is there":      {whole[:5], whole, false},
		"apt is cut off":           {"", whole[:5], true},
		"cut off once and again":   {whole[:5], whole[:7], true},
		"apt has another by it":    {"", "another package", true},
		"apt leaves nothing there": {"", "-", true},
	} {
		t.Run(name, func(t *testing.T) {
			bin, root := t.TempDir(), t.TempDir()
			script := func(name, text string) {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			script("apt-cache", "echo 'Package: p'; echo 'SHA256: "+sum+"'")
			switch tc.sends {
			case "":
				script("apt-get", "exit 1")
			case "-":
				script("apt-get", "exit 0")
			default:
				script("apt-get", "printf '%s' '"+tc.sends+"' >p_1_amd64.deb")
			}
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			dir := filepath.Join(root, "debs", sum)
			if tc.there != "" {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "p_1_amd64.deb"), []byte(tc.there), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			path, err := Download(t.Context(), &Cache{root: root}, "p")
			if (err != nil) != tc.fails {
				t.Fatalf("%q, %v", path, err)
			}
			if got, _ := os.ReadFile(path); !tc.fails && string(got) != whole {
				t.Errorf("%s contains %q", path, got)
			}
			if left, _ := filepath.Glob(filepath.Join(root, "debs", ".get-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
