// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package process

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

// ErrExited says that a process ended when it should have been running.
var ErrExited = errors.New("process has ended")

// A Command is a process to be started.
type Command struct {
	// Path is the program.
	Path string
	Args []string
	// Name names the process in errors; by default the base name of Path.
	Name string
	// Env is the environment besides PATH, which is passed on, and HOME, which
	// is Dir. Nothing else is inherited: a KUBECONFIG or a proxy setting of the
	// user would change what the process does.
	Env []string
	// Dir is the working directory; it must exist.
	Dir string
	// Log is the file that standard output and error are appended to. It and
	// its directory are made, readable by the user alone.
	Log string
}

// A Process is a child process, running or ended. Its methods are safe for
// concurrent use.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed after it ended; err is set then
	err  error
}

// Start starts a child. It becomes its own process group, so that an interrupt
// typed at a terminal reaches only the parent, which stops children in order;
// and the kernel kills it when the parent dies.
func Start(c Command) (*Process, error) {
	name := c.Name
	if name == "" {
		name = filepath.Base(c.Path)
	}
	p := &Process{name: name, log: c.Log, done: make(chan struct{})}
	if err := os.MkdirAll(filepath.Dir(c.Log), 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Dir = c.Dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.Dir}, c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	go p.own(out, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// own starts the child and waits for its end. The parent-death signal is tied
// to the thread that forked the child, not to the process: so this thread must
// live as long as the child.
func (p *Process) own(out io.Closer, started chan<- error) {
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
}

// PID returns the process's number; after its end it may be somebody else's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop asks the process to end (SIGTERM), waits up to grace, then kills it. It
// returns when the process is gone. That it had ended before, or had to be
// killed, is not an error: either way it is stopped.
func (p *Process) Stop(grace time.Duration) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill ends the process and its group by SIGKILL and returns when the process
// is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal signals the child's process group; one that has ended gets nothing,
// its number may be somebody else's by now.
func (p *Process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, sig) // fails only if it just ended
	}
}

// Err returns nil while the process runs, and then an error that wraps
// ErrExited and holds the end of the log, however the process ended.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s: %w (%w), see %s:\n%s", p.name, ErrExited, p.err, p.log, tail(p.log, 2048))
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
