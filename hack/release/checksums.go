// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files lists what was written, but for the checksums, in the order in which people read.
func (r *Release) Files() []string {
	files := append([]string{r.Components, r.Metadata, r.RuntimeComponents, r.RuntimeMetadata}, r.Templates...)
	if r.Archive != "" {
		files = append(files, r.Archive)
	}
	return files
}

// writeChecksums writes what "sha256sum --check" reads in dir: the files by their names
// below it, sorted.
func writeChecksums(path, dir string, files []string) error {
	var lines strings.Builder
	for _, file := range slices.Sorted(slices.Values(files)) {
		sum, err := checksum(file)
		if err != nil {
			return fmt.Errorf("checksum of %s: %w", file, err)
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sum, filepath.ToSlash(name))
	}
	return os.WriteFile(path, []byte(lines.String()), 0o644)
}

func checksum(path string) (sum []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
