// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc"
)

// outcome is the end of a boot attempt.
type outcome int

const (
	// tryNext means that the device is not bootable.
	tryNext outcome = iota
	// reboot and powerOff are requests of the booted system.
	reboot
	powerOff
)

// errExit reports an iPXE script that exits to the next boot device.
var errExit = errors.New("script left iPXE")

// maxScript bounds a boot script, in bytes.
const maxScript = 64 << 10

// bootLoop boots, and boots again after each reboot, until the power is cut or the system powers
// itself off.
func (s *Server) bootLoop(ctx context.Context, l *uptime) {
	defer func() { _ = s.cfg.NIC.SetAddress(netip.Prefix{}, netip.Addr{}) }() // a NIC without power has none
	for ctx.Err() == nil {
		s.event(EventPOST, "")
		if !sleep(ctx, s.cfg.POST) {
			return
		}
		target, mode := s.ConsumeBoot()
		switch s.bootOnce(ctx, l, target, mode) {
		case powerOff:
			return
		case tryNext:
			s.event(EventFailed, "no device is bootable")
			if !sleep(ctx, s.cfg.Retry) {
				return
			}
		case reboot:
		}
	}
}

// bootOnce tries the device of the override, then the boot order, like firmware.
func (s *Server) bootOnce(ctx context.Context, l *uptime, target bmc.Target, mode bmc.Mode) outcome {
	order := s.cfg.BootOrder
	switch target {
	case bmc.TargetPXE:
		order = append([]Device{Network}, order...)
	case bmc.TargetDisk:
		order = append([]Device{LocalDisk}, order...)
	}
	for i, device := range order {
		if ctx.Err() != nil {
			return powerOff
		}
		if i > 0 && device == order[i-1] {
			continue // the override has just tried it
		}
		s.event(EventBootFrom, "%s, %s", device, mode)
		boot := s.bootNetwork
		if device == LocalDisk {
			boot = s.bootDisk
		}
		outcome, err := boot(ctx, l, mode)
		if err != nil && ctx.Err() == nil {
			s.event(EventFailed, "boot from %s: %v", device, err)
		}
		if outcome != tryNext {
			return outcome
		}
	}
	return tryNext
}

// bootNetwork boots like PXE firmware and iPXE.
func (s *Server) bootNetwork(ctx context.Context, l *uptime, mode bmc.Mode) (outcome, error) {
	if s.cfg.PlainPXE {
		lease, err := s.dhcp(ctx, pxeROM, mode)
		if err != nil {
			return tryNext, err
		}
		if lease.file == "" {
			return tryNext, errors.New("DHCP offered no boot file")
		}
		n, err := s.tftp(ctx, lease.server, lease.file)
		if err != nil {
			return tryNext, err
		}
		s.event(EventLoader, "%s, %d bytes by TFTP from %s", lease.file, n, lease.server)
	}
	lease, err := s.dhcp(ctx, ipxeROM, mode)
	if err != nil {
		return tryNext, err
	}
	client := s.httpClient()
	defer client.CloseIdleConnections()
	image, err := s.runScripts(ctx, client, lease.file, mode)
	if errors.Is(err, errExit) {
		return tryNext, nil
	}
	if err != nil {
		return tryNext, err
	}
	client.CloseIdleConnections()
	if !sleep(ctx, s.cfg.BootTime) {
		return powerOff, nil
	}
	return s.runAgent(ctx, l, image.commandLine)
}

// maxChain bounds scripts that chain to each other. A loader that waits for files requests its
// script again every few seconds.
const maxChain = 1000

// runScripts fetches and runs a script, and the scripts that it chains to.
func (s *Server) runScripts(ctx context.Context, client *http.Client, location string, mode bmc.Mode) (*bootImage, error) {
	next, err := s.fetchScript(ctx, client, location)
	for range maxChain {
		if err != nil {
			return nil, err
		}
		var image *bootImage
		image, err = s.interpreter(client, next.location, mode).run(ctx, next.text)
		if err != nil || image.chain == nil {
			return image, err
		}
		next = image.chain
	}
	return nil, fmt.Errorf("more than %d scripts chained", maxChain)
}

// interpreter returns an interpreter for a script from a location.
func (s *Server) interpreter(client *http.Client, location string, mode bmc.Mode) *interpreter {
	return &interpreter{
		variables: map[string]string{
			"platform": map[bmc.Mode]string{bmc.UEFI: "efi", bmc.Legacy: "pcbios"}[mode],
			"netX/mac": s.cfg.NIC.MAC().String(), "net0/mac": s.cfg.NIC.MAC().String(), "netX/ip": "bound",
		},
		load: func(ctx context.Context, uri string) error {
			from, err := resolve(location, uri)
			if err != nil {
				return err
			}
			return s.loadFile(ctx, client, from)
		},
		script: func(ctx context.Context, uri string) (*chained, error) {
			from, err := resolve(location, uri)
			if err != nil {
				return nil, err
			}
			return s.fetchScript(ctx, client, from)
		},
		pause: s.cfg.Retry,
	}
}

// resolve resolves a reference in a script (RFC 3986 section 5).
func resolve(location, reference string) (string, error) {
	base, err := url.Parse(location)
	if err != nil {
		return "", err
	}
	to, err := base.Parse(reference)
	if err != nil {
		return "", err
	}
	return to.String(), nil
}

func (s *Server) fetchScript(ctx context.Context, client *http.Client, location string) (*chained, error) {
	if !strings.HasPrefix(location, "http://") {
		return nil, fmt.Errorf("boot file %q is not an http URL", location)
	}
	text, err := s.fetch(ctx, client, http.MethodGet, location, maxScript)
	if err != nil {
		return nil, err
	}
	s.event(EventScript, "%s, %d bytes", location, len(text))
	return &chained{location: location, text: string(text)}, nil
}

// loadFile fetches a kernel or initramfs.
func (s *Server) loadFile(ctx context.Context, client *http.Client, location string) error {
	method := http.MethodGet
	if s.cfg.HeadOnly {
		method = http.MethodHead
	}
	_, err := s.fetch(ctx, client, method, location, 0)
	if err == nil {
		s.event(EventKernel, "%s", location)
	}
	return err
}

// fetch returns the body. With limit 0 it reads and drops the body.
func (s *Server) fetch(ctx context.Context, client *http.Client, method, location string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, location, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "iPXE/1.21.1 (lab)")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", location, resp.Status)
	}
	if resp.ContentLength < 0 {
		return nil, fmt.Errorf("get %s: no Content-Length, which iPXE requires", location)
	}
	if limit == 0 {
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && n == 0 && method == http.MethodGet {
			err = errors.New("file is empty")
		}
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("get %s: larger than %d bytes", location, limit)
	}
	return body, err
}

func (s *Server) httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return s.cfg.NIC.DialContext(ctx, network, addr)
		},
		ResponseHeaderTimeout: 30 * time.Second,
		MaxIdleConns:          1,
	}}
}
