// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/ingot-metal/ingot/lab/process"
)

//go:embed sandbox.sh
var sandboxScript string

// privateDirs are hidden in the sandbox by mounts.
var privateDirs = []string{"/run", "/var/run", "/var/lib", "/var/log"}

// shownSettings are kernel settings that the kubelet requires. sandbox.sh shows them as set, because
// they do not belong to a namespace.
var shownSettings = map[string]string{
	"vm/overcommit_memory": "1",
	"kernel/panic":         "10",
	"kernel/panic_on_oops": "1",
}

// sandbox is a network, a mount and a process namespace. It exists as long as its first process, which
// ends with this program.
type sandbox struct {
	outer *process.Process // unshare, whose only child is the first process
	first int              // its process ID outside of the namespace
}

// newSandbox starts a sandbox whose first process is pause.
func newSandbox(ctx context.Context, dir, pause string) (*sandbox, error) {
	for _, private := range privateDirs {
		if dir == private || strings.HasPrefix(dir, private+"/") {
			return nil, fmt.Errorf("state directory %s: the node has its own %s; choose another TMPDIR", dir, private)
		}
	}
	for name, value := range shownSettings {
		path := filepath.Join(dir, "sysctl", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
			return nil, err
		}
	}
	unshare, err := findProgram("unshare")
	if err != nil {
		return nil, err
	}
	outer, err := process.Start(process.Command{
		Name: "sandbox", Path: unshare, Dir: dir, Log: filepath.Join(dir, logDir, "sandbox.log"),
		Args: []string{
			"--net", "--mount", "--propagation=slave", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc",
			"--", "/bin/sh", "-c", sandboxScript, "sandbox", dir, pause,
		},
	})
	if err != nil {
		return nil, err
	}
	s := &sandbox{outer: outer}
	err = poll(ctx, "the sandbox", outer.Err, func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "sandbox-ready"))
		return err
	})
	if err == nil {
		s.first, err = onlyChild(outer.PID())
	}
	if err != nil {
		outer.Kill()
		return nil, err
	}
	return s, nil
}

// onlyChild returns the process ID of the only child of a process.
func onlyChild(parent int) (int, error) {
	id := strconv.Itoa(parent)
	data, err := os.ReadFile(filepath.Join("/proc", id, "task", id, "children"))
	if err != nil {
		return 0, fmt.Errorf("find the first process of the sandbox: %w", err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("find the first process of the sandbox: %w", err)
	}
	return child, nil
}

// namespace returns the path of a namespace of the sandbox, for example "net".
func (s *sandbox) namespace(kind string) string {
	return filepath.Join("/proc", strconv.Itoa(s.first), "ns", kind)
}

// command returns a command that runs in the sandbox. It does not use "ip netns exec", which hides the
// control groups.
func (s *sandbox) command(c process.Command) (process.Command, error) {
	nsenter, err := findProgram("nsenter")
	if err != nil {
		return c, err
	}
	if c.Name == "" {
		c.Name = filepath.Base(c.Path)
	}
	enter := []string{"--target=" + strconv.Itoa(s.first), "--net", "--mount", "--pid", "--", c.Path}
	c.Path, c.Args = nsenter, append(enter, c.Args...)
	return c, nil
}

// close kills the first process. The kernel then kills the other processes of the namespace before
// unshare ends.
func (s *sandbox) close() error {
	select {
	case <-s.outer.Done(): // the process ID may be reused
		return nil
	default:
	}
	if err := syscall.Kill(s.first, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the sandbox: %w", err)
	}
	<-s.outer.Done()
	return nil
}
