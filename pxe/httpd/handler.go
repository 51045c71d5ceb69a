// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/media"
	"github.com/ingot-metal/ingot/pxe/script"
)

const bodyTimeout = 5 * time.Second

// Handler serves the boot server's paths. It does not use http.ServeMux, which redirects paths
// with double slashes: shim requests such paths and cannot follow redirects (field notes).
type Handler struct {
	// BaseURL is the URL of this server in scripts, http://host:port.
	BaseURL   string
	Directory pxe.Directory
	// Files are the kernels and initramfs images. Required.
	Files *pxe.Files
	// MediaDirectory finds the host of a CD image request, and Disc is the template of the image;
	// nil means no images.
	MediaDirectory pxe.MediaDirectory
	MediaTemplate  *media.Template
	// Images is the cache; nil means no OS images.
	Images *ImageCache
	// Loaders are served at the root, regular files only, for UEFI HTTP boot. It should be
	// an os.Root's; nil means none.
	Loaders fs.FS
	// AutoExec is served as autoexec.ipxe, which loaders request from their own directory;
	// empty means none.
	AutoExec string
	// Bindings are the addresses that DHCP showed on networks of mode Proxy; may be nil.
	Bindings *pxe.AddressBindings
	// Observer, Metrics and Log may be nil.
	Observer pxe.Observer
	Metrics  *Metrics
	Log      *slog.Logger
}

// ServeHTTP implements http.Handler. A panic ends this request only.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			h.log().Error("HTTP request panicked", "client", r.RemoteAddr, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			panic(http.ErrAbortHandler) // shows the client that the answer is incomplete
		}
	}()
	part := pathElements(r.URL.Path)
	w, ended := h.Metrics.measure(w, requestKind(part))
	defer ended()
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuseBody(w)
		http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
		return
	case r.Body != nil && r.Body != http.NoBody:
		refuseBody(w)
		http.Error(w, "a request body is not allowed", http.StatusBadRequest)
		return
	}
	switch {
	case len(part) == 3 && part[0] == "boot" && (part[2] == "script.ipxe" || part[2] == "agent.efi"):
		mac, err := net.ParseMAC(part[1])
		switch {
		case err != nil || len(mac) != 6:
			http.Error(w, "not a MAC address", http.StatusNotFound)
		case part[2] == "script.ipxe":
			h.script(w, r, mac)
		default:
			h.unified(w, r, mac)
		}
	case len(part) == 3 && part[0] == "media" && part[2] == "agent.iso" && h.MediaDirectory != nil:
		h.virtualMedia(w, r, part[1])
	case len(part) == 3 && part[0] == "files":
		h.file(w, r, pxe.File{SHA256: part[1], Name: part[2]})
	case len(part) == 2 && part[0] == "images" && h.Images != nil:
		h.image(w, r, part[1])
	case len(part) == 1 && part[0] == autoExec && h.AutoExec != "":
		h.text(w, r, h.AutoExec)
	case len(part) == 1 && h.Loaders != nil:
		h.loader(w, r, part[0])
	default:
		http.Error(w, "unknown path", http.StatusNotFound)
	}
}

const autoExec = "autoexec.ipxe"

// pathElements splits a path and ignores duplicate slashes, as in shim's //grubx64.efi.
func pathElements(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(e string) bool { return e == "" })
}

// refuseBody prevents net/http from waiting for the end of an unread request body.
func refuseBody(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
}

// script serves the host's boot script. The script contains the boot token, so it is neither
// cached nor logged.
func (h *Handler) script(w http.ResponseWriter, r *http.Request, mac net.HardwareAddr) {
	host, ok := h.lookup(r, mac)
	if !ok {
		http.Error(w, "unknown host", http.StatusNotFound)
		return
	}
	if from := client(r); host.Plan.NetworkBootKind() == pxe.Agent && !host.MayUseAddress(from, h.Bindings.At(from)) {
		h.observe(r, mac, pxe.StageSilent, fmt.Sprintf("boot script requested from %s, which is not a known address of the host", from))
		http.Error(w, "unknown address of the host", http.StatusNotFound)
		return
	}
	text, err := script.Render(host, h.BaseURL)
	switch {
	case errors.Is(err, script.ErrNoScript):
		http.Error(w, "nothing to boot", http.StatusNotFound)
		return
	case err != nil:
		h.observe(r, mac, pxe.StageFailed, "boot script: "+err.Error())
		http.Error(w, "cannot make the boot script", http.StatusInternalServerError)
		return
	}
	if r.Method == http.MethodGet {
		h.observe(r, mac, pxe.StageScript, host.Plan.NetworkBootKind().String())
	}
	h.text(w, r, text)
}

