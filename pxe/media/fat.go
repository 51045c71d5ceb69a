// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package media

import (
	"encoding/binary"
	"fmt"
	"unicode/utf16"
)

// The file system is FAT16 ("Microsoft Extensible Firmware Initiative FAT32 File
// System Specification", 1.03, which describes FAT16 too): UEFI reads it, and its
// layout needs no search for free space.
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
	// midnight of 1980-01-01, the first date there is.
	fatDate = 0<<9 | 1<<5 | 1
)

// layout is where things are, in bytes from the start of the file system.
type layout struct {
	clusterSize, clusters, fatSectors int
	dataAt                            int
	size                              int
}

// newLayout finds the cluster size for as many bytes of data.
func newLayout(data int) (layout, error) {
	for size := 2048; size <= maxClusterSize; size *= 2 {
		clusters := max(data/size+16, minClusters+16)
		if clusters > maxClusters {
			continue
		}
		l := layout{clusterSize: size, clusters: clusters}
		// Two FATs of equal size; rounded so that data begins on a CD's sector.
		l.fatSectors = roundUp(((clusters+2)*2+fatSector-1)/fatSector, isoSector/fatSector)
		l.dataAt = (reserved+2*l.fatSectors)*fatSector + rootEntries*entrySize
		l.size = l.dataAt + clusters*size
		return l, nil
	}
	return layout{}, fmt.Errorf("%w: %d bytes are more than FAT16 holds", ErrImage, data)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// fat is a file system being written: all of it up to the data of its last file.
type fat struct {
	layout
	head []byte
	next int // first free cluster
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
	put32(b[39:], 0x544f474e) // a fixed serial number: the same bytes each time
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

// allocate takes the clusters for n bytes, in one run, and returns the first.
func (f *fat) allocate(n int) (int, error) {
	count := max(1, (n+f.clusterSize-1)/f.clusterSize)
	first := f.next
	if first+count > f.clusters+2 {
		return 0, fmt.Errorf("%w: no room for %d bytes", ErrImage, n)
	}
	for i := range count - 1 {
		f.setNext(first+i, uint16(first+i+1))
	}
	f.setNext(first+count-1, endOfChain)
	f.next += count
	return first, nil
}

// offset is where a cluster begins.
func (f *fat) offset(cluster int) int { return f.dataAt + (cluster-2)*f.clusterSize }

// root is where the entries of the root directory begin.
func (f *fat) root() int { return (reserved + 2*f.fatSectors) * fatSector }

// grow makes the head reach to the end of what is allocated.
func (f *fat) grow() {
	if end := f.offset(f.next); end > len(f.head) {
		f.head = append(f.head, make([]byte, end-len(f.head))...)
	}
}

// directory makes a directory in the one whose entries begin at parent, and returns
// where its own begin. Each directory here has one entry, or two in one cluster.
func (f *fat) directory(parent *int, parentCluster int, name fatName) (at, cluster int, err error) {
	cluster, err = f.allocate(f.clusterSize)
	if err != nil {
		return 0, 0, err
	}
	f.grow()
	f.enter(parent, name, attrDirectory, cluster, 0)
	at = f.offset(cluster)
	f.enter(&at, fatName{short: ".          "}, attrDirectory, cluster, 0)
	f.enter(&at, fatName{short: "..         "}, attrDirectory, parentCluster, 0)
	return at, cluster, nil
}

// fatName is a name in 8.3 form, eleven bytes, and the long one if it is another.
type fatName struct{ short, long string }

// enter writes a directory entry at *at, after those of its long name.
func (f *fat) enter(at *int, name fatName, attr byte, cluster, size int) {
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

// longEntries are the entries of a long name, last part first, of 13 UTF-16 units each.
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
