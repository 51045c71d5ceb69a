// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/agent"
)

// Errors that would occur on every server are the fault of the live system or the boot media.
func TestKexecErrorBlamesTheKernel(t *testing.T) {
	if err := kexecError(nil); err != nil {
		t.Error(err)
	}
	for name, tc := range map[string]struct {
		err     error
		refused bool
	}{
		"no kernel":               {unix.ENOEXEC, true},
		"another architecture":    {unix.EINVAL, true},
		"untrusted signature":     {unix.EKEYREJECTED, true},
		"not signed":              {unix.ENODATA, true},
		"lockdown":                {unix.EPERM, true},
		"no kexec in the agent":   {unix.ENOSYS, true},
		"no memory":               {unix.ENOMEM, true},
		"no space in the memory":  {unix.EADDRNOTAVAIL, true},
		"another load is running": {unix.EBUSY, false},
		"the file cannot be read": {unix.EIO, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := kexecError(tc.err)
			if !errors.Is(err, tc.err) || errors.Is(err, agent.ErrKernelRefused) != tc.refused {
				t.Errorf("%v, want refused %t", err, tc.refused)
			}
		})
	}
}
