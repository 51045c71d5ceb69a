// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/agentapi"
)

// Mounts mounts the file systems that a first process needs, unless they are mounted.
func Mounts() error {
	var errs []error
	for _, m := range []struct{ kind, dir string }{
		{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}, {"tmpfs", "/run"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		err := unix.Mount(m.kind, m.dir, m.kind, 0, "")
		if err != nil && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, fmt.Errorf("mount %s: %w", m.dir, err))
		}
	}
	return errors.Join(errs...)
}

// RebootOnPanic makes the kernel reboot some seconds after a panic, which the exit of the
// first process also causes, so that a failed boot restarts instead of hanging.
func RebootOnPanic() error {
	const seconds = "10"
	if err := os.WriteFile("/proc/sys/kernel/panic", []byte(seconds), 0o644); err != nil {
		return fmt.Errorf("set the reboot after a panic: %w", err)
	}
	return nil
}

// Console prints lines with the time since its start, in seconds.
type Console struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

func NewConsole(out io.Writer) *Console { return &Console{out: out, start: time.Now()} }

func (c *Console) Printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.out, "ingot [%7.3f] %s\r\n", time.Since(c.start).Seconds(), fmt.Sprintf(format, args...))
}

// SetTime sets the system clock and the RTC, in UTC. A missing RTC is no error.
func SetTime(t time.Time) error {
	tv := unix.NsecToTimeval(t.UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		return fmt.Errorf("set the system clock: %w", err)
	}
	rtc, err := os.Open("/dev/rtc0")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set the RTC: %w", err)
	}
	defer rtc.Close()
	u := t.UTC()
	err = unix.IoctlSetRTCTime(int(rtc.Fd()), &unix.RTCTime{
		Sec: int32(u.Second()), Min: int32(u.Minute()), Hour: int32(u.Hour()),
		// struct rtc_time counts months from 0 and years from 1900.
		Mday: int32(u.Day()), Mon: int32(u.Month()) - 1, Year: int32(u.Year()) - 1900,
	})
	if err != nil {
		return fmt.Errorf("set the RTC: %w", err)
	}
	return nil
}

// End reboots, starts the kernel that Kexec has loaded, or powers off. It returns only if the
// kernel refuses.
func End(action agentapi.Action) error {
	unix.Sync()
	linksDown()
	command := unix.LINUX_REBOOT_CMD_POWER_OFF
	switch action {
	case agentapi.BootDisk, agentapi.Restart:
		command = unix.LINUX_REBOOT_CMD_RESTART
	case agentapi.StartLive:
		command = unix.LINUX_REBOOT_CMD_KEXEC
	}
	return unix.Reboot(command)
}

// linksDown takes the network interfaces down and ignores errors. Otherwise Linux 6.1 with
// virtio_net sometimes hangs in the shutdown: it stops the card while a packet is in flight
// and waits for it forever ("soft lockup" in virtnet_poll).
func linksDown() {
	links, _ := netlink.LinkList()
	for _, link := range links {
		if link.Attrs().Flags&net.FlagLoopback == 0 {
			_ = netlink.LinkSetDown(link)
		}
	}
}
