// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command init is the first process of the smallest system that proves a
// network boot: it shows its kernel command line on the console and switches
// the machine off.
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	if err := os.MkdirAll("/proc", 0o755); err == nil {
		_ = syscall.Mount("proc", "/proc", "proc", 0, "")
	}
	cmdline, err := os.ReadFile("/proc/cmdline")
	fmt.Printf("\nPROOF-OF-BOOT pid=%d err=%v cmdline=%s\nPROOF-END\n", os.Getpid(), err, cmdline)
	syscall.Sync()
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
}
