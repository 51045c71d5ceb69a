// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package media

import (
	"encoding/binary"
	"fmt"
	"unicode/utf16"
)

// The file system is FAT16 ("Microsoft Extensible Firmware Initiative FAT32 File System
// Specification", 1.03, which also describes FAT16). UEFI reads FAT16, and its layout needs no
// search for free space.
const (
	fatSector      = 512
	reserved       = 4 // sectors before the first FAT, so that data is aligned to a CD's sectors
	rootEntries    = 512
	entrySize      = 32
	minClusters    = 4085
	maxClusters    = 65524
	maxClusterSize = 32 << 10

	attrReadOnly  = 0x01
	attrDirectory = 0x10
	attrLongName  = 0x0f

	endOfChain = 0xffff
	fatDate    = 0<<9 | 1<<5 | 1 // 1980-01-01, the first valid date
)

// layout has positions and sizes in the file system. dataAt and size are in bytes.
type layout struct {
	clusterSize, clusters, fatSectors int
	dataAt                            int
	size                              int
}

// newLayout chooses the cluster size for a number of data bytes.
func newLayout(data int) (layout, error) {
	for size := 2048; size <= maxClusterSize; size *= 2 {
		clusters := max(data/size+16, minClusters+16)
		if clusters > maxClusters {
			continue
		}
		l := layout{clusterSize: size, clusters: clusters}
		// Two FATs of equal size, rounded so that data starts on a CD sector.
		l.fatSectors = roundUp(((clusters+2)*2+fatSector-1)/fatSector, isoSector/fatSector)
		l.dataAt = (reserved+2*l.fatSectors)*fatSector + rootEntries*entrySize
		l.size = l.dataAt + clusters*size
		return l, nil
	}
	return layout{}, fmt.Errorf("%w: %d bytes do not fit FAT16", ErrImage, data)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// fat is a file system up to the data of its last file.
type fat struct {
	layout
	head []byte
	next int // first free cluster
	err  error
}

func newFAT(l layout) *fat {
	f := &fat{layout: l, head: make([]byte, l.dataAt), next: 2}
	b := f.head
	copy(b, []byte{0xeb, 0x3c, 0x90})
	copy(b[3:], "INGOT   ")
	put16, put32 := binary.LittleEndian.PutUint16, binary.LittleEndian.PutUint32
	put16(b[11:], fatSector)
	b[13] = byte(l.clusterSize / fatSector)
	put16(b[14:], reserved)
	b[16] = 2
	put16(b[17:], rootEntries)
	if sectors := l.size / fatSector; sectors < 1<<16 {
		put16(b[19:], uint16(sectors))
	} else {
		put32(b[32:], uint32(sectors))
	}
	b[21] = 0xf8
	put16(b[22:], uint16(l.fatSectors))
	put16(b[24:], 32)
	put16(b[26:], 64)
	b[36], b[38] = 0x80, 0x29
	put32(b[39:], 0x544f474e) // a fixed serial number, for identical bytes each time
	copy(b[43:], "INGOT      ")
	copy(b[54:], "FAT16   ")
	b[510], b[511] = 0x55, 0xaa
	f.setNext(0, 0xfff8)
	f.setNext(1, endOfChain)
	return f
}

// setNext links a cluster to the next of its chain, in both FATs.
func (f *fat) setNext(cluster int, next uint16) {
	for i := range 2 {
		at := (reserved+i*f.fatSectors)*fatSector + cluster*2
		binary.LittleEndian.PutUint16(f.head[at:], next)
	}
}

// allocate allocates contiguous clusters for n bytes and returns the first. It sets err if there
// is not enough space.
func (f *fat) allocate(n int) int {
	count := max(1, (n+f.clusterSize-1)/f.clusterSize)
	first := f.next
	if first+count > f.clusters+2 {
		f.err = fmt.Errorf("%w: no space for %d bytes", ErrImage, n)
		return first
	}
	for i := range count - 1 {
		f.setNext(first+i, uint16(first+i+1))
	}
	f.setNext(first+count-1, endOfChain)
	f.next += count
	return first
}

func (f *fat) offset(cluster int) int { return f.dataAt + (cluster-2)*f.clusterSize }

func (f *fat) root() int { return (reserved + 2*f.fatSectors) * fatSector }

func (f *fat) grow() {
	if end := f.offset(f.next); end > len(f.head) {
		f.head = append(f.head, make([]byte, end-len(f.head))...)
	}
}

// directory adds a directory to the one with entries at parent, and returns the position of the
// new directory's entries. Each directory here has one or two entries, in one cluster.
func (f *fat) directory(parent *int, parentCluster int, name fatName) (at, cluster int) {
	cluster = f.allocate(f.clusterSize)
	f.grow()
	f.addEntry(parent, name, attrDirectory, cluster, 0)
	at = f.offset(cluster)
	f.addEntry(&at, fatName{short: ".          "}, attrDirectory, cluster, 0)
	f.addEntry(&at, fatName{short: "..         "}, attrDirectory, parentCluster, 0)
	return at, cluster
}

// fatName is an 11-byte name in 8.3 form, and the long name if it differs.
type fatName struct{ short, long string }

// addEntry writes a directory entry at *at, after the entries of its long name.
func (f *fat) addEntry(at *int, name fatName, attr byte, cluster, size int) {
	if f.err != nil {
		return
	}
	for _, e := range longEntries(name) {
		*at += copy(f.head[*at:], e[:])
	}
	e := f.head[*at : *at+entrySize]
	copy(e, name.short)
	e[11] = attr
	put16 := binary.LittleEndian.PutUint16
	put16(e[16:], fatDate)
	put16(e[18:], fatDate)
	put16(e[24:], fatDate)
	put16(e[26:], uint16(cluster))
	binary.LittleEndian.PutUint32(e[28:], uint32(size))
	*at += entrySize
}

// longEntries returns the entries of a long name, last part first, with 13 UTF-16 units each.
func longEntries(name fatName) [][entrySize]byte {
	if name.long == "" {
		return nil
	}
	var sum byte
	for _, c := range []byte(name.short) {
		sum = sum>>1 | sum<<7
		sum += c
	}
	units := utf16.Encode([]rune(name.long))
	parts := (len(units) + 12) / 13
	var out [][entrySize]byte
	for part := parts; part > 0; part-- {
		var e [entrySize]byte
		e[0], e[11], e[13] = byte(part), attrLongName, sum
		if part == parts {
			e[0] |= 0x40
		}
		for i, at := range []int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} {
			unit := uint16(0xffff)
			switch n := (part-1)*13 + i; {
			case n < len(units):
				unit = units[n]
			case n == len(units):
				unit = 0
			}
			binary.LittleEndian.PutUint16(e[at:], unit)
		}
		out = append(out, e)
	}
	return out
}
