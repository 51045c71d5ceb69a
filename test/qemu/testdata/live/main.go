// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command live is /init of a live system that installs itself: it gets an address,
// fetches what "data=" on its command line leads to, writes that to the disk, and reboots.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/agent/boot"
	"github.com/ingot-metal/ingot/agent/kmod"
)

const disk = "/dev/vda"

func main() {
	console := boot.NewConsole(os.Stdout)
	console.Printf("LIVE-SYSTEM starts")
	if err := install(console.Printf); err != nil {
		console.Printf("LIVE-SYSTEM failed: %v", err)
		select {}
	}
	console.Printf("LIVE-SYSTEM is on the disk")
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func install(log func(string, ...any)) error {
	if err := errors.Join(boot.Mounts(), boot.RebootOnPanic()); err != nil {
		return err
	}
	address, err := dataAddress()
	if err != nil {
		return err
	}
	modules, err := kmod.Open(os.DirFS("/modules"), kmod.Insert)
	if err != nil {
		return err
	}
	settle := func() { _, _ = modules.Settle(os.DirFS("/sys")) }
	settle()
	if _, err := boot.Network(context.Background(), boot.NetworkOptions{Settle: settle, Log: log}); err != nil {
		return err
	}
	data, err := fetch(address)
	if err != nil {
		return err
	}
	to, err := os.OpenFile(disk, os.O_WRONLY|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	_, err = to.Write(data)
	return errors.Join(err, to.Close())
}

func dataAddress() (string, error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return "", err
	}
	for word := range strings.FieldsSeq(string(line)) {
		if address, ok := strings.CutPrefix(word, "data="); ok {
			return address, nil
		}
	}
	return "", errors.New("the command line has no data=")
}

// fetch asks again while there is no answer. No error holds the address.
func fetch(address string) ([]byte, error) {
	client := &http.Client{Timeout: 30 * time.Second}
	for range 20 {
		response, err := client.Get(address)
		if err != nil || response.StatusCode != http.StatusOK {
			time.Sleep(time.Second)
			continue
		}
		data, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("no answer")
}
