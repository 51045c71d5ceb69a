// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Opcodes (RFC 1350 §5, RFC 2347).
const (
	opRead  = 1
	opWrite = 2
	opData  = 3
	opAck   = 4
	opError = 5
	opOACK  = 6
)

// Error codes (RFC 1350 appendix I, RFC 2347).
const (
	codeUndefined  = 0
	codeNotFound   = 1
	codeIllegal    = 4
	codeUnknownTID = 5
)

const (
	defaultBlockSize = 512
	minBlockSize     = 8
	maxWindow        = 64
	maxNameLength    = 255
)

var errMalformed = errors.New("malformed TFTP packet")

// readRequest is a parsed RRQ.
type readRequest struct {
	name, mode string
	options    []option
}

// option is a name in lower case and its value as sent.
type option struct{ name, value string }

// parseRequest reads an RRQ: name, mode and option pairs, each ended by a zero
// byte. Bytes after the last zero are ignored, as some ROMs pad.
func parseRequest(p []byte) (readRequest, error) {
	if len(p) < 2 {
		return readRequest{}, fmt.Errorf("%w: %d bytes", errMalformed, len(p))
	}
	if op := binary.BigEndian.Uint16(p); op != opRead {
		return readRequest{}, fmt.Errorf("%w: opcode %d is not a read request", errMalformed, op)
	}
	var fields []string
	for rest := p[2:]; ; {
		field, after, found := bytes.Cut(rest, []byte{0})
		if !found {
			break
		}
		fields = append(fields, string(field))
		rest = after
	}
	if len(fields) < 2 || fields[0] == "" || len(fields[0]) > maxNameLength {
		return readRequest{}, fmt.Errorf("%w: no file name and mode", errMalformed)
	}
	req := readRequest{name: fields[0], mode: strings.ToLower(fields[1])}
	for f := fields[2:]; len(f) >= 2; f = f[2:] {
		req.options = append(req.options, option{strings.ToLower(f[0]), f[1]})
	}
	return req, nil
}

// terms are what a transfer runs under.
type terms struct {
	blockSize int
	window    int
	timeout   time.Duration
	// accepted goes into the OACK; empty: no OACK, block 1 is sent at once.
	accepted []option
}

// negotiate accepts the options that are known and valid, and leaves out the
// others, as RFC 2347 wants. Block size and window may be answered with less
// than was asked.
func negotiate(req readRequest, size int64, maxBlock int, timeout time.Duration) terms {
	t := terms{blockSize: defaultBlockSize, window: 1, timeout: timeout}
	for _, o := range req.options {
		n, err := strconv.Atoi(o.value)
		if err != nil || n < 0 {
			continue
		}
		switch o.name {
		case "blksize":
			if n < minBlockSize {
				continue
			}
			t.blockSize = min(n, maxBlock)
			t.accepted = append(t.accepted, option{o.name, strconv.Itoa(t.blockSize)})
		case "windowsize":
			if n < 1 {
				continue
			}
			t.window = min(n, maxWindow)
			t.accepted = append(t.accepted, option{o.name, strconv.Itoa(t.window)})
		case "timeout":
			if n < 1 || n > 255 {
				continue
			}
			t.timeout = time.Duration(n) * time.Second
			t.accepted = append(t.accepted, o)
		case "tsize":
			t.accepted = append(t.accepted, option{o.name, strconv.FormatInt(size, 10)})
		}
	}
	return t
}

func encodeOACK(options []option) []byte {
	b := binary.BigEndian.AppendUint16(nil, opOACK)
	for _, o := range options {
		b = append(append(append(append(b, o.name...), 0), o.value...), 0)
	}
	return b
}

func encodeError(code uint16, text string) []byte {
	b := binary.BigEndian.AppendUint16(nil, opError)
	b = binary.BigEndian.AppendUint16(b, code)
	return append(append(b, text...), 0)
}

// reply is what a client sends during a transfer.
type reply struct {
	ack uint16
	// failure is the client's error text; only read when failed.
	failed  bool
	failure string
}

func parseReply(p []byte) (reply, error) {
	if len(p) < 4 {
		return reply{}, fmt.Errorf("%w: %d bytes", errMalformed, len(p))
	}
	n := binary.BigEndian.Uint16(p[2:])
	switch binary.BigEndian.Uint16(p) {
	case opAck:
		return reply{ack: n}, nil
	case opError:
		text, _, _ := bytes.Cut(p[4:], []byte{0})
		return reply{failed: true, failure: fmt.Sprintf("code %d %q", n, text)}, nil
	}
	return reply{}, fmt.Errorf("%w: neither ACK nor ERROR", errMalformed)
}
