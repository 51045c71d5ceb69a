// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/ttlset"
	"github.com/ingot-metal/ingot/pxe"
)

// This file caches the directory's answers. The directory looks at every claim that names an
// image, and each server of these claims asks for the image every few seconds.
// referenceTTL is how long the directory's answer is cached. A started download is not affected.
const referenceTTL = 2 * time.Second

// referenceCache caches which images the directory names. Negative answers are not cached: they are
// cheap for the directory, unknown checksums are unlimited, and an agent gives up after a 404,
// which must not hide a claim that was created meanwhile.
type referenceCache struct {
	directory pxe.ImageDirectory
	now       func() time.Time

	// mu is held while the directory answers, so that concurrent requests cause one lookup.
	mu         sync.Mutex
	namespaces ttlset.Map[string, []string]
}

func (n *referenceCache) source(checksum string) (pxe.ImageSource, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lookup(checksum)
}

// recent reports whether the directory names the image, or did less than referenceTTL ago, and
// returns the namespaces.
func (n *referenceCache) recent(checksum string) (namespaces []string, named bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if namespaces, _, ok := n.namespaces.Get(checksum, n.now()); ok {
		return namespaces, true
	}
	source, ok := n.lookup(checksum)
	return source.Namespaces, ok
}

func (n *referenceCache) lookup(checksum string) (pxe.ImageSource, bool) {
	source, ok := n.directory.Image(checksum)
	if !ok || source.Checksum != checksum {
		n.namespaces.Delete(checksum)
		return pxe.ImageSource{}, false
	}
	n.namespaces.Put(checksum, source.Namespaces, n.now(), referenceTTL)
	return source, true
}
