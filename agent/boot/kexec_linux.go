// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agentapi"
)

// Kexec implements agent.Kernels by kexec_file_load(2). The kernel itself reads the new one
// and, under lockdown, verifies its signature.
type Kexec struct{}

var _ agent.Kernels = Kexec{}

// File implements agent.Kernels.
func (Kexec) File(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Load implements agent.Kernels. A second call replaces the first kernel.
func (Kexec) Load(kernel, initrd *os.File, commandLine agentapi.Sensitive) error {
	return kexecError(unix.KexecFileLoad(int(kernel.Fd()), int(initrd.Fd()), commandLine.Reveal(), 0))
}

// kexecError explains an error of kexec_file_load(2). Errors that would occur on every server
// wrap agent.ErrKernelRefused and do not count against this one.
func kexecError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: not a kernel of this architecture that supports kexec: %w", agent.ErrKernelRefused, err)
	case errors.Is(err, unix.EKEYREJECTED), errors.Is(err, unix.ENOKEY), errors.Is(err, unix.EBADMSG),
		errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOPKG), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: Secure Boot does not trust its signature: %w", agent.ErrKernelRefused, err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: the agent's kernel has no kexec; check that signed or custom boot media have the manager's version: %w", agent.ErrKernelRefused, err)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%w: not enough memory; select larger hosts by hostSelector.minimum.memory: %w", agent.ErrKernelRefused, err)
	}
	return fmt.Errorf("load the live system's kernel: %w", err)
}
