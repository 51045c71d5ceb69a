// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Capture writes every further frame that enters the switch to w, in pcap format (libpcap savefile
// 2.4, microseconds, link type Ethernet). A failing writer ends the capture but not the traffic.
// Capture replaces an earlier one.
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

// StopCapture ends the capture. The writer is not used after StopCapture has returned.
func (s *Switch) StopCapture() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capture = nil
}

// Frame is a frame of a capture.
type Frame struct {
	// At is the time of arrival at the switch, in microseconds.
	At time.Time
	// Data starts with the Ethernet header.
	Data []byte
}

// ReadCapture reads the format of [Switch.Capture].
func ReadCapture(r io.Reader) ([]Frame, error) {
	var fileHeader [24]byte
	if _, err := io.ReadFull(r, fileHeader[:]); err != nil {
		return nil, fmt.Errorf("read pcap header: %w", err)
	}
	var frames []Frame
	for {
		var h [16]byte
		if _, err := io.ReadFull(r, h[:]); errors.Is(err, io.EOF) {
			return frames, nil
		} else if err != nil {
			return nil, fmt.Errorf("read header of frame %d: %w", len(frames), err)
		}
		seconds, microseconds := binary.LittleEndian.Uint32(h[0:]), binary.LittleEndian.Uint32(h[4:])
		size := binary.LittleEndian.Uint32(h[8:])
		if size < ethernetHeader || size > MaxFrame {
			return nil, fmt.Errorf("frame %d has %d bytes, want %d to %d", len(frames), size, ethernetHeader, MaxFrame)
		}
		f := Frame{At: time.Unix(int64(seconds), int64(microseconds)*1000), Data: make([]byte, size)}
		if _, err := io.ReadFull(r, f.Data); err != nil {
			return nil, fmt.Errorf("read frame %d: %w", len(frames), err)
		}
		frames = append(frames, f)
	}
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
