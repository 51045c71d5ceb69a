// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The user's build settings have no effect, but the sources of modules stay.
func TestNothingOfTheUsersIsBuiltIn(t *testing.T) {
	written := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(written, []byte("GOFLAGS=-tags=mine\nGOPROXY=https://mirror.example,off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOENV", written)
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOSUMDB", "sum.example")
	values, err := readSettings()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "env", "GOFLAGS", "GOAMD64", "GOEXPERIMENT", "GOPROXY", "GOSUMDB", "CGO_ENABLED")
	cmd.Env = append(os.Environ(), envOf(values)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"", "v1", "", "https://mirror.example,off", "sum.example", "0"}
	if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("go env says %q, want %q", got, want)
	}
	version, err := GoVersion()
	if err != nil || !strings.HasPrefix(version, "go1.") {
		t.Errorf("version %q, %v", version, err)
	}
}
