// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package block_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ingot-metal/ingot/agent/block"
)

func TestFileZeroReadsAsZeroAndKeepsTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	dev, err := block.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	// An unaligned range: the data around it must stay.
	if err := block.Zero(t.Context(), dev, 1000, 500_000); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dev.Sync(), dev.DropCache(), block.Zero(t.Context(), dev, 5, 0)); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte{7}, 1<<20)
	clear(want[1000:501_000])
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, content as wanted: %t", err, bytes.Equal(got, want))
	}
	if dev.Size() != 1<<20 {
		t.Errorf("size %d", dev.Size())
	}
}

func TestOpenFileRefusesOtherFiles(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing"), "/dev/null"} {
		if dev, err := block.OpenFile(path); err == nil {
			t.Errorf("%s opened as a disk of %d bytes", path, dev.Size())
		}
	}
	if dev, err := block.Open("/dev/null"); err == nil {
		t.Errorf("/dev/null opened as a disk of %d bytes", dev.Size())
	}
}

// plain is a device without Zero.
type plain struct {
	block.Device
	content []byte
	fail    bool
}

func (p *plain) Zero(int64, int64) error { return block.ErrNotSupported }

func (p *plain) WriteAt(b []byte, off int64) (int, error) {
	if p.fail {
		return 0, errors.New("medium error")
	}
	return copy(p.content[off:], b), nil
}

func TestZeroIsWrittenWithoutDeviceSupport(t *testing.T) {
	p := &plain{content: bytes.Repeat([]byte{7}, 3<<20)}
	if err := block.Zero(t.Context(), p, 10, 2<<20+5); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte{7}, 3<<20)
	clear(want[10 : 10+2<<20+5])
	if !bytes.Equal(p.content, want) {
		t.Error("the range is not zero")
	}
	p.fail = true
	if err := block.Zero(t.Context(), p, 0, 1); err == nil {
		t.Error("a failed write is no error")
	}
}

// endless is a large disk that cancels the context after its first write.
type endless struct {
	block.Device
	supported bool
	stop      context.CancelCauseFunc
	zeroed    int64
}

var errCanceled = errors.New("canceled")

func (e *endless) Zero(_, n int64) error {
	if !e.supported {
		return block.ErrNotSupported
	}
	e.zeroed += n
	e.stop(errCanceled)
	return nil
}

func (e *endless) WriteAt(b []byte, _ int64) (int, error) {
	e.zeroed += int64(len(b))
	e.stop(errCanceled)
	return len(b), nil
}

// The zeroing of a large disk may take long and must be cancelable (I10).
func TestZeroIsCanceled(t *testing.T) {
	for name, tc := range map[string]struct {
		supported bool
		most      int64
	}{
		"by the device": {true, 256 << 20},
		"by writing":    {false, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			disk := &endless{supported: tc.supported, stop: stop}
			if err := block.Zero(ctx, disk, 0, 100<<30); !errors.Is(err, errCanceled) {
				t.Errorf("Zero = %v", err)
			}
			if disk.zeroed > tc.most {
				t.Errorf("%d MiB were zeroed, the most after a stop is %d", disk.zeroed>>20, tc.most>>20)
			}
		})
	}
}

func TestIsZero(t *testing.T) {
	for n := range 40 {
		b := make([]byte, n)
		if !block.IsZero(b) {
			t.Errorf("%d zeroes are not zero", n)
		}
		for i := range b {
			b[i] = 1
			if block.IsZero(b) {
				t.Errorf("a one at %d of %d was not seen", i, n)
			}
			b[i] = 0
		}
	}
}
