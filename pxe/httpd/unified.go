// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/script"
)

// unified answers with the unified kernel image while the host is to boot the agent.
// Otherwise there is none, and firmware goes on to its next boot device.
func (h *Handler) unified(w http.ResponseWriter, r *http.Request, macText string) {
	mac, err := net.ParseMAC(macText)
	if err != nil || len(mac) != 6 {
		http.Error(w, "not a MAC address", http.StatusNotFound)
		return
	}
	host, ok := h.Directory.Lookup(mac)
	if !ok || host.Plan.Kind != pxe.Agent || host.Plan.Agent.Way != pxe.ByHTTP || host.Plan.Agent.Unified == (pxe.File{}) {
		http.Error(w, "nothing to boot", http.StatusNotFound)
		return
	}
	file := host.Plan.Agent.Unified
	src, modTime, err := h.Files.Open(file)
	if err != nil {
		h.observe(r, mac, pxe.StageFailed, "unified kernel image: "+err.Error())
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	defer func() { _ = src.Close() }()
	// Not immutable: the address stays the same when the image changes.
	h.content(w, r, src, content{tag: file.SHA256, modTime: modTime, mac: mac, stage: pxe.StageFile, label: file.Name})
}

// disc answers a BMC with the CD image that its ticket is for. The image holds the
// boot token, made anew for each request: a server's self-test may outlast a token, and
// whoever reads that part of the image boots soon. It has no validator, so that nobody
// puts the pieces of two images together for the same.
func (h *Handler) disc(w http.ResponseWriter, r *http.Request, ticket string) {
	host, ok := h.Discs.Disc(ticket)
	if !ok {
		http.Error(w, "no such image", http.StatusNotFound)
		return
	}
	text, err := script.Arguments(host, h.BaseURL)
	if err != nil {
		h.observe(r, host.MAC, pxe.StageFailed, "CD image: "+err.Error())
		http.Error(w, "the CD image cannot be made", http.StatusInternalServerError)
		return
	}
	src, err := h.Disc.Image([]byte(text))
	if err != nil {
		h.observe(r, host.MAC, pxe.StageFailed, "CD image: "+err.Error())
		http.Error(w, "the CD image cannot be made", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Cache-Control", "no-store")
	if from := r.Header.Get("Range"); r.Method == http.MethodGet && (from == "" || strings.HasPrefix(from, "bytes=0-")) {
		h.observe(r, host.MAC, pxe.StageFile, "agent.iso") // once, however many pieces are read
	}
	http.ServeContent(w, r, "", time.Time{}, src)
}
