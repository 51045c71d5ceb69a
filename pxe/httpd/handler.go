// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/script"
)

const (
	// retryAfter is how soon a client should ask again for an image that is
	// being fetched.
	retryAfter = 2 * time.Second
	// slowest is the rate in bytes per second below which a client may lose
	// its connection; grace comes on top, for the first bytes.
	slowest = 64 << 10
	grace   = time.Minute
)

// Handler answers the boot server's paths. It does its own routing, because
// http.ServeMux redirects paths with two slashes, which shim asks for and
// cannot follow (field notes).
type Handler struct {
	// BaseURL is what scripts call this server, http://host:port.
	BaseURL   string
	Directory pxe.Directory
	// Files are the kernels and initramfs images. Required.
	Files *pxe.Files
	// Images may be nil: then there are none.
	Images *ImageCache
	// Observer and Log may be nil.
	Observer pxe.Observer
	Log      *slog.Logger
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	part := strings.Split(strings.TrimLeft(r.URL.Path, "/"), "/")
	switch {
	case len(part) == 3 && part[0] == "boot" && part[2] == "script.ipxe":
		h.script(w, r, part[1])
	case len(part) == 3 && part[0] == "files":
		h.file(w, r, pxe.File{SHA256: part[1], Name: part[2]})
	case len(part) == 2 && part[0] == "images" && h.Images != nil:
		h.image(w, r, part[1])
	default:
		http.Error(w, "no such path", http.StatusNotFound)
	}
}

// script answers with what the host boots now. The text holds the boot token,
// so it is neither cached nor logged.
func (h *Handler) script(w http.ResponseWriter, r *http.Request, macText string) {
	mac, err := net.ParseMAC(macText)
	if err != nil || len(mac) != 6 {
		http.Error(w, "not a MAC address", http.StatusNotFound)
		return
	}
	host, ok := h.Directory.Lookup(mac)
	if !ok {
		http.Error(w, "unknown host", http.StatusNotFound)
		return
	}
	text, err := script.Render(host, h.BaseURL)
	switch {
	case errors.Is(err, script.ErrNoScript):
		http.Error(w, "nothing to boot", http.StatusNotFound)
		return
	case err != nil:
		h.observe(r, mac, pxe.StageFailed, "boot script: "+err.Error())
		http.Error(w, "the boot script cannot be made", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	// iPXE wants to know the length (field notes); net/http only sets it by
	// itself for short bodies.
	header.Set("Content-Length", strconv.Itoa(len(text)))
	if r.Method == http.MethodHead {
		return
	}
	h.observe(r, mac, pxe.StageScript, host.Plan.Kind.String())
	if _, err := w.Write([]byte(text)); err != nil {
		h.log().Debug("boot script not sent", "mac", mac, "error", err)
	}
}

func (h *Handler) file(w http.ResponseWriter, r *http.Request, file pxe.File) {
	src, modTime, err := h.Files.Open(file)
	if err != nil {
		h.observe(r, nil, pxe.StageFailed, fmt.Sprintf("HTTP file %q: %v", file.Name, err))
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	h.content(w, r, src, content{digest: file.SHA256, modTime: modTime, stage: pxe.StageFile, label: file.Name})
}

func (h *Handler) image(w http.ResponseWriter, r *http.Request, digest string) {
	checksum, err := checksumOf(digest)
	if err != nil {
		http.Error(w, "not a SHA-256 or SHA-512 digest", http.StatusNotFound)
		return
	}
	src, modTime, err := h.Images.Open(checksum)
	switch {
	case errors.Is(err, ErrUnknownImage):
		http.Error(w, "unknown image", http.StatusNotFound)
	case errors.Is(err, ErrFetching):
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		http.Error(w, "the image is being fetched", http.StatusServiceUnavailable)
	case err != nil:
		h.observe(r, nil, pxe.StageFailed, fmt.Sprintf("image %s: %v", checksum, err))
		http.Error(w, err.Error(), http.StatusBadGateway)
	default:
		h.content(w, r, src, content{digest: digest, modTime: modTime, stage: pxe.StageImage, label: checksum})
	}
}

// content describes a file to be sent, which its digest names for ever.
type content struct {
	digest  string
	modTime time.Time
	stage   pxe.Stage
	label   string
}

// content sends a file, with ranges, ETag and HEAD as http.ServeContent does
// them, and closes it.
func (h *Handler) content(w http.ResponseWriter, r *http.Request, src *os.File, c content) {
	defer func() { _ = src.Close() }()
	info, err := src.Stat()
	if err != nil {
		http.Error(w, "cannot be read", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("ETag", `"`+c.digest+`"`)
	header.Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.Method == http.MethodGet {
		h.observe(r, nil, c.stage, c.label)
	}
	limit := grace + time.Duration(info.Size()/slowest)*time.Second
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit)); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		h.log().Debug("no write deadline", "error", err)
	}
	http.ServeContent(w, r, "", c.modTime, src)
}

func (h *Handler) observe(r *http.Request, mac net.HardwareAddr, stage pxe.Stage, detail string) {
	if h.Observer == nil {
		return
	}
	e := pxe.BootEvent{MAC: mac, Stage: stage, Detail: detail, At: time.Now()}
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		e.Client = ap.Addr().Unmap()
	}
	h.Observer.Observe(e)
}

func (h *Handler) log() *slog.Logger {
	if h.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return h.Log
}
