// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/bmc"
)

// liveKernels starts live systems for the agent.
type liveKernels struct {
	server *Server
	// commandLine of the last loaded kernel.
	commandLine string
}

var _ agent.Kernels = (*liveKernels)(nil)

func (k *liveKernels) File(name string) (*os.File, error) {
	f, err := os.CreateTemp("", "ingot-lab-"+name)
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// Load implements agent.Kernels. A kernel must begin with LiveKernel.
func (k *liveKernels) Load(kernel, initrd *os.File, commandLine agentapi.Sensitive) error {
	head := make([]byte, len(LiveKernel))
	if _, err := kernel.ReadAt(head, 0); err != nil || string(head) != LiveKernel {
		return fmt.Errorf("%w: the file does not begin with %q", agent.ErrKernelRefused, LiveKernel)
	}
	info, err := initrd.Stat()
	if err != nil {
		return err
	}
	k.server.event(EventKernel, "live, initramfs of %d bytes", info.Size())
	k.commandLine = commandLine.Reveal()
	return nil
}

// LiveKernel is the beginning of a live system's kernel file.
const LiveKernel = "ingot-lab-live-kernel"

// liveSystem simulates an installer: it gets an address, fetches its data from the address on its
// command line, writes itself to the first disk and reboots. After a final refusal it stops, like
// real installers.
func (s *Server) liveSystem(ctx context.Context, commandLine string) (outcome, error) {
	if !sleep(ctx, s.cfg.BootTime) {
		return powerOff, nil
	}
	s.event(EventLive, "starts")
	for {
		err := s.installLive(ctx, commandLine)
		switch {
		case ctx.Err() != nil:
			return powerOff, nil
		case err == nil:
			s.event(EventLive, "installed to the disk, reboots")
			return reboot, nil
		}
		s.event(EventFailed, "live system: %v", err)
		if errors.Is(err, errFinal) {
			<-ctx.Done()
			return powerOff, nil
		}
		if !sleep(ctx, s.cfg.Retry) {
			return powerOff, nil
		}
	}
}

func (s *Server) installLive(ctx context.Context, commandLine string) error {
	if _, err := s.dhcp(ctx, systemClient, bmc.UEFI); err != nil {
		return err
	}
	if s.cfg.Live != nil {
		s.cfg.Live(ctx, commandLine)
	}
	seed, err := s.fetchLive(ctx, commandLine)
	if err != nil {
		return err
	}
	return s.disks[0].writeLive(ctx, seed)
}

// fetchLive fetches the data for a command line: all files of cloud-init's NoCloud datasource below
// an address, or one file.
func (s *Server) fetchLive(ctx context.Context, commandLine string) (diskSeed, error) {
	seed := diskSeed{WrittenAt: time.Now()}
	address, pin := "", ""
	for word := range strings.FieldsSeq(commandLine) {
		if at := strings.Index(word, "http"); at >= 0 && strings.Contains(word, agentapi.PathLiveData) {
			address = word[at:]
		}
		if value, ok := strings.CutPrefix(word, "pin="); ok {
			pin = value
		}
	}
	if address == "" {
		return seed, fmt.Errorf("%w: the command line has no address", errFinal)
	}
	client := s.httpClient()
	defer client.CloseIdleConnections()
	if pin != "" {
		pins, err := parsePins(pin)
		if err != nil {
			return seed, fmt.Errorf("%w: %w", errFinal, err)
		}
		client.Transport.(*http.Transport).TLSClientConfig = pinned(pins)
	}
	base, whole := strings.CutSuffix(address, agentapi.LiveUserData)
	files := []struct {
		name     string
		optional bool
		to       *string
	}{
		{agentapi.LiveNetworkConfig, true, &seed.NetworkConfig}, {agentapi.LiveMetaData, false, &seed.MetaData},
		{agentapi.LiveUserData, false, &seed.UserData}, {agentapi.LiveVendorData, true, &seed.VendorData},
	}
	if whole {
		files = files[2:3]
	}
	for _, file := range files {
		text, err := s.getLive(ctx, client, base+file.name)
		if file.optional && errors.Is(err, errNoFile) {
			continue
		}
		if err != nil {
			return seed, fmt.Errorf("%s: %w", file.name, err)
		}
		*file.to = text
	}
	s.event(EventLive, "has its data")
	return seed, nil
}

// errNoFile reports that the server does not have a file.
var errNoFile = fmt.Errorf("%w: no such file", errFinal)

// getLive makes one request. The address is a secret and is not in the error.
func (s *Server) getLive(ctx context.Context, client *http.Client, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", fmt.Errorf("%w: the address is not valid", errFinal)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", errors.New("no answer")
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, agentapi.MaxBootstrapBytes+1))
	switch {
	case err != nil:
		return "", errors.New("the answer is incomplete")
	case response.StatusCode == http.StatusNotFound:
		return "", errNoFile
	case response.StatusCode >= 400 && response.StatusCode < 500:
		return "", fmt.Errorf("%w: answered %d", errFinal, response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("answered %d", response.StatusCode)
	}
	return string(body), nil
}

// writeLive makes the disk bootable: boot code, no Ingot marker, and the data.
func (d *Disk) writeLive(ctx context.Context, seed diskSeed) (err error) {
	if err := d.writeSeed(ctx, seed); err != nil {
		return err
	}
	dev, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	head := make([]byte, agentapi.MarkerOffset+agentapi.MarkerSize)
	head[510], head[511] = 0x55, 0xaa
	if _, err := dev.WriteAt(head, 0); err != nil {
		return err
	}
	return dev.Sync()
}
