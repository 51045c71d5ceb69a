// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package media

import "encoding/binary"

// Sectors of the CD (ECMA-119 and El Torito 1.0): sixteen system sectors, the volume
// descriptors, and their content.
const (
	isoSector = 2048

	primaryAt   = 16
	bootAt      = 17
	endAt       = 18
	pathsAt     = 19 // little-endian, followed by big-endian
	directoryAt = 21
	catalogAt   = 22
	imageAt     = 23

	volumeName = "INGOT"
	imageName  = "EFI.IMG;1"
)

// isoHeader returns the CD up to the file system, whose size is in bytes.
func isoHeader(size int) []byte {
	b := make([]byte, imageAt*isoSector)
	sectors := imageAt + roundUp(size, isoSector)/isoSector
	sector := func(n int) []byte { return b[n*isoSector : (n+1)*isoSector] }
	primary(sector(primaryAt), sectors)
	record := sector(bootAt)
	copy(record, "\x00CD001\x01EL TORITO SPECIFICATION")
	binary.LittleEndian.PutUint32(record[71:], catalogAt)
	copy(sector(endAt), "\xffCD001\x01")
	// The path tables only contain the root directory.
	little, big := sector(pathsAt), sector(pathsAt+1)
	little[0], little[6] = 1, 1
	binary.LittleEndian.PutUint32(little[2:], directoryAt)
	big[0], big[7] = 1, 1
	binary.BigEndian.PutUint32(big[2:], directoryAt)
	root := sector(directoryAt)
	at := directoryRecord(root, "\x00", directoryAt, isoSector, true)
	at += directoryRecord(root[at:], "\x01", directoryAt, isoSector, true)
	directoryRecord(root[at:], imageName, imageAt, size, false)
	catalog(sector(catalogAt), size)
	return b
}

// primary writes the primary volume descriptor (ECMA-119 section 8.4).
func primary(b []byte, sectors int) {
	copy(b, "\x01CD001\x01")
	fill := func(from, to int, text string) {
		for i := from; i < to; i++ {
			b[i] = ' '
		}
		copy(b[from:to], text)
	}
	fill(8, 40, "")
	fill(40, 72, volumeName)
	both32(b[80:], sectors)
	both16(b[120:], 1)
	both16(b[124:], 1)
	both16(b[128:], isoSector)
	both32(b[132:], 10) // bytes of a path table
	binary.LittleEndian.PutUint32(b[140:], pathsAt)
	binary.BigEndian.PutUint32(b[148:], pathsAt+1)
	directoryRecord(b[156:], "\x00", directoryAt, isoSector, true)
	fill(190, 813, "") // the names of the volume set, publisher, preparer, application and files
	for _, at := range []int{813, 830, 847, 864} {
		copy(b[at:at+16], "0000000000000000") // no date
	}
	b[881] = 1
}

// directoryRecord writes a record (ECMA-119 section 9.1) and returns its length.
func directoryRecord(b []byte, name string, at, size int, directory bool) int {
	length := roundUp(33+len(name), 2)
	b[0] = byte(length)
	both32(b[2:], at)
	both32(b[10:], size)
	copy(b[18:], []byte{80, 1, 1, 0, 0, 0, 0}) // 1980-01-01
	if directory {
		b[25] = 2
	}
	both16(b[28:], 1)
	b[32] = byte(len(name))
	copy(b[33:], name)
	return length
}

// catalog writes the boot catalog: the validation entry for UEFI, and the default entry, which
// boots without emulation.
func catalog(b []byte, size int) {
	const platformUEFI, bootable = 0xef, 0x88
	b[0], b[1] = 1, platformUEFI
	copy(b[4:], volumeName)
	b[30], b[31] = 0x55, 0xaa
	var sum uint16
	for i := 0; i < 32; i += 2 {
		sum += binary.LittleEndian.Uint16(b[i:])
	}
	binary.LittleEndian.PutUint16(b[28:], -sum) // the sixteen words add up to zero
	b[32] = bootable
	// In sectors of 512 bytes. 0 stands for a larger number: the file system extends to the
	// end of the CD (UEFI 2.10 section 13.3.2.1).
	if sectors := roundUp(size, isoSector) / 512; sectors < 1<<16 {
		binary.LittleEndian.PutUint16(b[38:], uint16(sectors))
	}
	binary.LittleEndian.PutUint32(b[40:], imageAt)
}

// both16 and both32 write a number in both byte orders (ECMA-119 sections 7.2.3 and 7.3.3).
func both16(b []byte, n int) {
	binary.LittleEndian.PutUint16(b, uint16(n))
	binary.BigEndian.PutUint16(b[2:], uint16(n))
}

func both32(b []byte, n int) {
	binary.LittleEndian.PutUint32(b, uint32(n))
	binary.BigEndian.PutUint32(b[4:], uint32(n))
}
