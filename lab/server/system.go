// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/bmc"
)

// errFinal reports a refusal that is not retried.
var errFinal = errors.New("refused")

// bootDisk boots the first disk, if it has boot code and no incomplete install.
func (s *Server) bootDisk(ctx context.Context, l *uptime, _ bmc.Mode) (outcome, error) {
	if len(s.disks) == 0 {
		return tryNext, errors.New("no disk")
	}
	d := s.disks[0]
	if err := d.bootable(ctx); err != nil {
		return tryNext, err
	}
	if !sleep(ctx, s.cfg.BootTime) {
		return powerOff, nil
	}
	if s.pace(ctx, StepBoot); ctx.Err() != nil {
		return powerOff, nil
	}
	return s.runSystem(ctx, l, d)
}

// bootable checks for boot code: 55 AA at byte 510 in an MBR or protective MBR.
func (d *Disk) bootable(ctx context.Context) (err error) {
	dev, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	signature := make([]byte, 2)
	if _, err := dev.ReadAt(signature, 510); err != nil {
		return err
	}
	if !bytes.Equal(signature, []byte{0x55, 0xaa}) {
		return fmt.Errorf("%s has no boot code", d.name)
	}
	if m := d.describe().Marker; m != nil && !m.Complete {
		return fmt.Errorf("%s has an incomplete install", d.name)
	}
	return nil
}

// runSystem simulates the installed system: it gets an address, does the first boot of an
// instance, and runs until it is shut down.
func (s *Server) runSystem(ctx context.Context, l *uptime, d *Disk) (outcome, error) {
	select {
	case <-l.button: // pressed before the system ran
	default:
	}
	s.event(EventSystem, "boots from %s", d.name)
	work, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.firstBoot(work, d)
	}()
	defer func() { cancel(); <-done }()
	for {
		select {
		case <-ctx.Done():
			return powerOff, nil
		case action := <-l.button:
			if s.cfg.IgnoreShutdown {
				s.event(EventShutdownIgnored, "ignores the power button: %s", action)
				continue
			}
			cancel()
			if !sleep(ctx, s.cfg.ShutdownTime) || action == bmc.Shutdown {
				return powerOff, nil
			}
			return reboot, nil
		}
	}
}

// firstBoot does what cloud-init does with Ingot's seed, and runs Config.System concurrently.
func (s *Server) firstBoot(ctx context.Context, d *Disk) {
	var system sync.WaitGroup
	defer system.Wait()
	started := false
	for {
		l, err := s.configureNetwork(ctx, d)
		if err == nil && !started {
			started, err = s.startSystem(ctx, d, l, &system)
		}
		if err == nil {
			err = s.phoneHome(ctx, d, l)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		s.event(EventFailed, "installed system: %v", err)
		if errors.Is(err, errFinal) || !sleep(ctx, s.cfg.Retry) {
			return
		}
	}
}

// phoneHome reports the booted system and then removes the secrets, once per instance-id.
func (s *Server) phoneHome(ctx context.Context, d *Disk, l lease) error {
	seed, err := d.readSeed(ctx)
	if errors.Is(err, errNoSeed) {
		return nil // not installed by Ingot
	}
	if err != nil {
		return err
	}
	if seed.MetaData == "" {
		return nil // a live system that received only its data
	}
	meta := metaData(seed.MetaData)
	instance := meta["instance-id"]
	if instance == "" {
		return fmt.Errorf("%w: meta-data has no instance-id", errFinal)
	}
	if seed.BootedInstance == instance {
		return nil
	}
	vars := vendorVariables(seed.VendorData)
	booted := agentapi.Booted{
		InstanceID: vars["INGOT_INSTANCE_ID"], Hostname: meta["local-hostname"],
		Addresses: []string{l.address.Addr().String()}, BootID: uuid.NewString(),
	}
	if err := s.report(ctx, vars, booted); err != nil {
		return err
	}
	s.event(EventBooted, "%s as %s at %s", booted.InstanceID, booted.Hostname, l.address.Addr())
	// User data and vendor-data, which holds a token, are removed. Meta-data stays, so that
	// cloud-init does not see a new instance (I16).
	seed.UserData, seed.VendorData, seed.BootedInstance = "", "", instance
	if err := d.writeSeed(ctx, seed); err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	s.event(EventScrubbed, "%s", instance)
	return nil
}

// report sends one Booted to a server with a pinned key.
func (s *Server) report(ctx context.Context, vars map[string]string, booted agentapi.Booted) error {
	pins, err := parsePins(vars["INGOT_BOOTED_PIN"])
	if err != nil || vars["INGOT_BOOTED_URL"] == "" || vars["INGOT_BOOTED_TOKEN"] == "" || booted.InstanceID == "" {
		return fmt.Errorf("%w: vendor-data has no complete variables for the report: %w", errFinal, errors.Join(err, errors.New("variables missing")))
	}
	body, err := json.Marshal(booted)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, vars["INGOT_BOOTED_URL"], bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: report: the URL is not valid", errFinal)
	}
	req.Header.Set(agentapi.TokenHeader, "Bearer "+vars["INGOT_BOOTED_TOKEN"])
	req.Header.Set("Content-Type", "application/json")
	client := s.httpClient()
	defer client.CloseIdleConnections()
	client.Transport.(*http.Transport).TLSClientConfig = pinned(pins)
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return verdict(resp.StatusCode, answer)
}

func verdict(status int, answer []byte) error {
	var reply agentapi.BootedReply
	if status == http.StatusOK && json.Unmarshal(answer, &reply) == nil && reply.Accepted {
		return nil
	}
	var refusal agentapi.Error
	if json.Unmarshal(answer, &refusal) == nil && refusal.Reason != "" && refusal.Reason != agentapi.ReasonNotReady {
		return fmt.Errorf("report: %w: %s", errFinal, refusal.Reason)
	}
	return fmt.Errorf("report: answered %d", status)
}

// pinned trusts a server only by its public key and ignores dates and names, because clocks may be
// wrong (I15).
func pinned(pins [][]byte) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // replaced by the pin below
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			cert, err := x509.ParseCertificate(raw[0])
			if err != nil {
				return err
			}
			sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
			if !slices.ContainsFunc(pins, func(pin []byte) bool { return bytes.Equal(pin, sum[:]) }) {
				return errors.New("the server's key is not the pinned one")
			}
			return nil
		},
	}
}

// parsePins parses pins of the agent ("sha256/<base64url>", separated by commas) and of curl
// ("sha256//<base64>", separated by semicolons).
func parsePins(text string) ([][]byte, error) {
	var pins [][]byte
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		digest, ok := strings.CutPrefix(word, "sha256/")
		digest = strings.TrimRight(strings.TrimPrefix(digest, "/"), "=")
		digest = strings.NewReplacer("+", "-", "/", "_").Replace(digest)
		pin, err := base64.RawURLEncoding.DecodeString(digest)
		if !ok || err != nil || len(pin) != sha256.Size {
			return nil, errors.New("pin is not sha256/<base64>")
		}
		pins = append(pins, pin)
	}
	if len(pins) == 0 {
		return nil, errors.New("no pin")
	}
	return pins, nil
}
