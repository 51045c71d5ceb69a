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
	headerSize       = 4
	defaultBlockSize = 512
	minBlockSize     = 8
	// maxBlockSize is RFC 2348's.
	maxBlockSize  = 65464
	maxNameLength = 255
	// maxWindow is what the kernel takes in one piece (UDP_MAX_SEGMENTS), and
	// maxBurst how many bytes that may be: a larger window would only overrun
	// the receive buffers of firmware, and cost memory here.
	maxWindow = 64
	maxBurst  = 65507
	// headers are those of UDP and TFTP, and of either IP.
	headersIPv4 = 20 + 8 + headerSize
	headersIPv6 = 40 + 8 + headerSize
)

var errMalformed = errors.New("malformed TFTP packet")

// readRequest is a parsed RRQ.
type readRequest struct {
	name, mode string
	options    []option
}

// option is a name in lower case and its value as sent.
type option struct{ name, value string }

// knownOptions are those that negotiate knows (RFC 2348, 2349, 7440).
var knownOptions = []string{"blksize", "timeout", "tsize", "windowsize"}

// parseRequest reads an RRQ: name, mode and option pairs, each ended by a zero
// byte. Bytes after the last zero are ignored, as some ROMs pad, and so are options that
// nobody here knows.
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
		// The first of each that negotiate knows: a request may wait, and is as small as that.
		if name := strings.ToLower(f[0]); slices.Contains(knownOptions, name) && !req.asks(name) {
			req.options = append(req.options, option{name, f[1]})
		}
	}
	return req, nil
}

// asks says whether an option is among those of the request.
func (r readRequest) asks(name string) bool {
	for _, o := range r.options {
		if o.name == name {
			return true
		}
	}
	return false
}

// terms are what a transfer runs under.
type terms struct {
	blockSize int
	window    int
	timeout   time.Duration
	// accepted goes into the OACK; empty: no OACK, block 1 is sent at once.
	accepted []option
}

// limits are what the server offers: the file's size, the largest block, and the
// timeout if the client does not ask for one.
type limits struct {
	size     int64
	maxBlock int
	timeout  time.Duration
}

// negotiate accepts the options that are known and valid, in the client's order, and leaves
// out the others, as RFC 2347 wants. Block size and window may be answered with less than
// was asked (RFC 2348, RFC 7440 section 3).
func negotiate(req readRequest, l limits) terms {
	t := terms{blockSize: defaultBlockSize, window: 1, timeout: l.timeout}
	for _, o := range req.options {
		if n := o.number(); o.name == "blksize" && n >= minBlockSize {
			t.blockSize = int(min(n, int64(l.maxBlock)))
		}
	}
	accept := func(name string, value int64) {
		t.accepted = append(t.accepted, option{name, strconv.FormatInt(value, 10)})
	}
	for _, o := range req.options {
		switch n := o.number(); {
		case o.name == "blksize" && n >= minBlockSize:
			accept(o.name, int64(t.blockSize))
		case o.name == "timeout" && n >= 1 && n <= int64(maxTimeout/time.Second): // RFC 2349 allows 255, and to leave it out
			t.timeout = time.Duration(n) * time.Second
			accept(o.name, n)
		case o.name == "tsize" && n >= 0:
			accept(o.name, l.size)
		case o.name == "windowsize" && n >= 1:
			t.window = int(max(1, min(n, maxWindow, int64(maxBurst/(headerSize+t.blockSize)))))
			accept(o.name, int64(t.window))
		}
	}
	return t
}

// number is the option's value, or -1 if that is no number.
func (o option) number() int64 {
	n, err := strconv.ParseInt(o.value, 10, 64)
	if err != nil {
		return -1
	}
	return n
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
	if len(p) < headerSize {
		return reply{}, fmt.Errorf("%w: %d bytes", errMalformed, len(p))
	}
	n := binary.BigEndian.Uint16(p[2:])
	switch binary.BigEndian.Uint16(p) {
	case opAck:
		return reply{ack: n}, nil
	case opError:
		text, _, _ := bytes.Cut(p[headerSize:], []byte{0})
		return reply{failed: true, failure: fmt.Sprintf("code %d %q", n, text)}, nil
	}
	return reply{}, fmt.Errorf("%w: neither ACK nor ERROR", errMalformed)
}
