// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// SetNice says how much the server leaves the processors to others, as nice(2): 0 to 19.
// It holds for this boot and for those after it. Only root can take some back.
func (v *VM) SetNice(nice int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.nice == nice {
		return nil
	}
	v.nice = nice
	if v.run == nil {
		return nil
	}
	return v.run.setNice(nice)
}

// setNice does so for each thread: Linux keeps it for threads, and one that is made later
// has its maker's.
func (p *process) setNice(nice int) error {
	pid := p.cmd.Process.Pid
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(filepath.Base(thread))
		if err == nil {
			err = syscall.Setpriority(syscall.PRIO_PROCESS, id, nice)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) { // it has ended
			return fmt.Errorf("set priority of QEMU (pid %d): %w", pid, os.NewSyscallError("setpriority", err))
		}
	}
	return nil
}
