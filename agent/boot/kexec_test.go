// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/agent"
)

// What would be the same on any server is the live system's fault, or the boot media's; the
// rest may be this server's.
func TestKexecRefusal(t *testing.T) {
	if err := refusal(nil); err != nil {
		t.Error(err)
	}
	for name, tc := range map[string]struct {
		err     error
		refused bool
	}{
		"no kernel":               {unix.ENOEXEC, true},
		"another architecture's":  {unix.EINVAL, true},
		"not signed for it":       {unix.EKEYREJECTED, true},
		"not signed":              {unix.ENODATA, true},
		"lockdown":                {unix.EPERM, true},
		"an agent that cannot":    {unix.ENOSYS, true},
		"no memory":               {unix.ENOMEM, true},
		"no place in the memory":  {unix.EADDRNOTAVAIL, true},
		"another one is loading":  {unix.EBUSY, false},
		"the file cannot be read": {unix.EIO, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := refusal(tc.err)
			if !errors.Is(err, tc.err) || errors.Is(err, agent.ErrKernelRefused) != tc.refused {
				t.Errorf("%v, want refused %t", err, tc.refused)
			}
		})
	}
}
