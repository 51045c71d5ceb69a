// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe"
)

// Image returns where the image, or the file of a live system, with this checksum comes
// from, if the claim of a host names it: nothing else is ever fetched. Claims may name
// several places, since machines keep the one that they were made with: those of hosts at
// work come first, the youngest order before the others.
//
// It costs a look at each of these claims, so that whoever asks for many clients remembers
// the answer for a moment.
func (d *Directory) Image(checksum string) (pxe.ImageSource, bool) {
	hosts, err := d.objects.naming(context.Background(), checksum) // the cache neither blocks nor calls out
	if err != nil {
		d.Log.Error(err, "Could not look up an image", "checksum", checksum)
		return pxe.ImageSource{}, false
	}
	places := placesOf(hosts, checksum)
	if len(places) == 0 {
		return pxe.ImageSource{}, false
	}
	return pxe.ImageSource{URL: places[0], Mirrors: places[1:], Checksum: checksum}, true
}

// need is how much a place is needed: by a host at work, and since when.
type need struct {
	working bool
	since   time.Time
}

func (a need) compare(b need) int {
	if a.working != b.working {
		if a.working {
			return 1
		}
		return -1
	}
	return a.since.Compare(b.since)
}

// placesOf are the distinct URLs that claims name for a checksum, the one that is needed
// most first.
func placesOf(hosts iter.Seq[*infrav1.IngotHost], checksum string) []string {
	needs := map[string]need{}
	for host := range hosts {
		claim := host.Spec.Claim
		if claim == nil {
			continue
		}
		url, named := claim.FileURL(checksum)
		if !named {
			continue
		}
		n := need{working: claim.State == infrav1.ClaimProvisioning}
		if order := host.Spec.Order; order != nil {
			n.since = order.CreatedAt.Time
		}
		if known, there := needs[url]; !there || n.compare(known) > 0 {
			needs[url] = n
		}
	}
	return slices.SortedFunc(maps.Keys(needs), func(a, b string) int {
		return cmp.Or(needs[b].compare(needs[a]), cmp.Compare(a, b))
	})
}
