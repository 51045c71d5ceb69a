// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/ttlset"
	"github.com/ingot-metal/ingot/pxe"
)

// This file keeps clients from asking the directory: that looks at every claim that names an
// image, and each of the servers behind these claims asks for it every few seconds.

// namedFor is how long an image counts as named after the directory has named it. An image
// that a client has begun to read is given to the end, however long that takes.
const namedFor = 2 * time.Second

// names remembers which images the directory has named a moment ago. What it does not name is
// not remembered: it knows that without looking at a claim, there is no end of such checksums,
// and an agent that hears 404 gives up, also when the claim has come in between.
type names struct {
	directory pxe.ImageDirectory
	now       func() time.Time

	// mu is held while the directory answers, from memory: of all who ask at once one waits
	// for it, and the others for that one.
	mu sync.Mutex
	// namespaces are those of an image, by checksum.
	namespaces ttlset.Map[string, []string]
}

// source is what the directory says now.
func (n *names) source(checksum string) (pxe.ImageSource, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ask(checksum)
}

// lately reports whether the directory names the image, or did less than namedFor ago, and for
// which namespaces.
func (n *names) lately(checksum string) (namespaces []string, named bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if namespaces, _, ok := n.namespaces.Get(checksum, n.now()); ok {
		return namespaces, true
	}
	source, ok := n.ask(checksum)
	return source.Namespaces, ok
}

func (n *names) ask(checksum string) (pxe.ImageSource, bool) {
	source, ok := n.directory.Image(checksum)
	if !ok || source.Checksum != checksum {
		n.namespaces.Delete(checksum)
		return pxe.ImageSource{}, false
	}
	n.namespaces.Put(checksum, source.Namespaces, n.now(), namedFor)
	return source, true
}
