// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func newFiles(t *testing.T) Files {
	t.Helper()
	files, err := NewFiles()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What a key directory or Secret may hold (decision 0002: a current and an old token
// key, the pins of the current and the next TLS key).
func TestCheck(t *testing.T) {
	other := newFiles(t)
	for name, tc := range map[string]struct {
		change func(Files)
		want   string
	}{
		"new":                           {change: func(Files) {}},
		"an old token key":              {change: func(f Files) { f[FileHMACOld] = other[FileHMAC] }},
		"the next key's pin":            {change: func(f Files) { f[FilePins] = append(f[FilePins], other[FilePins]...) }},
		"the next key, both pins":       {change: func(f Files) { f[FilePins], f[FileTLSKey] = append(f[FilePins], other[FilePins]...), other[FileTLSKey] }},
		"another key's pin":             {func(f Files) { f[FilePins] = other[FilePins] }, "agents would reject"},
		"no token key":                  {func(f Files) { delete(f, FileHMAC) }, FileHMAC},
		"a short token key":             {func(f Files) { f[FileHMAC] = []byte("x") }, "token key 1 has 1 bytes"},
		"a short old token key":         {func(f Files) { f[FileHMACOld] = []byte("x") }, "token key 2 has 1 bytes"},
		"no pins":                       {func(f Files) { f[FilePins] = []byte(" \n") }, "0 pins found"},
		"three pins":                    {func(f Files) { f[FilePins] = bytes.Repeat(f[FilePins], 3) }, "3 pins found"},
		"a pin that is none":            {func(f Files) { f[FilePins] = []byte("sha256/x") }, "is not sha256/"},
		"no TLS key":                    {func(f Files) { delete(f, FileTLSKey) }, FileTLSKey},
		"a TLS key that is no PEM":      {func(f Files) { f[FileTLSKey] = []byte("secret") }, "no PEM block"},
		"a TLS key of another encoding": {func(f Files) { f[FileTLSKey] = []byte("-----BEGIN X-----\nAAAA\n-----END X-----\n") }, FileTLSKey},
	} {
		t.Run(name, func(t *testing.T) {
			files := newFiles(t)
			tc.change(files)
			err := files.Check()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Check = %v, want %q", err, tc.want)
			}
		})
	}
}

// Keys are never printed, however a value that holds them is.
func TestFilesHideKeys(t *testing.T) {
	files := newFiles(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, struct{ F Files }{files}); !strings.Contains(text, "***") || strings.Contains(text, "PRIVATE KEY") {
			t.Errorf("%s prints %q", verb, text)
		}
	}
}

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadDir(dir); !errors.Is(err, ErrIncomplete) {
		t.Errorf("an empty directory: %v", err)
	}
	want := newFiles(t)
	delete(want, FileTLSKey) // as it is mounted into a boot server
	for name, data := range want {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(want, got, bytes.Equal) {
		t.Error("the files read are not those written")
	}
	if _, err := got.Certificate(); !errors.Is(err, ErrIncomplete) {
		t.Errorf("a certificate without a key: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, FileTLSKey), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadDir(dir); err == nil {
		t.Error("a file that cannot be read went unnoticed")
	}
}

func TestGenerateKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	var seen []Files
	for range 2 {
		if err := Generate(dir); err != nil {
			t.Fatal(err)
		}
		files, err := ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := files.Check(); err != nil {
			t.Error(err)
		}
		seen = append(seen, files)
	}
	if !maps.EqualFunc(seen[0], seen[1], bytes.Equal) {
		t.Error("a second Generate changed the keys")
	}
}

// A seal holds for its message and its keys, the old one too, and is never a token.
func TestSeal(t *testing.T) {
	message := []byte("from 192.0.2.7")
	sum := testKeys(t, 1).Seal(message)
	for name, tc := range map[string]struct {
		keys    Keys
		message string
		sum     []byte
		want    bool
	}{
		"same key":        {testKeys(t, 1), string(message), sum, true},
		"old key":         {testKeys(t, 2, 1), string(message), sum, true},
		"another key":     {testKeys(t, 2), string(message), sum, false},
		"another message": {testKeys(t, 1), "from 192.0.2.8", sum, false},
		"cut off":         {testKeys(t, 1), string(message), sum[:16], false},
		"none":            {testKeys(t, 1), string(message), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.keys.Sealed([]byte(tc.message), tc.sum); got != tc.want {
				t.Errorf("sealed = %t", got)
			}
		})
	}
	text := sample.text()
	if diff := cmp.Diff(mac(testKeys(t, 1).keys[0], text), string(testKeys(t, 1).Seal([]byte(text)))); diff == "" {
		t.Error("the seal of a token's text is the token's MAC")
	}
}
