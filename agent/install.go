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

// install writes the image and the seed. The order of its writes is what makes it
// safe to be cut off anywhere: the marker with Complete=false, the image without
// its first MiB, that MiB after the checksum was verified, the seed, the marker
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
	complete, err := s.guardAll(ctx, to, order.ReleasedInstances, owned(true))
	if err != nil {
		return report, err
	}
	if complete {
		// This very attempt was finished in an earlier run whose report was lost.
		s.cfg.Log("install: %s already holds attempt %d of %s", to, s.order.Attempt, s.order.InstanceID)
		return report, nil
	}
	if err := s.noOldSystem(to, order.ReleasedInstances); err != nil {
		return report, err
	}
	if report.BytesWritten, err = s.writeImage(ctx, to, order, owned(false)); err != nil {
		return report, err
	}
	if err := s.finish(ctx, to, order, report.BytesWritten, owned(true)); err != nil {
		s.disarm(ctx, to, owned(false), err)
		return report, err
	}
	return report, nil
}

// finish makes a system of an image that is whole on its disks, and would boot.
func (s *session) finish(ctx context.Context, to target, order agentapi.InstallOrder, written int64, complete agentapi.Marker) error {
	if err := s.seed(ctx, to, order.Checksum); err != nil {
		return err
	}
	if err := s.seal(ctx, to, written); err != nil {
		return err
	}
	return s.mark(ctx, to, complete)
}

// pick returns the one disk that a reference names (I12).
func (s *session) pick(ctx context.Context, ref agentapi.DiskRef) (agentapi.Disk, error) {
	disks, err := s.cfg.Disks.Names(ctx)
	if err != nil {
		return agentapi.Disk{}, failure(ReasonDiskFailed, fmt.Errorf("list the disks: %w", err))
	}
	return pickDisk(disks, ref)
}

func pickDisk(disks []agentapi.Disk, ref agentapi.DiskRef) (agentapi.Disk, error) {
	matching := slices.DeleteFunc(slices.Clone(disks), func(d agentapi.Disk) bool { return !ref.Matches(d) })
	switch len(matching) {
	case 1:
		return matching[0], nil
	case 0:
		return agentapi.Disk{}, &Failure{
			Reason:  ReasonDiskNotFound,
			Message: fmt.Sprintf("none of the %d disks is %s", len(disks), describe(ref)),
		}
	default:
		return agentapi.Disk{}, &Failure{
			Reason:  ReasonDiskAmbiguous,
			Message: fmt.Sprintf("%d disks are %s", len(matching), describe(ref)),
		}
	}
}

func describe(ref agentapi.DiskRef) string {
	return fmt.Sprintf("serial %q, WWN %q, path %q, %d bytes", ref.Serial, ref.WWN, ref.Path, ref.SizeBytes)
}

