// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/image"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agent/raid"
	"github.com/ingot-metal/ingot/agent/seed"
	"github.com/ingot-metal/ingot/agentapi"
)

// install writes the image and the first-boot data. It may be interrupted anywhere because
// of the sequence of its writes: the marker with Complete=false, the image without its
// first MiB, that MiB once the checksum is verified, the first-boot data, and the marker
// with Complete=true.
func (s *session) install(ctx context.Context, order agentapi.InstallOrder) (agentapi.Report, error) {
	if order.Live != nil {
		return s.live(ctx, order)
	}
	to, err := s.pickAll(ctx, order)
	if err != nil {
		return agentapi.Report{}, err
	}
	report := agentapi.Report{RootDisk: new(order.RootDisk), MirrorDisks: order.MirrorDisks}
	owned := func(done bool) agentapi.Marker {
		return agentapi.Marker{InstanceID: s.order.InstanceID, Attempt: s.order.Attempt, Complete: done}
	}
	markers, err := s.checkOwners(ctx, to, order.ReleasedInstances)
	if err != nil {
		return report, err
	}
	if report.AdoptedAttempt = s.completed(markers, order.RejectedAttempts); report.AdoptedAttempt > 0 {
		// A report was lost, or the manager's state is older than the disk.
		s.cfg.Log("install: %s already holds the complete attempt %d of %s: adopted, nothing written", to, report.AdoptedAttempt, s.order.InstanceID)
		return report, nil
	}
	if err := s.checkNoOldSystem(to, order.ReleasedInstances); err != nil {
		return report, err
	}
	if report.BytesWritten, err = s.writeImage(ctx, to, order, owned(false)); err != nil {
		return report, err
	}
	if err := s.finish(ctx, to, order, report.BytesWritten, owned(true)); err != nil {
		s.invalidate(ctx, to, owned(false), err)
		return report, err
	}
	return report, nil
}

// completed returns the latest attempt of the order's instance that is complete on a disk
// and that the manager did not reject; 0: none. One member of a mirror suffices: its marker
// is written after all members hold the image, and the mirror may have lost a disk since.
func (s *session) completed(markers []*agentapi.Marker, rejected []int32) int32 {
	var latest int32
	for _, m := range markers {
		if m != nil && m.Complete && m.InstanceID == s.order.InstanceID && !slices.Contains(rejected, m.Attempt) {
			latest = max(latest, m.Attempt)
		}
	}
	return latest
}

// finish writes the first-boot data, assembles a mirror, and writes the complete marker, in
// this sequence.
func (s *session) finish(ctx context.Context, to target, order agentapi.InstallOrder, written int64, complete agentapi.Marker) error {
	if err := s.seed(ctx, to, order.Checksum); err != nil {
		return err
	}
	if err := s.sealMirror(ctx, to, written); err != nil {
		return err
	}
	err := s.withTarget(ctx, to, func(dev block.Device) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return marker.Write(dev, complete)
	})
	if err != nil {
		return failure(ReasonDiskFailed, fmt.Errorf("%s: %w", to, err))
	}
	return nil
}

// pick returns the one disk that a reference names (I12).
func (s *session) pick(ctx context.Context, ref agentapi.DiskRef) (agentapi.Disk, error) {
	disks, err := s.listDisks(ctx)
	if err != nil {
		return agentapi.Disk{}, err
	}
	return pickDisk(disks, ref)
}

func pickDisk(disks []agentapi.Disk, ref agentapi.DiskRef) (agentapi.Disk, error) {
	matching := slices.DeleteFunc(slices.Clone(disks), func(d agentapi.Disk) bool { return !ref.Matches(d) })
	switch len(matching) {
	case 1:
		return matching[0], nil
	case 0:
		return agentapi.Disk{}, failuref(agentapi.FailureDiskNotFound, "no disk of %d matches %s", len(disks), describe(ref))
	default:
		return agentapi.Disk{}, failuref(ReasonDiskAmbiguous, "%d disks match %s", len(matching), describe(ref))
	}
}

func describe(ref agentapi.DiskRef) string {
	return fmt.Sprintf("serial %q, WWN %q, path %q, %d bytes", ref.Serial, ref.WWN, ref.Path, ref.SizeBytes)
}

// writeImage writes the image to the target and returns its decoded size in bytes.
func (s *session) writeImage(ctx context.Context, to target, order agentapi.InstallOrder, m agentapi.Marker) (int64, error) {
	request, stop, err := s.imageRequest(order.ImageURL)
	if err != nil {
		return 0, err
	}
	defer stop()
	img, err := image.Open(ctx, request, image.Format{Checksum: order.Checksum, Compression: order.Compression, Disk: order.Format})
	if err != nil {
		return 0, imageFailure(err)
	}
	defer img.Close()
	var result image.Result
	err = s.withTarget(ctx, to, func(dev block.Device) error {
		if img.RawSize() > dev.Size() {
			return fmt.Errorf("%w: the image has %d bytes, the disk has %d", image.ErrTooLarge, img.RawSize(), dev.Size())
		}
		if err := marker.Write(dev, m); err != nil {
			return err
		}
		if mirror, ok := dev.(*raid.Mirror); ok {
			if err := mirror.ClearTails(ctx); err != nil {
				return err
			}
		}
		s.cfg.Log("install: writing %s image (compression %s) to %s (%d bytes)", img.Disk(), img.Compression(), to, dev.Size())
		result, err = img.Write(ctx, dev, image.Options{
			Reserved: image.Range{Off: agentapi.MarkerOffset, Len: agentapi.MarkerSize},
			OnTables: func(n int64) { s.progress.set(agentapi.StepStarted, 0, n) },
			OnWrite:  func(n int64, percent int) { s.progress.set(agentapi.StepWrite, percent, n) },
			OnVerify: func(percent int) { s.progress.set(agentapi.StepVerify, percent, 0) },
		})
		return err
	})
	if err != nil {
		return 0, imageFailure(fmt.Errorf("%s: %w", to, err))
	}
	s.cfg.Log("install: wrote %d MiB from %d MiB of source, checksum verified", result.Bytes>>20, result.SourceBytes>>20)
	return result.Bytes, nil
}

