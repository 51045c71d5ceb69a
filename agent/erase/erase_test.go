// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agentapi"
)

const mib = 1 << 20

// flash is a disk in memory that executes commands, with faults that tests select.
type flash struct {
	mu      sync.Mutex
	content []byte
	sent    []string

	// The kind of disk, and its state.
	nvme      bool
	others    bool
	sanitize  byte // capabilities: 1 crypto, 2 block
	fna, oacs byte
	state     uint16 // of the sanitize log
	polls     int
	security  uint16 // word 128; 0: no ATA drive
	password  string
	// restricted: the firmware supports only sanitizes that must not fail. unwilling: it refuses
	// all sanitizes despite its capabilities.
	restricted, unwilling bool
	// cutOff is Target.CutOff.
	cutOff     bool
	discards   bool
	securely   bool
	zeroNative bool

	// noEffect are the methods without effect. fails are the opcodes refused.
	noEffect map[string]bool
	fails    map[byte]bool
	// failsOnce are the opcodes refused the first time.
	failsOnce map[byte]bool
	// writesFailAt is the offset of a bad sector.
	writesFailAt int64
	// ignoreWrites: writes succeed without effect.
	ignoreWrites bool
	// stopAt cancels after that many bytes.
	stopAt  int64
	written int64
	stop    func()
	// stopOn cancels at the stopCall-th call of this command.
	stopOn   byte
	stopCall int
	calls    map[byte]int
}

// called counts the calls of a command.
func (f *flash) called(command byte) {
	f.calls[command]++
	if f.stopCall > 0 && command == f.stopOn && f.calls[command] == f.stopCall {
		f.stop()
	}
}

func newFlash() *flash {
	f := &flash{content: make([]byte, 16*mib), noEffect: map[string]bool{}, fails: map[byte]bool{}, failsOnce: map[byte]bool{}, calls: map[byte]int{}}
	_, _ = rand.NewChaCha8([32]byte{7}).Read(f.content)
	return f
}

func (f *flash) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nvme && f.state == 3 {
		return 0, errors.New("sanitize failed")
	}
	return copy(p, f.content[off:]), nil
}

func (f *flash) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writesFailAt > 0 && off <= f.writesFailAt && f.writesFailAt < off+int64(len(p)) {
		return 0, errors.New("medium error")
	}
	if f.nvme && f.state == 3 {
		return 0, errors.New("sanitize failed")
	}
	if f.ignoreWrites || f.noEffect["write"] && len(p) > 4096 {
		return len(p), nil
	}
	f.written += int64(len(p))
	if f.stopAt > 0 && f.written >= f.stopAt && len(p) > 4096 {
		f.stop()
	}
	return copy(f.content[off:], p), nil
}

func (f *flash) Zero(off, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.zeroNative {
		return block.ErrNotSupported
	}
	if !f.noEffect["zero"] {
		clear(f.content[off : off+n])
	}
	return nil
}

func (f *flash) Sync() error      { return nil }
func (f *flash) DropCache() error { return nil }
func (f *flash) Size() int64      { return int64(len(f.content)) }
func (f *flash) Close() error     { return nil }

func (f *flash) wipe(how string, fill byte) {
	if !f.noEffect[how] {
		copy(f.content, bytes.Repeat([]byte{fill}, len(f.content)))
	}
}

func (f *flash) Namespace() (uint32, error) {
	if !f.nvme {
		return 0, erase.ErrNotSupported
	}
	return 1, nil
}

func (f *flash) NVMe(_ context.Context, c erase.NVMeCommand) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.called(c.Opcode)
	switch {
	case !f.nvme:
		return erase.ErrNotSupported
	case f.fails[c.Opcode]:
		return errors.New("NVMe status 0x6")
	}
	switch c.Opcode {
	case 0x06:
		f.identify(c)
	case 0x02:
		if f.state == 2 {
			if f.polls--; f.polls <= 0 {
				f.state = 1
			}
		}
		binary.LittleEndian.PutUint16(c.Data[2:], f.state)
	case 0x84:
		if f.unwilling || f.restricted && (c.CDW10&7 == 1 || c.CDW10&8 != 0) {
			return erase.ErrNotSupported
		}
		f.sent = append(f.sent, "sanitize")
		switch c.CDW10 & 7 {
		case 1:
			f.state = 0
			f.sent = append(f.sent, "exit")
			return nil
		case 2:
			f.wipe("sanitize", 0)
		case 4:
			f.wipe("sanitize", 0x5a)
		}
		f.state, f.polls = 2, 3
		if f.noEffect["sanitize fails"] {
			f.state = 3
		}
	case 0x80:
		f.sent = append(f.sent, "format")
		f.wipe("format", 0)
	}
	return nil
}

