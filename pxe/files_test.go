// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "vmlinuz-6.1")
	if err := os.WriteFile(path, []byte("foo"), 0o644); err != nil {
		t.Fatal(err)
	}
	var files pxe.Files
	f, err := files.Add(path)
	if err != nil {
		t.Fatal(err)
	}
	const digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae" // of "foo"
	if want := "/files/" + digest + "/vmlinuz-6.1"; f.Path() != want {
		t.Errorf("path %q, want %q", f.Path(), want)
	}
	if again, err := files.Add(path); err != nil || again != f {
		t.Errorf("second Add: %v, %v", again, err)
	}
	src, modTime, err := files.Open(f)
	if err != nil || modTime.IsZero() {
		t.Fatal(modTime, err)
	}
	b, err := io.ReadAll(src)
	_ = src.Close()
	if err != nil || string(b) != "foo" {
		t.Errorf("read %q, %v", b, err)
	}

	for name, spoil := range map[string]func() pxe.File{
		"another name":   func() pxe.File { return pxe.File{SHA256: f.SHA256, Name: "x"} },
		"another digest": func() pxe.File { return pxe.File{SHA256: "x", Name: f.Name} },
		"same size, changed": func() pxe.File {
			if err := os.WriteFile(path, []byte("bar"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			return f
		},
		"removed": func() pxe.File { _ = os.Remove(path); return f },
	} {
		t.Run(name, func(t *testing.T) {
			if src, _, err := files.Open(spoil()); !errors.Is(err, pxe.ErrNoFile) || src != nil {
				t.Errorf("got %v, %v", src, err)
			}
		})
	}
}

func TestFilesRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"with blank", "semi;colon", "dollar${x}"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"with blank", "semi;colon", "dollar${x}", "missing", "."} {
		t.Run(name, func(t *testing.T) {
			var files pxe.Files
			if f, err := files.Add(filepath.Join(dir, name)); err == nil {
				t.Errorf("registered as %v", f)
			}
		})
	}
}

func TestTokenIsNeverFormatted(t *testing.T) {
	h := pxe.Host{Plan: pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{Token: "canary"}}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, h); strings.Contains(text, "canary") {
			t.Errorf("%s shows the token: %s", verb, text)
		}
	}
}

func TestPlanKindNames(t *testing.T) {
	for kind, want := range map[pxe.PlanKind]string{pxe.None: "None", pxe.LocalDisk: "LocalDisk", pxe.Agent: "Agent", 9: "PlanKind(9)"} {
		if got := kind.String(); got != want {
			t.Errorf("%d is called %q, want %q", int(kind), got, want)
		}
	}
}
