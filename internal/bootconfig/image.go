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

// Image returns the sources of the image, or file of a live system, with this checksum. It returns
// false unless a host's claim names the checksum: Ingot fetches nothing else. Claims may name several
// URLs, since machines keep the URL that they were created with. The URLs of hosts that are being
// provisioned come first, the latest order before earlier ones.
//
// The cost grows with the number of these claims: callers with many clients should cache the answer.
func (d *Directory) Image(checksum string) (pxe.ImageSource, bool) {
	hosts, err := d.objects.hostsByFile(context.Background(), checksum) // the cache neither blocks nor calls out
	if err != nil {
		d.Log.Error(err, "Could not look up an image", "checksum", checksum)
		return pxe.ImageSource{}, false
	}
	urls, namespaces := sourcesOf(hosts, checksum)
	if len(urls) == 0 {
		return pxe.ImageSource{}, false
	}
	return pxe.ImageSource{URL: urls[0], Mirrors: urls[1:], Checksum: checksum, Namespaces: namespaces}, true
}

// priority of a URL: whether a host that is being provisioned needs it, and since when.
type priority struct {
	provisioning bool
	since        time.Time
}

func (a priority) compare(b priority) int {
	if a.provisioning != b.provisioning {
		if a.provisioning {
			return 1
		}
		return -1
	}
	return a.since.Compare(b.since)
}

// sourcesOf returns the distinct URLs that claims name for a checksum, and the namespaces of these
// claims, sorted. Namespaces take turns: the first URL has the highest priority, the next one the
// highest priority in another namespace, and so on. A namespace with many URLs does not delay others.
func sourcesOf(hosts iter.Seq[*infrav1.IngotHost], checksum string) (urls, namespaces []string) {
	priorities := map[string]map[string]priority{} // by namespace and URL
	for host := range hosts {
		claim := host.Spec.Claim
		if claim == nil {
			continue
		}
		url, found := claim.FileURL(checksum)
		if !found {
			continue
		}
		p := priority{provisioning: claim.State == infrav1.ClaimProvisioning}
		if order := host.Spec.Order; order != nil {
			p.since = order.CreationTime.Time
		}
		if priorities[host.Namespace] == nil {
			priorities[host.Namespace] = map[string]priority{}
		}
		if known, found := priorities[host.Namespace][url]; !found || p.compare(known) > 0 {
			priorities[host.Namespace][url] = p
		}
	}
	type source struct {
		url      string
		turn     int
		priority priority
	}
	var all []source
	for _, byURL := range priorities {
		sorted := slices.SortedFunc(maps.Keys(byURL), func(a, b string) int {
			return cmp.Or(byURL[b].compare(byURL[a]), cmp.Compare(a, b))
		})
		for turn, url := range sorted {
			all = append(all, source{url, turn, byURL[url]})
		}
	}
	slices.SortFunc(all, func(a, b source) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), b.priority.compare(a.priority), cmp.Compare(a.url, b.url))
	})
	for _, n := range all {
		if !slices.Contains(urls, n.url) {
			urls = append(urls, n.url)
		}
	}
	return urls, slices.Sorted(maps.Keys(priorities))
}
