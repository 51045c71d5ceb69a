// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel sends commands to a disk through the kernel. The caller closes it.
type Kernel struct {
	file *os.File
	// usb is set if the disk is behind a USB bridge. Unknown ATA commands crash some bridges.
	usb bool
}

// OpenKernel opens a whole disk ("/dev/sda") for commands.
func OpenKernel(path string) (*Kernel, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	where, _ := filepath.EvalSymlinks("/sys/class/block/" + filepath.Base(path))
	return &Kernel{file: f, usb: strings.Contains(where, "/usb")}, nil
}

func (k *Kernel) Close() error { return k.file.Close() }

func (k *Kernel) NVMe(_ context.Context, cmd NVMeCommand) error {
	header := encodeNVMe(cmd)
	var pin runtime.Pinner
	defer pin.Unpin()
	if len(cmd.Data) > 0 {
		pin.Pin(&cmd.Data[0])
		binary.NativeEndian.PutUint64(header[nvmeAddressAt:], uint64(uintptr(unsafe.Pointer(&cmd.Data[0]))))
	}
	status, err := k.ioctl(nvmeIoctlAdmin, unsafe.Pointer(&header))
	if err != nil {
		return err
	}
	const code = 0x7ff // status type and code, without "do not retry" and "more"
	switch status & code {
	case 0:
		return nil
	case 0x01, 0x02: // invalid opcode, invalid field
		return fmt.Errorf("%w (NVMe status %#x)", ErrNotSupported, status)
	}
	return fmt.Errorf("NVMe status %#x", status)
}

func (k *Kernel) Namespace() (uint32, error) {
	number, err := k.ioctl(nvmeIoctlID, nil)
	return uint32(number), err
}

func (k *Kernel) ATA(_ context.Context, cmd ATACommand) error {
	if k.usb {
		return ErrNotSupported
	}
	header, cdb, sense := encodeSG(cmd), encodePassThrough(cmd), make([]byte, senseSize)
	var pin runtime.Pinner
	defer pin.Unpin()
	point := func(at int, target *byte) {
		pin.Pin(target)
		binary.NativeEndian.PutUint64(header[at:], uint64(uintptr(unsafe.Pointer(target))))
	}
	point(sgCommandAt, &cdb[0])
	point(sgSenseAt, &sense[0])
	switch {
	case cmd.In != nil:
		point(sgDataAt, &cmd.In[0])
	case cmd.Out != nil:
		point(sgDataAt, &cmd.Out[0])
	}
	if _, err := k.ioctl(sgIoctl, unsafe.Pointer(&header)); err != nil {
		return err
	}
	return checkSG(header, sense)
}

func (k *Kernel) Discard(_ context.Context, r DiscardRange) error {
	span := [2]uint64{uint64(r.Off), uint64(r.Len)}
	request := uintptr(blkDiscard)
	if r.Secure {
		request = blkSecDiscard
	}
	_, err := k.ioctl(request, unsafe.Pointer(&span))
	return err
}

func (k *Kernel) ioctl(request uintptr, argument unsafe.Pointer) (uintptr, error) {
	out, _, errno := unix.Syscall(unix.SYS_IOCTL, k.file.Fd(), request, uintptr(argument))
	switch {
	case errno == 0:
		return out, nil
	case errors.Is(errno, unix.ENOTTY), errors.Is(errno, unix.EOPNOTSUPP), errors.Is(errno, unix.EINVAL), errors.Is(errno, unix.ENOSYS):
		return 0, fmt.Errorf("%w (%w)", ErrNotSupported, errno)
	}
	return 0, errno
}
