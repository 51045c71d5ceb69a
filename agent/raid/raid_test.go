// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package raid

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/block"
)

var update = flag.Bool("update", false, "write the golden files anew")

const mib = 1 << 20

var identity = Identity{Instance: "0b3c9a52-5f0e-4c1b-8f7c-7d5c1a2b3c4d", Attempt: 2, Created: time.Unix(1_900_000_000, 0)}

// disk makes a file of random bytes.
func disk(t *testing.T, name string, size int64, seed byte) (Member, string) {
	t.Helper()
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(content)
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	dev, err := block.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	return Member{Name: name, Device: unsynced{dev}}, path
}

// unsynced skips the sync of the real disk.
type unsynced struct{ block.Device }

func (unsynced) Sync() error { return nil }

func pair(t *testing.T, sizes ...int64) (*Mirror, []string) {
	t.Helper()
	var members []Member
	var paths []string
	for i, size := range sizes {
		m, path := disk(t, "disk"+string(rune('a'+i)), size, byte(i))
		members, paths = append(members, m), append(paths, path)
	}
	mirror, err := New(members)
	if err != nil {
		t.Fatal(err)
	}
	return mirror, paths
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The superblocks are those of mdadm byte by byte: testdata contains the output of mdadm 4.2,
// which is compared again if mdadm is installed.
func TestSealWritesSuperblocksForMDADM(t *testing.T) {
	mirror, paths := pair(t, 16*mib, 16*mib+4096+512)
	if err := errors.Join(mirror.ClearTails(t.Context()), mirror.Seal(identity, 5*mib+1)); err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		at := offset10(mirror.members[i].Size())
		got := []byte(hex.Dump(read(t, path)[at : at+superblockSize]))
		golden(t, filepath.Base(path)+".hex", got)
		if mdadm, err := exec.LookPath("mdadm"); err == nil {
			golden(t, filepath.Base(path)+".examine", examine(t, mdadm, path))
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// local matches lines that depend on place and time.
var local = regexp.MustCompile(`(?m)^(/.*|.*(Creation|Update) Time : .*)\n`)

func examine(t *testing.T, mdadm, path string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), mdadm, "--examine", path).CombinedOutput()
	if err != nil {
		t.Fatalf("mdadm: %v\n%s", err, out)
	}
	return local.ReplaceAll(out, nil)
}

func TestFindReadsWhatSealWrote(t *testing.T) {
	for name, c := range map[string]struct{ synced, want int64 }{
		"part of it": {5*mib + 1, 5 * mib}, "nothing": {0, 0}, "all": {1 << 40, 10 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			mirror, paths := pair(t, 11*mib+77*512, 12*mib)
			if err := errors.Join(mirror.ClearTails(t.Context()), mirror.Seal(identity, c.synced)); err != nil {
				t.Fatal(err)
			}
			for i, path := range paths {
				b := read(t, path)
				want := []Superblock{{
					Array: identity.uuid(0), Device: identity.uuid(uint32(i + 1)), Name: ArrayName, Created: identity.Created.UTC(),
					Level: 1, Members: 2, Role: i, Events: 1, DataBytes: 10 * mib,
					SuperOffset: offset10(int64(len(b))), SyncedBytes: c.want,
				}}
				if diff := cmp.Diff(want, Find(bytes.NewReader(b), int64(len(b)))); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// Find finds superblocks of other arrays at all positions.
func TestFindOtherArrays(t *testing.T) {
	const size = 8*mib + 512
	at := func(off int64, s Superblock) []byte {
		b := make([]byte, size)
		s.SuperOffset = off
		copy(b[off:], s.encode())
		return b
	}
	for name, c := range map[string]struct {
		in   []byte
		want int
	}{
		"1.0":                 {at(offset10(size), Superblock{Level: 1, Members: 2}), 1},
		"1.1":                 {at(0, Superblock{Level: 5, Members: 3, DataOffset: 1 * mib}), 1},
		"1.2":                 {at(4096, Superblock{Level: 0, Members: 2, DataOffset: 2 * mib}), 1},
		"at another position": {append(make([]byte, 4096), at(0, Superblock{Level: 1})[:size-4096]...), 0},
		"damaged":             {func() []byte { b := at(0, Superblock{Level: 1}); b[72]++; return b }(), 0},
		"too many devices": {func() []byte {
			b := at(0, Superblock{})
			copy(b[220:], "\xff\xff\xff\xff")
			return b
		}(), 0},
		"empty":     {make([]byte, size), 0},
		"tiny disk": {make([]byte, 100), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Find(bytes.NewReader(c.in), int64(len(c.in))); len(got) != c.want {
				t.Errorf("%+v, want %d", got, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Superblock{Level: 1, Members: 2, DataBytes: 62 * mib}.encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse(b)
		if err == nil && (s.SyncedBytes > s.DataBytes || s.DataBytes < 0 || s.Role >= s.Members && s.Role >= 0) {
			t.Errorf("%+v", s)
		}
	})
}

// Arrays of different attempts and members of one array have different UUIDs.
func TestIdentitiesDiffer(t *testing.T) {
	other, later := identity, identity
	other.Instance, later.Attempt = "another", 3
	seen := map[[16]byte]bool{}
	for _, uuid := range [][16]byte{identity.uuid(0), identity.uuid(1), identity.uuid(2), other.uuid(0), later.uuid(0)} {
		if seen[uuid] || uuid[6]>>4 != 8 || uuid[8]>>6 != 2 {
			t.Errorf("%x", uuid)
		}
		seen[uuid] = true
	}
}

// Every write reaches all members, and old superblocks behind the array are removed.
func TestMirrorWritesAllMembers(t *testing.T) {
	mirror, paths := pair(t, 8*mib+3*4096, 16*mib)
	if mirror.Size() != 7*mib {
		t.Fatalf("size %d", mirror.Size())
	}
	if err := errors.Join(mirror.ClearTails(t.Context()), mirror.Zero(mib, 6*mib)); err != nil {
		t.Fatal(err)
	}
	if n, err := mirror.WriteAt([]byte("hello"), 3*mib); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	got := make([]byte, 7)
	if n, err := mirror.ReadAt(got, 3*mib-1); n != 7 || err != nil || string(got) != "\x00hello\x00" {
		t.Errorf("%d, %v, %q", n, err, got)
	}
	for i, path := range paths {
		b := read(t, path)
		tail := max(7*mib, len(b)-2*mib)
		if string(b[3*mib:3*mib+5]) != "hello" || !block.IsZero(b[tail:]) {
			t.Errorf("member %d: %q, tail clear %t", i, b[3*mib:3*mib+5], block.IsZero(b[tail:]))
		}
		if block.IsZero(b[tail-mib:tail]) && tail > 7*mib {
			t.Errorf("member %d was cleared where nothing is recognised", i)
		}
	}
	if _, err := mirror.WriteAt(make([]byte, 2), 7*mib-1); err == nil {
		t.Error("wrote behind the end of the array")
	}
	if err := mirror.Zero(6*mib, mib+1); err == nil {
		t.Error("zeroed behind the end of the array")
	}
}

// Match copies exactly what was written to the first member alone.
func TestMatchCopiesDifferences(t *testing.T) {
	mirror, paths := pair(t, 12*mib, 12*mib)
	image := make([]byte, 9*mib)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(image)
	if _, err := mirror.WriteAt(image, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := mirror.members[0].WriteAt([]byte("seed"), 8*mib+100); err != nil {
		t.Fatal(err)
	}
	if _, err := mirror.ReadAt(make([]byte, 512), 8*mib); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), "diskb") {
		t.Errorf("members that differ read as one: %v", err)
	}
	var told []int64
	copied, err := mirror.Match(t.Context(), 9*mib, func(n int64) { told = append(told, n) })
	if err != nil || copied != mib {
		t.Fatalf("%d bytes copied, %v", copied, err)
	}
	if diff := cmp.Diff([]int64{4 * mib, 8 * mib, 9 * mib}, told); diff != "" {
		t.Error(diff)
	}
	a, b := read(t, paths[0]), read(t, paths[1])
	if !bytes.Equal(a[:9*mib], b[:9*mib]) || string(b[8*mib+100:8*mib+104]) != "seed" {
		t.Error("the members differ")
	}
	if bytes.Equal(a[9*mib:], b[9*mib:]) {
		t.Error("copied more than requested")
	}
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errStopped)
	if _, err := mirror.Match(stopped, 9*mib, nil); !errors.Is(err, errStopped) {
		t.Errorf("Match = %v", err)
	}
}

var errStopped, errMedium = errors.New("stopped"), errors.New("medium error")

// faulty is a disk with one fault.
type faulty struct {
	block.Device
	sectors            int
	write, keeps, deaf bool
}

func (f faulty) SectorSize() int { return f.sectors }

func (f faulty) WriteAt(b []byte, off int64) (int, error) {
	switch {
	case f.write:
		return 0, errMedium
	case f.keeps:
		return len(b), nil
	}
	return f.Device.WriteAt(b, off)
}

func (f faulty) Zero(off, n int64) error {
	if f.deaf {
		return block.ErrNotSupported
	}
	return f.Device.Zero(off, n)
}

// Errors name the disk that fails.
func TestErrorsNameTheMember(t *testing.T) {
	with := func(f faulty) *Mirror {
		mirror, _ := pair(t, 8*mib, 8*mib)
		f.Device = mirror.members[1].Device
		mirror.members[1].Device = f
		return mirror
	}
	t.Run("write", func(t *testing.T) {
		if _, err := with(faulty{write: true}).WriteAt([]byte("x"), 0); !errors.Is(err, errMedium) || !strings.HasPrefix(err.Error(), "diskb: ") {
			t.Error(err)
		}
	})
	t.Run("a write that is lost", func(t *testing.T) {
		if _, err := with(faulty{keeps: true}).Match(t.Context(), 2*mib, nil); !errors.Is(err, ErrDiffers) {
			t.Error(err)
		}
		if err := with(faulty{keeps: true}).Seal(identity, 0); !errors.Is(err, ErrDiffers) || !strings.HasPrefix(err.Error(), "diskb: ") {
			t.Error(err)
		}
	})
	t.Run("zeroes that one cannot make", func(t *testing.T) {
		mirror := with(faulty{deaf: true})
		if err := mirror.Zero(0, mib); !errors.Is(err, block.ErrNotSupported) {
			t.Error(err)
		}
		if err := block.Zero(t.Context(), mirror, 0, 2*mib); err != nil {
			t.Error(err)
		}
		got := make([]byte, 2*mib)
		if _, err := mirror.ReadAt(got, 0); err != nil || !block.IsZero(got) {
			t.Error("not zero", err)
		}
	})
	t.Run("sectors", func(t *testing.T) {
		for want, one := range map[int]faulty{0: {}, 4096: {sectors: 4096}} {
			if got := block.SectorSize(with(one)); got != want {
				t.Errorf("sectors of %d, want %d", got, want)
			}
		}
	})
	t.Run("no two of a kind", func(t *testing.T) {
		a, _ := disk(t, "a", 8*mib, 1)
		b, _ := disk(t, "b", 8*mib, 2)
		small, _ := disk(t, "small", mib, 3)
		a.Device, b.Device = faulty{Device: a.Device, sectors: 512}, faulty{Device: b.Device, sectors: 4096}
		for name, members := range map[string][]Member{"sectors": {a, b}, "too small": {a, small}, "alone": {a}} {
			if m, err := New(members); !errors.Is(err, ErrMembers) {
				t.Errorf("%s: %v, %v", name, m, err)
			}
		}
	})
}
