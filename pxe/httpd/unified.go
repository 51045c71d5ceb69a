// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/script"
)

// unified serves the unified kernel image while the host is to boot the agent. After a 404 the
// firmware tries its next boot device.
func (h *Handler) unified(w http.ResponseWriter, r *http.Request, mac net.HardwareAddr) {
	host, ok := h.Directory.Lookup(mac)
	if !ok || host.Plan.Kind != pxe.Agent || host.Plan.Agent.Method != pxe.BootHTTP || host.Plan.Agent.Unified == (pxe.File{}) {
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
	// Not immutable: the content of the URL changes with the image.
	h.content(w, r, src, content{tag: file.SHA256, modTime: modTime, mac: mac, stage: pxe.StageFile, label: file.Name})
}

// virtualMedia serves the CD image of a media token to a BMC. The image has a new boot token for each
// request: the server's self-test may outlast a token, and the part with the token is read
// right before the boot. There is no ETag, so that no client combines parts of two images.
func (h *Handler) virtualMedia(w http.ResponseWriter, r *http.Request, mediaToken string) {
	host, ok := h.MediaDirectory.HostByToken(mediaToken)
	if !ok {
		http.Error(w, "no such image", http.StatusNotFound)
		return
	}
	text, err := script.Arguments(host, h.BaseURL)
	var src io.ReadSeeker
	if err == nil {
		src, err = h.MediaTemplate.Image([]byte(text))
	}
	if err != nil {
		h.observe(r, host.MAC, pxe.StageFailed, "CD image: "+err.Error())
		http.Error(w, "cannot make the CD image", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Cache-Control", "no-store")
	if from := r.Header.Get("Range"); r.Method == http.MethodGet && (from == "" || strings.HasPrefix(from, "bytes=0-")) {
		h.observe(r, host.MAC, pxe.StageFile, "agent.iso") // once per boot, although BMCs read many ranges
	}
	http.ServeContent(w, r, "", time.Time{}, src)
}
