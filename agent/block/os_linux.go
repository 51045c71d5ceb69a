// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package block

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// osDevice is a file or a block device of the operating system.
type osDevice struct {
	*os.File
	size  int64
	zero  func(fd int, off, n int64) error
	flush func(fd int) error
}

// OpenFile opens a regular file as a disk. Zeroed ranges become holes if the file system
// supports them.
func OpenFile(path string) (Device, error) {
	dev, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return dev, nil
}

// OpenSteadyFile is OpenFile with the write-out of Open, for speed measurements.
func OpenSteadyFile(path string) (Device, error) {
	dev, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return &steady{*dev}, nil
}

func openFile(path string) (*osDevice, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("open %s: not a regular file", path), f.Close())
	}
	return &osDevice{File: f, size: info.Size(), zero: punch, flush: nothing}, nil
}

// Open opens a whole disk ("/dev/sda") exclusively: it fails for a mounted disk.
func Open(path string) (Device, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return nil, err
	}
	size, err := blockSize(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("size of %s: %w", path, err), f.Close())
	}
	return &steady{osDevice{File: f, size: size, zero: zeroOut, flush: flushBuffers}}, nil
}

// steady starts the write-out of data at once. Otherwise the kernel keeps much of a large
// server's memory unwritten, and the final sync takes minutes without progress.
type steady struct{ osDevice }

func (d *steady) WriteAt(b []byte, off int64) (int, error) {
	n, err := d.osDevice.WriteAt(b, off)
	if err == nil {
		// Only starts the write-out. Errors show at Sync.
		_ = unix.SyncFileRange(int(d.Fd()), off, int64(n), unix.SYNC_FILE_RANGE_WRITE)
	}
	return n, err
}

func (d *osDevice) Size() int64 { return d.size }

// SectorSize is the logical sector size of a block device in bytes, the unit of partition
// tables; 0 for a file, or if unknown.
func (d *osDevice) SectorSize() int {
	n, err := unix.IoctlGetInt(int(d.Fd()), unix.BLKSSZGET)
	if err != nil {
		return 0
	}
	return n
}

func (d *osDevice) Zero(off, n int64) error {
	if n <= 0 {
		return nil
	}
	err := d.zero(int(d.Fd()), off, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return ErrNotSupported
	}
	if err != nil {
		return fmt.Errorf("zero %d bytes at %d of %s: %w", n, off, d.Name(), err)
	}
	return nil
}

func (d *osDevice) DropCache() error {
	if err := d.flush(int(d.Fd())); err != nil {
		return fmt.Errorf("drop the cache of %s: %w", d.Name(), err)
	}
	return nil
}

func punch(fd int, off, n int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

func nothing(int) error { return nil }

// BLKZEROOUT of linux/fs.h, which golang.org/x/sys lacks.
const blkZeroOut = 0x127f

// zeroOut uses the device's write-zeroes command if it has one; else the kernel writes zeroes.
func zeroOut(fd int, off, n int64) error {
	span := [2]uint64{uint64(off), uint64(n)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), blkZeroOut, uintptr(unsafe.Pointer(&span)))
	if errno != 0 {
		return errno
	}
	return nil
}

func flushBuffers(fd int) error { return unix.IoctlSetInt(fd, unix.BLKFLSBUF, 0) }

// blockSize uses seek, which unlike the ioctl does not depend on the word size.
func blockSize(f *os.File) (int64, error) {
	size, err := f.Seek(0, 2)
	if err != nil {
		return 0, err
	}
	if size <= 0 {
		return 0, errors.New("no medium")
	}
	return size, nil
}
