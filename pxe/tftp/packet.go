// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Opcodes (RFC 1350 section 5, RFC 2347).
const (
	opRead  = 1
	opWrite = 2
	opData  = 3
	opAck   = 4
	opError = 5
	opOACK  = 6
)

// Error codes (RFC 1350 appendix I).
const (
	codeUndefined = 0
	codeNotFound  = 1
	codeIllegal   = 4
)

const (
	headerSize       = 4
	defaultBlockSize = 512
	minBlockSize     = 8
	maxBlockSize     = 65464 // RFC 2348
	maxNameLength    = 255
	// maxWindow is the kernel's limit per call (UDP_MAX_SEGMENTS), and maxBurst the limit in
	// bytes. A larger window overruns the receive buffers of firmware.
	maxWindow = 64
	maxBurst  = 65507
)

var errMalformed = errors.New("malformed TFTP packet")

// readRequest is a parsed RRQ. It has each known option once, in the client's order.
type readRequest struct {
	name, mode string
	options    []option
}

// option is an option with its lower-case name. The value is -1 if it is not a number.
type option struct {
	name  string
	value int64
}

func opcode(p []byte) uint16 {
	if len(p) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(p)
}

// parseRequest parses an RRQ: name, mode and option pairs, each ended by a zero byte. It
// ignores bytes after the last zero (some ROMs pad), unknown options, and repeated options,
// so that queued requests stay small.
func parseRequest(p []byte) (readRequest, error) {
	if opcode(p) != opRead {
		return readRequest{}, errMalformed
	}
	fields := bytes.Split(p[2:], []byte{0})
	fields = fields[:len(fields)-1]
	if len(fields) < 2 || len(fields[0]) == 0 || len(fields[0]) > maxNameLength {
		return readRequest{}, errMalformed
	}
	req := readRequest{name: string(fields[0]), mode: strings.ToLower(string(fields[1]))}
	for f := fields[2:]; len(f) >= 2; f = f[2:] {
		name := strings.ToLower(string(f[0]))
		if _, repeated := req.option(name); repeated || !slices.Contains([]string{"blksize", "timeout", "tsize", "windowsize"}, name) {
			continue
		}
		value, err := strconv.ParseInt(string(f[1]), 10, 64)
		if err != nil {
			value = -1
		}
		req.options = append(req.options, option{name, value})
	}
	return req, nil
}

// option returns the value of an option, and whether the client sent it.
func (r readRequest) option(name string) (int64, bool) {
	for _, o := range r.options {
		if o.name == name {
			return o.value, true
		}
	}
	return 0, false
}

// terms are the negotiated parameters of a transfer.
type terms struct {
	blockSize int
	window    int
	timeout   time.Duration
	// accepted are the options for the OACK. If empty, the transfer starts with block 1.
	accepted []option
}

// negotiate accepts the valid options and ignores the others (RFC 2347). It may reduce block
// size and window (RFC 2348, RFC 7440 section 3). It ignores long timeouts: the 255 s that RFC
// 2349 allows would occupy a slot for too long.
func negotiate(req readRequest, size int64, maxBlock int, timeout time.Duration) terms {
	t := terms{blockSize: defaultBlockSize, window: 1, timeout: timeout}
	if n, _ := req.option("blksize"); n >= minBlockSize {
		t.blockSize = int(min(n, int64(maxBlock)))
	}
	for _, o := range req.options {
		switch n := o.value; {
		case o.name == "blksize" && n >= minBlockSize:
			o.value = int64(t.blockSize)
		case o.name == "timeout" && n >= 1 && n <= int64(maxTimeout/time.Second):
			t.timeout = time.Duration(n) * time.Second
		case o.name == "tsize" && n >= 0:
			o.value = size
		case o.name == "windowsize" && n >= 1:
			t.window = int(max(1, min(n, maxWindow, int64(maxBurst/(headerSize+t.blockSize)))))
			o.value = int64(t.window)
		default:
			continue
		}
		t.accepted = append(t.accepted, o)
	}
	return t
}

func encodeOACK(options []option) []byte {
	b := []byte{0, opOACK}
	for _, o := range options {
		b = append(append(b, o.name...), 0)
		b = append(strconv.AppendInt(b, o.value, 10), 0)
	}
	return b
}

func encodeError(code byte, text string) []byte {
	return append(append([]byte{0, opError, 0, code}, text...), 0)
}

// parseReply parses a packet of the client during a transfer: the block number of an ACK, or
// an ERROR, which it returns as errAborted.
func parseReply(p []byte) (ack uint16, err error) {
	if len(p) < headerSize {
		return 0, errMalformed
	}
	n := binary.BigEndian.Uint16(p[2:])
	switch opcode(p) {
	case opAck:
		return n, nil
	case opError:
		text, _, _ := bytes.Cut(p[headerSize:], []byte{0})
		return 0, fmt.Errorf("%w: code %d %q", errAborted, n, text)
	}
	return 0, errMalformed
}
