// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/process"
	"github.com/ingot-metal/ingot/test/eventually"
)

// parentEnv makes the test binary start a sandbox with a process, print its namespace and wait.
const parentEnv = "INGOT_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(parentEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := playParent(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

func playParent(dir string) error {
	set, err := tools.Open()
	if err != nil {
		return err
	}
	pause, err := set.Binary("pause")
	if err != nil {
		return err
	}
	s, err := newSandbox(context.Background(), dir, pause)
	if err != nil {
		return err
	}
	l, err := newLink(s)
	if err != nil {
		return err
	}
	command, err := s.command(process.Command{Path: "/bin/sleep", Args: []string{"600"}, Dir: dir, Log: filepath.Join(dir, logDir, "sleep.log")})
	if err != nil {
		return err
	}
	if _, err := process.Start(command); err != nil {
		return err
	}
	namespace, err := os.Readlink(s.namespace("pid"))
	if err != nil {
		return err
	}
	fmt.Println(namespace, l.name)
	return nil
}

// TestKilledParentEndsTheSandbox shows that the processes and interfaces of a sandbox end with the
// program that started it.
func TestKilledParentEndsTheSandbox(t *testing.T) {
	if os.Getenv("INGOT_E2E") == "" {
		t.Skip("set INGOT_E2E=1; needs root")
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var namespace, link string
	if _, err := fmt.Sscan(line, &namespace, &link); err != nil {
		t.Fatalf("the parent printed %q", line)
	}
	if members := membersOf(t, namespace); len(members) == 0 {
		t.Errorf("nothing runs in %s", namespace)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "signal: killed"
	eventually.Wait{Interval: 20 * time.Millisecond}.Until(t, "the end of the sandbox", func(context.Context) (string, error) {
		if members := membersOf(t, namespace); len(members) > 0 {
			return fmt.Sprintf("processes outlived their parent: %v", members), nil
		}
		if _, err := netlink.LinkByName(link); !errors.As(err, &netlink.LinkNotFoundError{}) {
			return fmt.Sprintf("interface %s outlived its parent", link), err
		}
		return "", nil
	})
}

// membersOf returns the processes of a process namespace.
func membersOf(t *testing.T, namespace string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == namespace {
			members = append(members, filepath.Dir(filepath.Dir(link)))
		}
	}
	return members
}