// lookup returns a host, or an unknown client at its leased address.
func (h *Handler) lookup(r *http.Request, mac net.HardwareAddr) (pxe.Host, bool) {
	if host, ok := h.Directory.Lookup(mac); ok {
		return host, true
	}
	discoverer, ok := h.Directory.(pxe.DiscoveryHandler)
	from := client(r)
	if !ok || !from.IsValid() {
		return pxe.Host{}, false
	}
	return discoverer.Discover(pxe.UnknownClient{MAC: mac, Client: from})
}

func (h *Handler) text(w http.ResponseWriter, r *http.Request, text string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	// iPXE needs the length (field notes), and net/http sets it only for short bodies.
	header.Set("Content-Length", strconv.Itoa(len(text)))
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write([]byte(text)); err != nil {
		h.log().Debug("Cannot send script", "client", r.RemoteAddr, "error", err)
	}
}

func (h *Handler) loader(w http.ResponseWriter, r *http.Request, name string) {
	src, info, err := openLoader(h.Loaders, name)
	if err != nil {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	defer func() { _ = src.Close() }()
	tag := fmt.Sprintf("%x-%x", info.Size(), info.ModTime().UnixNano())
	h.content(w, r, src, content{tag: tag, modTime: info.ModTime(), stage: pxe.StageLoader, label: name})
}

func openLoader(loaders fs.FS, name string) (*os.File, fs.FileInfo, error) {
	f, err := loaders.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if src, ok := f.(*os.File); ok && err == nil && info.Mode().IsRegular() {
		return src, info, nil
	}
	return nil, nil, errors.Join(fs.ErrNotExist, err, f.Close())
}

func (h *Handler) file(w http.ResponseWriter, r *http.Request, file pxe.File) {
	src, modTime, err := h.Files.Open(file)
	if err != nil {
		h.observe(r, nil, pxe.StageFailed, fmt.Sprintf("HTTP file %q: %v", file.Name, err))
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	defer func() { _ = src.Close() }()
	h.content(w, r, src, content{tag: file.SHA256, immutable: true, modTime: modTime, stage: pxe.StageFile, label: file.Name})
}

func (h *Handler) image(w http.ResponseWriter, r *http.Request, digest string) {
	checksum, err := checksumOf(digest)
	if err != nil {
		http.Error(w, "not a SHA-256 or SHA-512 digest", http.StatusNotFound)
		return
	}
	src, err := h.Images.Open(checksum)
	fetching, waits := errors.AsType[*FetchingError](err)
	switch {
	case errors.Is(err, ErrUnknownImage):
		http.Error(w, "unknown image", http.StatusNotFound)
	case waits:
		if fetching.Last != nil {
			w.Header().Set(agentapi.HeaderImageProblem, fetching.Last.Error())
		}
		setRetryAfter(w.Header(), fetchRetryTime(fetching.Since))
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case errors.Is(err, ErrCacheFull):
		h.observe(r, nil, pxe.StageFailed, fmt.Sprintf("image %s: %v", checksum, err))
		w.Header().Set(agentapi.HeaderImageProblem, err.Error())
		setRetryAfter(w.Header(), retryFullCache)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		h.observe(r, nil, pxe.StageFailed, fmt.Sprintf("image %s: %v", checksum, err))
		w.Header().Set(agentapi.HeaderImageProblem, err.Error())
		http.Error(w, err.Error(), http.StatusBadGateway)
	default:
		defer func() { _ = src.Close() }()
		h.content(w, r, src.File, content{tag: digest, immutable: true, modTime: src.Fetched, stage: pxe.StageImage, label: checksum})
	}
}

type content struct {
	// tag is the ETag. immutable means that it is a digest, so that the content of the URL
	// never changes.
	tag       string
	immutable bool
	modTime   time.Time
	mac       net.HardwareAddr
	stage     pxe.Stage
	label     string
}

// content serves a file with ranges, ETag and HEAD. It needs the os.File itself, so that the
// kernel sends the file without copying (sendfile).
func (h *Handler) content(w http.ResponseWriter, r *http.Request, src *os.File, c content) {
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("ETag", `"`+c.tag+`"`)
	if c.immutable {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Method == http.MethodGet {
		h.observe(r, c.mac, c.stage, c.label)
	}
	http.ServeContent(w, r, "", c.modTime, src)
}

func (h *Handler) observe(r *http.Request, mac net.HardwareAddr, stage pxe.Stage, detail string) {
	if h.Observer == nil {
		return
	}
	h.Observer.Observe(pxe.BootEvent{MAC: mac, Client: client(r), Stage: stage, Detail: detail, At: time.Now()})
}

// client returns the source address of a request, or the zero Addr.
func client(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return from.Addr().Unmap().WithZone("")
}

func (h *Handler) log() *slog.Logger { return cmp.Or(h.Log, discard) }

var discard = slog.New(slog.DiscardHandler)