func (f *flash) identify(c erase.NVMeCommand) {
	le := binary.LittleEndian
	switch c.CDW10 {
	case 1:
		c.Data[256], c.Data[524] = f.oacs, f.fna
		c.Data[328] = f.sanitize
	case 2, 0x10:
		le.PutUint32(c.Data, 1)
		if f.others {
			le.PutUint32(c.Data[4:], 2)
		}
	}
}

// ATA implements the states of ACS-4, figure 13, which determine the accepted commands.
func (f *flash) ATA(_ context.Context, c erase.ATACommand) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.called(c.Command)
	const enabled, locked, frozen = 2, 4, 8
	aborted := errors.New("status 0x2, sense key 0xb")
	if f.security == 0 {
		return erase.ErrNotSupported
	}
	if f.fails[c.Command] || f.failsOnce[c.Command] {
		delete(f.failsOnce, c.Command)
		return aborted
	}
	password := ""
	if c.Out != nil {
		password = strings.TrimRight(string(c.Out[2:34]), "\x00")
	}
	if c.Command != 0xec {
		f.sent = append(f.sent, map[byte]string{0xf1: "set", 0xf2: "unlock", 0xf3: "prepare", 0xf4: "erase", 0xf6: "disable"}[c.Command])
		if f.security&frozen != 0 {
			return aborted
		}
	}
	switch c.Command {
	case 0xec:
		binary.LittleEndian.PutUint16(c.In[164:], 2)
		binary.LittleEndian.PutUint16(c.In[178:], 5)
		binary.LittleEndian.PutUint16(c.In[256:], f.security)
	case 0xf1:
		f.password, f.security = password, f.security|enabled
	case 0xf2:
		if password != f.password {
			return aborted
		}
		f.security &^= locked
	case 0xf6:
		if password != f.password || f.security&locked != 0 {
			return aborted
		}
		f.password, f.security = "", f.security&^enabled
	case 0xf4:
		if password != f.password || f.security&enabled == 0 {
			return aborted
		}
		f.wipe("erase", 0)
		f.password, f.security = "", f.security&^(enabled|locked)
	}
	return nil
}

func (f *flash) Discard(_ context.Context, r erase.DiscardRange) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case r.Secure && !f.securely, !r.Secure && !f.discards:
		return erase.ErrNotSupported
	case r.Secure && !f.noEffect["discard"]:
		clear(f.content[r.Off : r.Off+r.Len])
	}
	return nil
}

// run erases the disk with a clock that does not advance by itself.
func run(ctx context.Context, f *flash, rotational bool) (erase.Result, []erase.Progress, error) {
	return runOn(ctx, f, f, rotational)
}

// disk is a flash, or a wrapper of one.
type disk interface {
	block.Device
	erase.Commands
}

func runOn(ctx context.Context, f *flash, on disk, rotational bool) (erase.Result, []erase.Progress, error) {
	name := "/dev/sda"
	if f.nvme {
		name = "/dev/nvme0n1"
	}
	var mu sync.Mutex
	var reported []erase.Progress
	now := time.Unix(0, 0)
	result, err := erase.Disk(ctx, erase.Target{
		Device: on, Commands: on, JournalKey: "secret", CutOff: f.cutOff,
		Disk: agentapi.Disk{Name: name, Serial: "S1", Rotational: rotational},
	}, erase.Options{
		OnProgress: func(p erase.Progress) { mu.Lock(); reported = append(reported, p); mu.Unlock() },
		Now:        func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			mu.Lock()
			now = now.Add(d)
			mu.Unlock()
			return ctx.Err()
		},
	})
	mu.Lock()
	defer mu.Unlock()
	return result, reported, err
}

