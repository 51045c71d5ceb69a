// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package datacentre

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/ingot-metal/ingot/lab/server"
)

// Sizes of the small image, in bytes.
const (
	smallImageBytes = 32 << 20
	smallImageNoise = 15 << 20
	bootSignature   = 510
)

// WriteSmallImage writes the image that simulated servers are installed with, raw
// under zstd: boot code's signature, some noise, then zeroes. It returns the
// checksum as an IngotMachine names it.
func WriteSmallImage(path string) (checksum string, err error) { return WriteReleaseImage(path, "") }

// WriteReleaseImage writes the same image with a label (server.System.Release):
// the version of Kubernetes that the system in it has.
func WriteReleaseImage(path, release string) (checksum string, err error) {
	raw := make([]byte, smallImageBytes)
	noise := rand.NewChaCha8([32]byte{1})
	_, _ = noise.Read(raw[1<<20 : 1<<20+smallImageNoise])
	copy(raw[bootSignature:], "\x55\xaa")
	if release != "" {
		server.ImageRelease(raw, release)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return "", fmt.Errorf("small image: %w", err)
	}
	packed := encoder.EncodeAll(raw, nil)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("small image: %w", err)
	}
	if err := os.WriteFile(path, packed, 0o600); err != nil {
		return "", fmt.Errorf("small image: %w", err)
	}
	sum := sha256.Sum256(packed)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
