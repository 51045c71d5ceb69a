// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// killGrace is how long a process may take to end after SIGKILL.
const killGrace = 10 * time.Second

// process is a child that dies with this process, however that ends.
type process struct {
	cmd *exec.Cmd
	// ended is closed when the child has ended; err is read after that.
	ended chan struct{}
	err   error
}

// start runs a command.
func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr strings.Builder
	cmd.Stderr = &limitedWriter{to: &stderr, left: 16 << 10}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The signal is sent when the *thread* that forked ends, so that
		// thread has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(p.ended)
		p.err = cmd.Wait()
		if text := strings.TrimSpace(stderr.String()); p.err != nil && text != "" {
			p.err = fmt.Errorf("%w: %s", p.err, text)
		}
	}()
	if err := <-started; err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("start QEMU (Debian: package qemu-system-x86): %w", err)
		}
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	return p, nil
}

// end waits for the child to end by itself, then kills it.
func (p *process) end(grace time.Duration) error {
	select {
	case <-p.ended:
		return nil
	case <-time.After(grace):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill QEMU: %w", err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(killGrace):
		return fmt.Errorf("QEMU (pid %d) survived SIGKILL", p.cmd.Process.Pid)
	}
}

// limitedWriter keeps the beginning of a stream.
type limitedWriter struct {
	to   *strings.Builder
	left int
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	keep := min(len(p), w.left)
	w.to.Write(p[:keep])
	w.left -= keep
	return len(p), nil
}
