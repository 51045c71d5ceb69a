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

// bootSignature is where firmware looks for 55 AA, in bytes.
const bootSignature = 510

// An Image is what simulated servers are installed with: boot code's signature,
// some noise, then zeroes.
type Image struct {
	// Bytes is its size, Noise how many of them do not compress, from 1 MiB on.
	Bytes, Noise int
	// Release is its label (server.System.Release); empty: none.
	Release string
}

// WriteSmallImage writes an image of 32 MiB. It returns the checksum as an
// IngotMachine names it.
func WriteSmallImage(path string) (checksum string, err error) {
	return Image{Bytes: 32 << 20, Noise: 15 << 20}.Write(path)
}

// Write writes the image, raw under zstd, and returns the checksum as an
// IngotMachine names it.
func (i Image) Write(path string) (checksum string, err error) {
	const first = 1 << 20
	if i.Noise < 0 || i.Bytes < first+i.Noise {
		return "", fmt.Errorf("image of %d bytes has no room for %d of noise", i.Bytes, i.Noise)
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
