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

// Kexec implements agent.Kernels by kexec_file_load(2), by which the kernel itself reads
// and, under lockdown, verifies what it is to start.
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

// Load implements agent.Kernels. A second one takes the place of the first.
func (Kexec) Load(kernel, initrd *os.File, commandLine agentapi.Sensitive) error {
	return refusal(unix.KexecFileLoad(int(kernel.Fd()), int(initrd.Fd()), commandLine.Reveal(), 0))
}

// refusal says what an error of kexec_file_load(2) means. What would be the same on any
// server wraps agent.ErrKernelRefused, and is not held against this one.
func refusal(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: it is no kernel of this architecture that can be started from a running one: %w", agent.ErrKernelRefused, err)
	case errors.Is(err, unix.EKEYREJECTED), errors.Is(err, unix.ENOKEY), errors.Is(err, unix.EBADMSG),
		errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOPKG), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: the server's Secure Boot does not vouch for its signature: %w", agent.ErrKernelRefused, err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: the agent's own kernel cannot start another one; is its image, as signed or own boot media have it, as new as the manager? %w", agent.ErrKernelRefused, err)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%w: no room for it in the server's memory; choose hosts with more by hostSelector.minimum.memoryGiB: %w", agent.ErrKernelRefused, err)
	}
	return fmt.Errorf("load the kernel: %w", err)
}
