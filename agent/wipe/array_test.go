// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/raid"
	"github.com/ingot-metal/ingot/agent/wipe"
)

// On a member of a mirror the superblock is removed, and the second partition table at the
// array's end.
func TestMetadataRemovesAMirror(t *testing.T) {
	var members []raid.Member
	var paths []string
	for range 2 {
		f, path := newDisk(t)
		put(t, f, 198*mib, []byte("data"))
		put(t, f, 199*mib-512, []byte("EFI PART"))
		dev, err := block.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		members, paths = append(members, raid.Member{Name: path, Device: dev}), append(paths, path)
	}
	mirror, err := raid.New(members)
	if err != nil {
		t.Fatal(err)
	}
	if err := mirror.Seal(raid.Identity{Instance: "i1", Attempt: 1, Created: time.Unix(0, 0)}, mib); err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		zeroed, err := wipe.Metadata(t.Context(), members[i])
		if err != nil {
			t.Fatal(err)
		}
		// 5 MiB at the start, the last MiB of array and disk, and btrfs's copy.
		if want := int64(7*mib + 4096); mirror.Size() != 199*mib || zeroed != want {
			t.Errorf("%d bytes zeroed of an array of %d, want %d", zeroed, mirror.Size(), want)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := raid.Find(bytes.NewReader(b), size); len(found) > 0 || bytes.Contains(b, []byte("EFI PART")) {
			t.Errorf("disk %d still shows %+v, or a partition table", i, found)
		}
	}
}

// superblock12 is the superblock of a RAID 1 member with metadata 1.2, whose content starts at
// that offset (drivers/md/md.c, struct mdp_superblock_1).
func superblock12(dataOffset, dataBytes int64) []byte {
	b := make([]byte, 1024)
	le := binary.LittleEndian
	le.PutUint32(b[0:], 0xa92b4efc)
	le.PutUint32(b[4:], 1)
	le.PutUint32(b[72:], 1)
	le.PutUint64(b[80:], uint64(dataBytes/512))
	le.PutUint32(b[92:], 2)
	le.PutUint64(b[128:], uint64(dataOffset/512))
	le.PutUint64(b[136:], uint64(dataBytes/512))
	le.PutUint64(b[144:], 4096/512)
	le.PutUint64(b[200:], 1)
	le.PutUint32(b[220:], 384)
	var sum uint64
	for i := 0; i < len(b); i += 4 {
		sum += uint64(le.Uint32(b[i:]))
	}
	le.PutUint32(b[216:], uint32(sum)+uint32(sum>>32))
	return b
}

// The file system of an array is far from the superblock, which an interrupted wipe keeps
// until the file system is removed.
func TestMetadataRemovesArrayContent(t *testing.T) {
	for name, c := range map[string]struct {
		lay    func(*testing.T, *os.File)
		member int64
	}{
		"on the disk":            {lay: func(*testing.T, *os.File) {}},
		"in a partition":         {lay: func(t *testing.T, f *os.File) { withGPT(t, f, 512) }, member: 80 * mib},
		"in a logical partition": {lay: func(t *testing.T, f *os.File) { withMBR(t, f, 512) }, member: 21 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			f, path := newDisk(t)
			c.lay(t, f)
			const dataOffset, dataBytes = 16 * mib, 50 * mib
			from := c.member + dataOffset
			signs := append(inPartition("the array", from, dataBytes), planted{"its superblock", c.member + 4096, string(superblock12(dataOffset, dataBytes))})
			for _, s := range signs {
				put(t, f, s.off, []byte(s.data))
			}
			content := []byte("content is not touched")
			put(t, f, from+6*mib, content)
			for budget := 0; ; budget++ {
				if _, err := wipe.Metadata(t.Context(), &limited{Device: open(t, path), budget: budget}); err == nil {
					break
				}
				if budget > 50 {
					t.Fatal("never done")
				}
			}
			for _, s := range signs {
				if s.off < from+dataBytes && !block.IsZero(read(t, f, s.off, len(s.data))) {
					t.Errorf("%s is still there", s.name)
				}
			}
			if got := read(t, f, from+6*mib, len(content)); !bytes.Equal(got, content) {
				t.Error("content away from any signature was removed")
			}
		})
	}
}
