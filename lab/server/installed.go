// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
)

// System is one boot of an installed operating system (Config.System).
type System struct {
	// Server is the server's name, and UUID its SMBIOS UUID.
	Server, UUID string
	// UserData and MetaData are the NoCloud seed. The user data is removed after the first boot
	// of an instance (I16).
	UserData, MetaData string
	// Address of the server from DHCP.
	Address netip.Addr
	// Release is the label of the image (ImageRelease); empty: none.
	Release string
	// Event writes a line to the server's log. It must not contain a secret.
	Event func(format string, args ...any)
}

// The label of an image: a line of text in an unused area. It replaces the os-release of a real
// image.
const (
	releaseOffset = 64 << 10
	releaseSize   = 512
	releasePrefix = "ingot-lab-release="
)

// ImageRelease labels a raw image in memory, which appears in System.Release. The image must be
// longer than 128 KiB.
func ImageRelease(raw []byte, release string) {
	area := raw[releaseOffset : releaseOffset+releaseSize]
	clear(area)
	copy(area, releasePrefix+release+"\n")
}

// readRelease reads the label from the disk.
func (d *Disk) readRelease(ctx context.Context) (release string, err error) {
	dev, err := d.open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	area := make([]byte, releaseSize)
	if _, err := dev.ReadAt(area, releaseOffset); err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(area, []byte("\n"))
	release, _ = strings.CutPrefix(string(line), releasePrefix)
	if len(release) == len(line) {
		return "", nil
	}
	return release, nil
}

// startSystem starts Config.System and reports whether that is done. A disk without a seed has
// nothing to start.
func (s *Server) startSystem(ctx context.Context, d *Disk, l lease, system *sync.WaitGroup) (bool, error) {
	if s.cfg.System == nil {
		return true, nil
	}
	seed, err := d.readSeed(ctx)
	if errors.Is(err, errNoSeed) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	release, err := d.readRelease(ctx)
	if err != nil {
		return false, err
	}
	booted := System{
		Server: s.cfg.Name, UUID: s.cfg.UUID, UserData: seed.UserData, MetaData: seed.MetaData,
		Address: l.address.Addr(), Release: release,
		Event: func(format string, args ...any) { s.event(EventUserData, format, args...) },
	}
	system.Go(func() { s.cfg.System(ctx, booted) })
	return true, nil
}
