// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/raid"
	"github.com/ingot-metal/ingot/agent/wipe"
)

// A member of a mirror: the superblock goes, and the second partition table, which lies
// where the array ends and the disk does not.
func TestMetadataOfAMirror(t *testing.T) {
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
		// 5 MiB at the beginning, the last of the array and of the disk, and btrfs's copy.
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
