// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package datacenter

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

// bootSignature is the offset of the boot signature 55 AA.
const bootSignature = 510

// Image is an image for simulated servers: the signature of boot code, noise, then zeros.
type Image struct {
	// Bytes is the size. Noise is the number of incompressible bytes at 1 MiB.
	Bytes, Noise int
	// Release is the label (server.System.Release); empty: none.
	Release string
}

// WriteSmallImage writes an image of 32 MiB and returns its checksum in the form of an
// IngotMachine.
func WriteSmallImage(path string) (checksum string, err error) {
	return Image{Bytes: 32 << 20, Noise: 15 << 20}.Write(path)
}

// Write writes the image, compressed with zstd, and returns its checksum in the form of an
// IngotMachine.
func (i Image) Write(path string) (checksum string, err error) {
	const first = 1 << 20
	if i.Noise < 0 || i.Bytes < first+i.Noise {
		return "", fmt.Errorf("image of %d bytes is too small for %d bytes of noise", i.Bytes, i.Noise)
	}
	raw := make([]byte, i.Bytes)
	noise := rand.NewChaCha8([32]byte{1})
	_, _ = noise.Read(raw[first : first+i.Noise])
	copy(raw[bootSignature:], "\x55\xaa")
	if i.Release != "" {
		server.ImageRelease(raw, i.Release)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	packed := encoder.EncodeAll(raw, nil)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	if err := os.WriteFile(path, packed, 0o600); err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	sum := sha256.Sum256(packed)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
