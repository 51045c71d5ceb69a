// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/binary"
	"fmt"

	"github.com/ingot-metal/ingot/agent/block"
)

// gptMagic starts the header of a GPT, in a disk's second sector (UEFI 2.10, section 5.3).
// gptSeen is the length of an image that suffices to detect it.
const (
	gptMagic = "EFI PART"
	gptSeen  = 4096 + len(gptMagic)
)

// checkSectors refuses an image whose partition table is for another sector size than the
// disk's: neither kernel nor firmware would find its partitions. size is that of the decoded
// image in bytes, negative if unknown. Images without a table, or with tables for both
// sizes, pass.
func checkSectors(dev block.Device, head []byte, size int64) error {
	disk := block.SectorSize(dev)
	other := map[int]int{512: 4096, 4096: 512}[disk]
	if other == 0 || hasGPT(head, disk) || !hasGPT(head, other) && !isMBRFor512Only(head, disk, size) {
		return nil
	}
	return fmt.Errorf("%w: its partition table has sectors of %d bytes, the disk has %d; "+
		"select another disk by rootDeviceHints or hostSelector, or build the image for sectors of %[3]d",
		ErrSectors, other, disk)
}

func hasGPT(head []byte, sector int) bool {
	return len(head) >= sector+len(gptMagic) && string(head[sector:sector+len(gptMagic)]) == gptMagic
}

// isMBRFor512Only reports whether the partitions of an MBR fit into the image only if sectors
// have 512 bytes, but the disk has 4096. An MBR does not state its sector size. Sizes cannot
// detect the reverse case, an MBR for 4096 on a disk with 512.
func isMBRFor512Only(head []byte, disk int, size int64) bool {
	if disk != 4096 || size < 0 || len(head) < 512 || head[510] != 0x55 || head[511] != 0xaa {
		return false
	}
	var end int64 // of the last partition, in sectors
	for entry := head[446:510]; len(entry) > 0; entry = entry[16:] {
		if entry[4] != 0 {
			end = max(end, int64(binary.LittleEndian.Uint32(entry[8:]))+int64(binary.LittleEndian.Uint32(entry[12:])))
		}
	}
	return end*512 <= size && end*4096 > size
}
