// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files lists the written files except the checksums, in the order of the documentation.
func (r *Release) Files() []string {
	files := append([]string{r.Components, r.Metadata, r.RuntimeComponents, r.RuntimeMetadata, r.BootComponents, r.BootMetadata}, r.Templates...)
	if r.Archive != "" {
		files = append(files, r.Archive)
	}
	return files
}

// writeChecksums writes the input of "sha256sum --check" in dir: the files below dir, sorted by
// name.
func writeChecksums(path, dir string, files []string) error {
	var lines strings.Builder
	for _, file := range slices.Sorted(slices.Values(files)) {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("checksum: %w", err)
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(name))
	}
	return os.WriteFile(path, []byte(lines.String()), 0o644)
}
