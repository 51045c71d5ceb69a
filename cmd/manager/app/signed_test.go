// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLoadSigned(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string
		bytes int
		fails bool
	}{
		"neither":   {},
		"both":      {files: []string{agentShim, agentGRUB}, bytes: len(agentShim) + len(agentGRUB)},
		"shim only": {files: []string{agentShim}, fails: true},
		"GRUB only": {files: []string{agentGRUB}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range tc.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := loadSigned(dir)
			if (err != nil) != tc.fails || len(got.Shim)+len(got.GRUB) != tc.bytes {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
