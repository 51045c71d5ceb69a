// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

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
	places, namespaces := placesOf(hosts, checksum)
	if len(places) == 0 {
		return pxe.ImageSource{}, false
	}
	return pxe.ImageSource{URL: places[0], Mirrors: places[1:], Checksum: checksum, Namespaces: namespaces}, true
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

// placesOf are the distinct URLs that claims name for a checksum, and the namespaces of these
// claims, sorted. The first URL is the one that is needed most, the next the one that another
// namespace needs most, and so on in turns: many that one namespace names do not come before
// that of another.
func placesOf(hosts iter.Seq[*infrav1.IngotHost], checksum string) (urls, namespaces []string) {
	needs := map[string]map[string]need{} // by namespace and URL
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
		if needs[host.Namespace] == nil {
			needs[host.Namespace] = map[string]need{}
		}
		if known, there := needs[host.Namespace][url]; !there || n.compare(known) > 0 {
			needs[host.Namespace][url] = n
		}
	}
	type named struct {
		url  string
		turn int
		need need
	}
	var all []named
	for _, wants := range needs {
		sorted := slices.SortedFunc(maps.Keys(wants), func(a, b string) int {
			return cmp.Or(wants[b].compare(wants[a]), cmp.Compare(a, b))
		})
		for turn, url := range sorted {
			all = append(all, named{url, turn, wants[url]})
		}
	}
	slices.SortFunc(all, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), b.need.compare(a.need), cmp.Compare(a.url, b.url))
	})
	for _, n := range all {
		if !slices.Contains(urls, n.url) {
			urls = append(urls, n.url)
		}
	}
	return urls, slices.Sorted(maps.Keys(needs))
}