func TestMethods(t *testing.T) {
	for _, c := range []struct {
		name       string
		disk       func(f *flash)
		rotational bool
		want       string
		sent       []string
		failed     string
	}{
		{name: "NVMe with both sanitizes", disk: func(f *flash) { f.nvme, f.sanitize = true, 3 }, want: erase.NVMeSanitizeBlock, sent: []string{"sanitize"}},
		{name: "NVMe with crypto erase", disk: func(f *flash) { f.nvme, f.sanitize = true, 1 }, want: erase.NVMeSanitizeCrypto, sent: []string{"sanitize"}},
		{name: "NVMe without sanitize", disk: func(f *flash) { f.nvme, f.oacs = true, 2 }, want: erase.NVMeFormat, sent: []string{"format"}},
		{name: "NVMe with a key, without sanitize", disk: func(f *flash) { f.nvme, f.oacs, f.fna = true, 2, 4 }, want: erase.NVMeFormatCrypto, sent: []string{"format"}},
		{
			name: "NVMe with another namespace", disk: func(f *flash) { f.nvme, f.sanitize, f.oacs, f.others = true, 3, 2, true },
			want: erase.NVMeFormat, sent: []string{"format"}, failed: "other namespaces",
		},
		{
			name: "NVMe whose format affects another namespace", disk: func(f *flash) { f.nvme, f.sanitize, f.oacs, f.fna, f.others = true, 3, 2, 2, true },
			want: erase.Overwrite, failed: "other namespaces",
		},
		{
			name: "NVMe whose sanitize has no effect", disk: func(f *flash) { f.nvme, f.sanitize, f.oacs = true, 2, 2; f.noEffect["sanitize"] = true },
			want: erase.NVMeFormat, sent: []string{"sanitize", "format"}, failed: "still has its old content",
		},
		{
			name: "NVMe whose sanitize fails", disk: func(f *flash) { f.nvme, f.sanitize = true, 2; f.noEffect["sanitize fails"] = true },
			want: erase.Overwrite, sent: []string{"sanitize", "sanitize", "exit"}, failed: "status 3",
		},
		{name: "NVMe during an earlier sanitize", disk: func(f *flash) { f.nvme, f.sanitize, f.state, f.polls = true, 2, 2, 4 }, want: erase.NVMeSanitizeBlock, sent: []string{"sanitize"}},
		{
			name: "NVMe stuck after another tool's sanitize", disk: func(f *flash) { f.nvme, f.sanitize, f.state, f.restricted = true, 2, 3, true },
			want: erase.NVMeSanitizeBlock, sent: []string{"sanitize", "sanitize"},
		},
		{name: "NVMe without sanitizes that may fail", disk: func(f *flash) { f.nvme, f.sanitize, f.restricted = true, 1, true }, want: erase.NVMeSanitizeCrypto, sent: []string{"sanitize"}},
		{
			name: "NVMe that refuses a supported sanitize", disk: func(f *flash) { f.nvme, f.sanitize, f.oacs, f.unwilling = true, 2, 2, true },
			want: erase.NVMeFormat, sent: []string{"format"}, failed: "NVMeSanitizeBlock: sanitize: not supported",
		},
		{
			name: "ATA interrupted in an earlier attempt", disk: func(f *flash) { f.security, f.cutOff = 1, true }, rotational: true,
			want: erase.Overwrite, failed: "an earlier attempt was interrupted",
		},
		{
			name: "ATA that keeps its password at first", disk: func(f *flash) { f.security = 1; f.fails[0xf4], f.failsOnce[0xf6] = true, true }, rotational: true,
			want: erase.Overwrite, sent: []string{"set", "prepare", "disable"}, failed: "remove the password",
		},
		{name: "ATA", disk: func(f *flash) { f.security = 1 }, rotational: true, want: erase.ATASecureErase, sent: []string{"set", "prepare", "erase"}},
		{name: "ATA enhanced", disk: func(f *flash) { f.security = 0x21 }, want: erase.ATAEnhancedSecureErase, sent: []string{"set", "prepare", "erase"}},
		{name: "ATA frozen", disk: func(f *flash) { f.security = 9 }, rotational: true, want: erase.Overwrite, failed: "frozen"},
		{
			name: "ATA locked by an erase that lost power", disk: func(f *flash) { f.security, f.password = 7, erase.ATAPassword }, rotational: true,
			want: erase.ATASecureErase, sent: []string{"unlock", "disable", "set", "prepare", "erase"},
		},
		{
			name: "ATA that refuses to erase", disk: func(f *flash) { f.security = 1; f.fails[0xf4] = true }, rotational: true,
			want: erase.Overwrite, sent: []string{"set", "prepare", "disable"}, failed: "sense key 0xb",
		},
		{
			name: "ATA whose erase has no effect", disk: func(f *flash) { f.security = 1; f.noEffect["erase"] = true }, rotational: true,
			want: erase.Overwrite, sent: []string{"set", "prepare", "erase"}, failed: "still has its old content",
		},
		{name: "flash that discards securely", disk: func(f *flash) { f.securely = true }, want: erase.SecureDiscard},
		{name: "flash that discards", disk: func(f *flash) { f.discards, f.zeroNative = true, true }, want: erase.DiscardAndZero},
		{
			name: "flash whose zeroing has no effect", disk: func(f *flash) { f.discards, f.zeroNative = true, true; f.noEffect["zero"] = true },
			want: "", failed: "still has its old content",
		},
		{name: "flash without commands", disk: func(*flash) {}, want: erase.Overwrite},
		{name: "rotating, without commands", disk: func(*flash) {}, rotational: true, want: erase.Overwrite},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlash()
			c.disk(f)
			old := bytes.Clone(f.content)
			result, reported, err := run(t.Context(), f, c.rotational)
			if c.want == "" {
				if !errors.Is(err, erase.ErrNotErased) || !strings.Contains(err.Error(), c.failed) {
					t.Errorf("%+v, error %v", result, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if result.Method != c.want || result.Erased != 16*mib || result.Verified < 4*mib-64<<10 || !strings.Contains(result.Failed, c.failed) || (c.failed == "") != (result.Failed == "") {
				t.Errorf("%+v, want %s after %q", result, c.want, c.failed)
			}
			if diff := cmp.Diff(c.sent, f.sent); diff != "" {
				t.Error(diff)
			}
			same := 0
			for off := 0; off < len(old); off += 4096 {
				if (off < mib-8192 || off >= mib) && bytes.Equal(old[off:off+4096], f.content[off:off+4096]) {
					same++
				}
			}
			if same > 0 {
				t.Errorf("%d blocks of 4 KiB are as they were", same)
			}
			if f.password != "" {
				t.Errorf("the drive keeps the password %q", f.password)
			}
			for _, p := range reported {
				if p.Percent < 0 || p.Percent > 100 || p.Bytes > 16*mib {
					t.Errorf("progress %+v", p)
				}
			}
		})
	}
}

func TestNotErased(t *testing.T) {
	for _, c := range []struct {
		name    string
		disk    func(f *flash)
		message string
	}{
		{"a bad sector", func(f *flash) { f.writesFailAt = 9 * mib }, "medium error"},
		{"writes are dropped", func(f *flash) { f.ignoreWrites = true }, "does not return the data written"},
		{"large writes are dropped", func(f *flash) { f.noEffect["write"] = true }, "still has its old content"},
		{"locked and frozen", func(f *flash) { f.security, f.password = 15, erase.ATAPassword }, "frozen its security until the next power loss"},
		{"locked, too many wrong passwords", func(f *flash) { f.security, f.password = 0x17, "theirs" }, "too many wrong passwords"},
		{"frozen with a password", func(f *flash) { f.security, f.password = 11, erase.ATAPassword }, "frozen its security; retry"},
		{"unlocked, with another password", func(f *flash) { f.security, f.password = 3, "theirs" }, "will lock the drive"},
		{"stuck, with another namespace", func(f *flash) { f.nvme, f.sanitize, f.state, f.restricted, f.others = true, 2, 3, true, true }, "other namespaces"},
		{"permanently stuck", func(f *flash) { f.nvme, f.sanitize, f.state, f.unwilling = true, 2, 3, true }, "accepts only another sanitize"},
		{"locked with another password", func(f *flash) { f.security, f.password = 7, "theirs" }, "not Ingot's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlash()
			c.disk(f)
			result, _, err := run(t.Context(), f, true)
			if !errors.Is(err, erase.ErrNotErased) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%+v, error %v, want %q", result, err, c.message)
			}
		})
	}
}

