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

// Keys of a bootstrap Secret: the data, and its format, without which it is cloud-config.
const (
	ValueKey  = "value"
	FormatKey = "format"
)

// ErrNotText says that no installed system can be given the data.
var ErrNotText = errors.New("the bootstrap data is not text")

// gzipMagic begins a member of a gzip file (RFC 1952 section 2.3.1).
var gzipMagic = []byte{0x1f, 0x8b}

// Text is bootstrap data as it goes onto a disk: what is under gzip, which cloud-init reads
// and some providers write, is unpacked. On its way it is text, so that what is not UTF-8,
// or longer than MaxBootstrapBytes, is ErrNotText.
func Text(data []byte) (string, error) {
	text := data
	if bytes.HasPrefix(data, gzipMagic) {
		var err error
		if text, err = unpack(data); err != nil {
			return "", err
		}
	}
	if !utf8.Valid(text) {
		return "", fmt.Errorf("%w: it must be UTF-8, plain or under gzip", ErrNotText)
	}
	return string(text), nil
}

func unpack(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: it begins as gzip and is none: %w", ErrNotText, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, agentapi.MaxBootstrapBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be unpacked: %w", ErrNotText, err)
	}
	if len(text) > agentapi.MaxBootstrapBytes {
		return nil, fmt.Errorf("%w: unpacked it is longer than the %d bytes that can be handed out", ErrNotText, agentapi.MaxBootstrapBytes)
	}
	return text, nil
}