// writeImage brings the image onto the disk and returns its decoded size.
func (s *session) writeImage(
	ctx context.Context, to target, order agentapi.InstallOrder, m agentapi.Marker,
) (int64, error) {
	where := func() (string, error) { return imageURL(s.client.places.fileServer(), order.ImageURL) }
	source, err := where()
	if err != nil {
		return 0, failure(ReasonImageUnavailable, err)
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: s.cfg.Dial, ResponseHeaderTimeout: time.Minute, DisableCompression: true,
	}}
	defer client.CloseIdleConnections()
	img, err := image.Open(ctx,
		image.Request{Client: client, URL: source, Stall: s.cfg.ImageStall, Sleep: s.cfg.Sleep, Log: s.cfg.Log, OnBusy: s.progress.waiting, Moved: func(ctx context.Context, failures int) string {
			if failures%searchAfter == 0 {
				s.client.places.search(ctx)
			}
			now, err := where()
			if err != nil {
				return source
			}
			return now
		}},
		image.Format{Checksum: order.Checksum, Compression: order.Compression, Disk: order.Format})
	if err != nil {
		return 0, imageFailure(err)
	}
	defer img.Close()
	var result image.Result
	err = s.withTarget(ctx, to, func(dev block.Device) error {
		if img.RawSize() > dev.Size() {
			return fmt.Errorf("%w: %d bytes of image, %d of disk", image.ErrTooLarge, img.RawSize(), dev.Size())
		}
		if err := marker.Write(dev, m); err != nil {
			return err
		}
		if mirror, ok := dev.(*raid.Mirror); ok {
			if err := mirror.ClearTails(ctx); err != nil {
				return err
			}
		}
		s.cfg.Log("install: writing a %s image (compression %s) to %s (%d bytes)", img.Disk(), img.Compression(), to, dev.Size())
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
	s.cfg.Log("install: %d MiB written from %d MiB, checksum verified", result.Bytes>>20, result.SourceBytes>>20)
	return result.Bytes, nil
}

// imageURL resolves what the order says against the boot server that this boot
// came from. The error names neither: a URL may carry credentials.
func imageURL(files, ordered string) (string, error) {
	ref, err := url.Parse(ordered)
	if err != nil {
		return "", errors.New("the order's image URL cannot be read")
	}
	base, err := url.Parse(files)
	if err != nil {
		return "", errors.New("the boot server's URL cannot be read")
	}
	if out := base.ResolveReference(ref); (out.Scheme == "http" || out.Scheme == "https") && out.Host != "" {
		return out.String(), nil
	}
	return "", fmt.Errorf("the order's image URL is no http URL, nor relative to a boot server (%s)", agentapi.ArgFiles)
}

// imageFailure gives an error of the image package its reason.
func imageFailure(err error) error {
	for _, known := range []struct {
		err    error
		reason string
	}{
		{image.ErrChecksum, ReasonChecksumMismatch},
		{image.ErrUnavailable, ReasonImageUnavailable},
		{image.ErrUnreachable, ReasonTransferFailed},
		{image.ErrFormat, ReasonImageInvalid},
		{image.ErrReserved, ReasonImageInvalid},
		{image.ErrSectors, ReasonSectorsDiffer},
		{image.ErrTooLarge, ReasonDiskTooSmall},
		{raid.ErrMembers, ReasonMirrorRefused},
	} {
		if errors.Is(err, known.err) {
			return failure(known.reason, err)
		}
	}
	return failure(ReasonDiskFailed, err)
}

// seed asks for the bootstrap data of the image with this checksum, which was written and
// verified. That is the last thing before the end (I15). It gives the data
// to the installed system. The data is held no longer than that. Of a mirror it is given to
// the first member; seal brings it to the others.
func (s *session) seed(ctx context.Context, to target, checksum string) error {
	disk := to.disks[0]
	if err := s.isStill(ctx, disk); err != nil { // looked into by its name: mounting may replay a journal
		return err
	}
	if err := s.assembles(ctx, to); err != nil {
		return err
	}
	s.progress.set(agentapi.StepSeed, 0, 0)
	var data agentapi.Bootstrap
	request := agentapi.BootstrapRequest{OrderID: s.order.ID, VerifiedChecksum: checksum}
	if err := s.client.callPatiently(ctx, agentapi.PathBootstrap, request, &data, s.progress.waiting); err != nil {
		return err
	}
	if err := ownMirror(to, data.Format); err != nil {
		return err
	}
	if err := s.isStill(ctx, disk); err != nil { // the seeder opens it by its name
		return err
	}
	if err := s.cfg.Seeder.Seed(ctx, disk, data); err != nil {
		return failure(seedReason(err), fmt.Errorf("%s: %w", disk.Name, err))
	}
	s.progress.set(agentapi.StepSeed, 100, 0)
	return nil
}

// seedReason blames the image where it is to blame: no other server could give the data
// to its system either.
func seedReason(err error) string {
	for _, image := range []error{seed.ErrNoRoot, seed.ErrFormat, seed.ErrNoAssembly, seed.ErrIgnition, seed.ErrImage} {
		if errors.Is(err, image) {
			return ReasonImageInvalid
		}
	}
	return ReasonSeedFailed
}

// mark writes the marker, the last write of an install.
func (s *session) mark(ctx context.Context, to target, m agentapi.Marker) error {
	err := s.withTarget(ctx, to, func(dev block.Device) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return marker.Write(dev, m)
	})
	if err != nil {
		return failure(ReasonDiskFailed, fmt.Errorf("%s: %w", to, err))
	}
	return nil
}
