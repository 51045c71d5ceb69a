// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Capture writes every frame that enters the switch from now on to w, in pcap
// format (libpcap savefile 2.4, microseconds, link type Ethernet). A failing
// writer ends the capture, not the traffic. Capture replaces an earlier one.
func (s *Switch) Capture(w io.Writer) error {
	p, err := newPcapWriter(w)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capture = p
	return nil
}

// StopCapture ends the capture; after it returns the writer is not used again.
func (s *Switch) StopCapture() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capture = nil
}

type pcapWriter struct {
	w      io.Writer
	failed bool
}

func newPcapWriter(w io.Writer) (*pcapWriter, error) {
	var h [24]byte
	binary.LittleEndian.PutUint32(h[0:], 0xa1b2c3d4)
	binary.LittleEndian.PutUint16(h[4:], 2)
	binary.LittleEndian.PutUint16(h[6:], 4)
	binary.LittleEndian.PutUint32(h[16:], MaxFrame)
	binary.LittleEndian.PutUint32(h[20:], 1) // LINKTYPE_ETHERNET
	if _, err := w.Write(h[:]); err != nil {
		return nil, fmt.Errorf("write pcap header: %w", err)
	}
	return &pcapWriter{w: w}, nil
}

func (p *pcapWriter) write(at time.Time, frame []byte) {
	if p.failed {
		return
	}
	rec := make([]byte, 16+len(frame))
	binary.LittleEndian.PutUint32(rec[0:], uint32(at.Unix()))
	binary.LittleEndian.PutUint32(rec[4:], uint32(at.Nanosecond()/1000))
	binary.LittleEndian.PutUint32(rec[8:], uint32(len(frame)))
	binary.LittleEndian.PutUint32(rec[12:], uint32(len(frame)))
	copy(rec[16:], frame)
	if _, err := p.w.Write(rec); err != nil {
		p.failed = true
	}
}