// A canceled overwrite ends with the cause, and the next run ignores another owner's journal.
func TestOverwriteIsCanceled(t *testing.T) {
	f := newFlash()
	canceled := errors.New("canceled")
	ctx, cancel := context.WithCancelCause(t.Context())
	f.stopAt, f.stop = 9*mib, func() { cancel(canceled) }
	if _, _, err := run(ctx, f, true); !errors.Is(err, canceled) {
		t.Fatalf("error %v", err)
	}
	f.stopAt = 0
	if result, _, err := run(t.Context(), f, true); err != nil || result.Method != erase.Overwrite {
		t.Errorf("%+v, %v", result, err)
	}
}

// No command that cannot be canceled starts after the context's end (I10), and no drive keeps
// a password.
func TestNoCommandStartsAfterTheEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		disk func(f *flash)
		sent []string
	}{
		{name: "before the password", disk: func(f *flash) { f.security, f.stopOn, f.stopCall = 1, 0xec, 3 }},
		{name: "with the password", disk: func(f *flash) { f.security, f.stopOn, f.stopCall = 1, 0xf1, 1 }, sent: []string{"set", "prepare", "disable"}},
		{name: "before the erase", disk: func(f *flash) { f.security, f.stopOn, f.stopCall = 1, 0xf3, 1 }, sent: []string{"set", "prepare", "disable"}},
		{name: "before the sanitize", disk: func(f *flash) { f.nvme, f.sanitize, f.stopOn, f.stopCall = true, 2, 0x02, 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlash()
			c.disk(f)
			canceled := errors.New("canceled")
			ctx, cancel := context.WithCancelCause(t.Context())
			f.stop = func() { cancel(canceled) }
			if _, _, err := run(ctx, f, true); !errors.Is(err, canceled) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.sent, f.sent); diff != "" {
				t.Error(diff)
			}
			if f.password != "" {
				t.Errorf("the drive keeps the password %q", f.password)
			}
		})
	}
}
