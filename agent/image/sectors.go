// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"

	"github.com/ingot-metal/ingot/agent/block"
)

// gptMagic begins the header of a GPT, which lies in a disk's second sector (UEFI 2.10,
// section 5.3). gptSeen is how much of an image shows whether it is there.
const (
	gptMagic = "EFI PART"
	gptSeen  = 4096 + len(gptMagic)
)

// checkSectors refuses an image with a GPT for sectors of another size than the disk's: no
// kernel and no firmware finds a partition by it. Nothing is said of an image without one,
// nor of one with both.
func checkSectors(dev block.Device, head []byte) error {
	at := func(sector int) bool {
		return len(head) >= sector+len(gptMagic) && string(head[sector:sector+len(gptMagic)]) == gptMagic
	}
	other := map[int]int{512: 4096, 4096: 512}
	if size := block.SectorSize(dev); !at(size) && other[size] > 0 && at(other[size]) {
		return fmt.Errorf("%w: the image's partition table is for sectors of %d bytes, and the disk has sectors of %d; "+
			"choose a disk with sectors of %[2]d by rootDeviceHints or a hostSelector, or make the image for sectors of %[3]d",
			ErrSectors, other[size], size)
	}
	return nil
}
