// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/ingot-metal/ingot/agentapi"
)

// Keys of a bootstrap Secret: the data, and its format. Without a format it is cloud-config.
const (
	ValueKey  = "value"
	FormatKey = "format"
)

// ErrNotText means that the data cannot be given to an installed system.
var ErrNotText = errors.New("the bootstrap data is not text")

// gzipMagic is the start of a gzip member (RFC 1952 section 2.3.1).
var gzipMagic = []byte{0x1f, 0x8b}

// Text returns bootstrap data as it is written to a disk. It unpacks gzip, which cloud-init reads and some
// providers write. It returns ErrNotText for data that is not UTF-8 or longer than MaxBootstrapBytes.
func Text(data []byte) (string, error) {
	text := data
	if bytes.HasPrefix(data, gzipMagic) {
		var err error
		if text, err = unpack(data); err != nil {
			return "", err
		}
	}
	if !utf8.Valid(text) {
		return "", fmt.Errorf("%w: it must be UTF-8, plain or gzipped", ErrNotText)
	}
	return string(text), nil
}

func unpack(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: invalid gzip header: %w", ErrNotText, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, agentapi.MaxBootstrapBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: unpack gzip: %w", ErrNotText, err)
	}
	if len(text) > agentapi.MaxBootstrapBytes {
		return nil, fmt.Errorf("%w: unpacked it is longer than %d bytes", ErrNotText, agentapi.MaxBootstrapBytes)
	}
	return text, nil
}
