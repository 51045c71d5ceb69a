// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Kernel structures of 64-bit machines, little endian, with the offsets of pointers that the
// caller fills in. The first group is struct nvme_passthru_cmd (linux/nvme_ioctl.h), the
// second struct sg_io_hdr (scsi/sg.h).
const (
	nvmeSize        = 72
	nvmeAddressAt   = 24
	nvmeIoctlID     = 0x4e40     // _IO('N', 0x40)
	nvmeIoctlAdmin  = 0xc0484e41 // _IOWR('N', 0x41, struct nvme_passthru_cmd)
	sgSize          = 88
	sgDataAt        = 16
	sgCommandAt     = 24
	sgSenseAt       = 32
	sgIoctl         = 0x2285 // SG_IO
	blkDiscard      = 0x1277 // _IO(0x12, 119)
	blkSecDiscard   = 0x127d // _IO(0x12, 125)
	senseSize       = 64
	ataBlock        = 512
	passThroughSize = 16
)

// encodeNVMe encodes a command without the address of its data.
func encodeNVMe(c NVMeCommand) [nvmeSize]byte {
	var b [nvmeSize]byte
	le := binary.LittleEndian
	b[0] = c.Opcode
	le.PutUint32(b[4:], c.Namespace)
	le.PutUint32(b[36:], uint32(len(c.Data)))
	le.PutUint32(b[40:], c.CDW10)
	le.PutUint32(b[44:], c.CDW11)
	le.PutUint32(b[64:], milliseconds(c.Timeout))
	return b
}

// encodePassThrough encodes the CDB of ATA PASS-THROUGH (16) (SAT-4, section 12.2.2.3).
func encodePassThrough(c ATACommand) [passThroughSize]byte {
	const (
		noData, dataIn, dataOut = 3 << 1, 4 << 1, 5 << 1
		fromDevice, inBlocks    = 1 << 3, 1 << 2
		lengthInCount           = 2
	)
	b := [passThroughSize]byte{0: 0x85, 14: c.Command}
	switch {
	case c.In != nil:
		b[1], b[2], b[6] = dataIn, fromDevice|inBlocks|lengthInCount, 1
	case c.Out != nil:
		b[1], b[2], b[6] = dataOut, inBlocks|lengthInCount, 1
	default:
		b[1] = noData
	}
	return b
}

// encodeSG encodes a struct sg_io_hdr (scsi/sg.h) without its addresses.
func encodeSG(c ATACommand) [sgSize]byte {
	const none, toDevice, fromDevice = -1, -2, -3
	var b [sgSize]byte
	le := binary.LittleEndian
	direction, length := none, 0
	switch {
	case c.In != nil:
		direction, length = fromDevice, len(c.In)
	case c.Out != nil:
		direction, length = toDevice, len(c.Out)
	}
	le.PutUint32(b[0:], 'S')
	le.PutUint32(b[4:], uint32(int32(direction)))
	b[8], b[9] = passThroughSize, senseSize
	le.PutUint32(b[12:], uint32(length))
	le.PutUint32(b[40:], milliseconds(c.Timeout))
	return b
}

// checkSG evaluates the SCSI, host adapter and driver status of a command. Disks without ATA
// commands answer ILLEGAL REQUEST (sense key 5, SPC-5 section 4.4), in fixed or descriptor
// format.
func checkSG(header [sgSize]byte, sense []byte) error {
	status := header[64]
	host, driver := binary.LittleEndian.Uint16(header[68:]), binary.LittleEndian.Uint16(header[70:])
	key := byte(0)
	if header[67] > 3 && len(sense) > 3 { // sb_len_wr
		switch sense[0] & 0x7f {
		case 0x70, 0x71:
			key = sense[2] & 0x0f
		case 0x72, 0x73:
			key = sense[1] & 0x0f
		}
	}
	switch {
	case key == 5:
		return ErrNotSupported
	case status == 0 && host == 0 && driver&0x0f == 0:
		return nil
	case status == 2 && (key == 0 || key == 1): // recovered error, which some bridges always report
		return nil
	}
	return fmt.Errorf("ATA command failed: status %#x, host %#x, driver %#x, sense key %#x", status, host, driver, key)
}

func milliseconds(d time.Duration) uint32 {
	return uint32(min(d.Milliseconds(), math.MaxUint32))
}

// None is the Commands of a disk without any.
type None struct{}

func (None) NVMe(context.Context, NVMeCommand) error { return ErrNotSupported }

func (None) Namespace() (uint32, error) { return 0, ErrNotSupported }

func (None) ATA(context.Context, ATACommand) error { return ErrNotSupported }

func (None) Discard(context.Context, DiscardRange) error { return ErrNotSupported }
