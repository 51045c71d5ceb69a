// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// ErrExited says that a child process ended when it should have been running.
var ErrExited = errors.New("process has ended")

// A command is a child process to be started.
type command struct {
	path string
	args []string
	// env is added to a small fixed environment. The parent's is not passed
	// on: a KUBECONFIG or a proxy in it would change what the child does.
	env []string
	// dir is the state directory: HOME of the child, and the place of its log.
	dir string
}

// A process is a running child.
type process struct {
	name string
	log  string // path of its output
	cmd  *exec.Cmd
	done chan struct{} // closed after it ended; err is set then
	err  error
}

// start starts the child, its output going to <dir>/log/<name>.log. The child
// is its own process group, so that an interrupt typed at a terminal reaches
// only the parent, which stops children in order; and the kernel kills it when
// the parent dies.
func start(c command) (*process, error) {
	name := filepath.Base(c.path)
	p := &process{name: name, log: filepath.Join(c.dir, "log", name+".log"), done: make(chan struct{})}
	if err := os.MkdirAll(filepath.Dir(p.log), 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.cmd = exec.Command(c.path, c.args...)
	p.cmd.Dir = c.dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir}, c.env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	go func() {
		// The parent-death signal is tied to the thread that forked the child,
		// not to the process: this thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// stop asks the child to end, waits up to grace, then kills it. It returns when
// the child is gone. A child that ended before, or had to be killed, is not an
// error: either way it is stopped.
func (p *process) stop(grace time.Duration) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return
	case <-time.After(grace):
	}
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal signals the child's process group; one that has ended gets nothing,
// its number may be somebody else's by now.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, sig) // fails only if it just ended
	}
}

// exited returns an error with the end of the log if the child has ended.
func (p *process) exited() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s: %w (%v), see %s:\n%s", p.name, ErrExited, p.err, p.log, tail(p.log, 2048))
	default:
		return nil
	}
}

// tail returns at most the last n bytes of a file, from the start of a line;
// empty if the file cannot be read.
func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > n {
		if _, err := f.Seek(-n, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, n))
	if err != nil {
		return ""
	}
	text := string(data)
	if int64(len(data)) == n {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSpace(text)
}