// imageRequest returns the request for a file that the order names, and a function that
// closes its connections. When connections fail, the request follows the boot server.
func (s *session) imageRequest(ordered string) (image.Request, func(), error) {
	resolve := func() (string, error) { return imageURL(s.client.endpoints.fileServer(), ordered) }
	source, err := resolve()
	if err != nil {
		return image.Request{}, nil, failure(agentapi.FailureImageUnavailable, err)
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: s.cfg.Dial, ResponseHeaderTimeout: time.Minute, DisableCompression: true,
	}}
	return image.Request{
		Client: client, URL: source, Stall: s.cfg.ImageStall, Sleep: s.cfg.Sleep, Log: s.cfg.Log, OnBusy: s.progress.setWaiting,
		Moved: func(ctx context.Context, failures int) string {
			if failures%searchAfter == 0 {
				s.client.endpoints.search(ctx)
			}
			if now, err := resolve(); err == nil {
				return now
			}
			return source
		},
	}, client.CloseIdleConnections, nil
}

// imageURL resolves the order's URL against that of the boot server. The error contains
// neither, since a URL may carry credentials.
func imageURL(files, ordered string) (string, error) {
	ref, err := url.Parse(ordered)
	if err != nil {
		return "", errors.New("parse the order's image URL: malformed")
	}
	base, err := url.Parse(files)
	if err != nil {
		return "", errors.New("parse the boot server's URL: malformed")
	}
	if out := base.ResolveReference(ref); (out.Scheme == "http" || out.Scheme == "https") && out.Host != "" {
		return out.String(), nil
	}
	return "", fmt.Errorf("resolve the order's image URL: not an http URL, and no boot server is known (%s)", agentapi.ArgFiles)
}

// imageFailure returns an error of package image as a Failure.
func imageFailure(err error) error {
	for _, known := range []struct {
		err    error
		reason string
	}{
		{image.ErrChecksum, agentapi.FailureChecksumMismatch},
		{image.ErrUnavailable, agentapi.FailureImageUnavailable},
		{image.ErrUnreachable, ReasonTransferFailed},
		{image.ErrFormat, agentapi.FailureImageInvalid},
		{image.ErrReserved, agentapi.FailureImageInvalid},
		{image.ErrSectors, agentapi.FailureSectorsDiffer},
		{image.ErrTooLarge, agentapi.FailureDiskTooSmall},
		{raid.ErrMembers, agentapi.FailureMirrorRefused},
	} {
		if errors.Is(err, known.err) {
			return failure(known.reason, err)
		}
	}
	return failure(ReasonDiskFailed, err)
}

// seed requests the bootstrap data for the verified image as late as possible (I15), writes
// it into the installed system, and does not keep it. Of a mirror only the first member is
// written; sealMirror copies the changes to the others.
func (s *session) seed(ctx context.Context, to target, checksum string) error {
	disk := to.disks[0]
	if err := s.checkUnchanged(ctx, disk); err != nil { // Assembles opens the disk by name, and mounting may replay a journal
		return err
	}
	if err := s.checkAssembly(ctx, to); err != nil {
		return err
	}
	s.progress.set(agentapi.StepSeed, 0, 0)
	var data agentapi.Bootstrap
	request := agentapi.BootstrapRequest{OrderID: s.order.ID, VerifiedChecksum: checksum}
	if err := s.client.callWithRetry(ctx, agentapi.PathBootstrap, request, &data, s.progress.setWaiting); err != nil {
		return err
	}
	if to.mirrored() && data.Format == agentapi.FormatIgnition {
		return failure(agentapi.FailureImageInvalid, fmt.Errorf("%s: %w", to, seed.ErrIgnition))
	}
	if err := s.checkUnchanged(ctx, disk); err != nil { // the seeder opens the disk by name
		return err
	}
	if err := s.cfg.Seeder.Seed(ctx, disk, data); err != nil {
		return failure(seedReason(err), fmt.Errorf("%s: %w", disk.Name, err))
	}
	s.progress.set(agentapi.StepSeed, 100, 0)
	return nil
}

// seedReason returns agentapi.FailureImageInvalid for errors that the image would cause on every
// server.
func seedReason(err error) string {
	for _, fault := range []error{seed.ErrNoRoot, seed.ErrFormat, seed.ErrNoAssembly, seed.ErrIgnition, seed.ErrImage} {
		if errors.Is(err, fault) {
			return agentapi.FailureImageInvalid
		}
	}
	return ReasonSeedFailed
}
