// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/ingot-metal/ingot/lab/bmc/update"
)

// flash is one installation of firmware.
type flash struct {
	// component and version of the uploaded image; empty: none.
	component, version string
	// locked reports that the board is in flash mode, running that it writes.
	locked, running bool
	percent         int
	// waits for the restart that activates the firmware.
	waits bool
}

// serveFlash answers the programs that install firmware.
func (s *Service) serveFlash(w http.ResponseWriter, r *http.Request, name string) string {
	if s.Uploads(r) {
		return s.upload(w, r)
	}
	f := form(r)
	switch name {
	case "ipmi.cgi":
		s.ipmi(w, f)
	case "op.cgi":
		return s.op(w, f)
	case "upgrade_process.cgi":
		s.process(w, f)
	default:
		http.NotFound(w, r)
	}
	return ""
}

// ipmi is the program that most of the interface uses.
func (s *Service) ipmi(w http.ResponseWriter, f map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f["op"] {
	case "FRU_INFO.XML":
		answerXML(w, `<FRU_INFO RES="1"><BOARD LAN="0" MFC_NAME="Supermicro" PROD_NAME="" SERIAL_NUM=%q PART_NUM=%q/></FRU_INFO>`, s.cfg.Serial, s.cfg.Board)
	case "COMPONENT_UPDATE_MISC.XML":
		switch {
		case s.flash.waits && s.cfg.Update.Version(s.flash.component) != s.flash.version:
			answerXML(w, `<MISC_INFO RES="0" SYSOFF="1"/>`)
		case s.flash.locked:
			answerXML(w, `<MISC_INFO RES="0" SYSOFF="0"/>`)
		default:
			answerXML(w, `<MISC_INFO RES="-1" SYSOFF="0"/>`)
		}
	case "BIOS_UPLOAD.XML", "LOCK_UPLOAD_FW.XML":
		if s.flash.locked {
			answerXML(w, `<LOCK_FW_UPLOAD RES="0"/>`)
			return
		}
		s.flash = flash{locked: true}
		answerXML(w, `<LOCK_FW_UPLOAD RES="1"/>`)
	case "BIOS_UPDATE_START.XML", "BIOS_UPDATE_DONE.XML":
		w.WriteHeader(http.StatusInternalServerError) // also on success
	case "BIOS_UPDATE_CHECK.XML":
		answerXML(w, `<BIOS_UPDATE_CHECK RES="%s"/>`, map[bool]string{true: "00", false: "01"}[s.flash.component == update.BIOS])
	case "BIOS_REV.XML":
		answerXML(w, `<BIOS_Rev OldRev=%q NewRev=%q/>`, s.cfg.Update.Version(update.BIOS), s.flash.version)
	case "BIOS_OPTION.XML":
		answerXML(w, `<BIOS_OP Res="0"/>`)
	case "UPLOAD_FW_VERSION.XML":
		if s.flash.component != update.BMC {
			answerXML(w, `<FW_VERSION RES="0"/>`)
			return
		}
		answerXML(w, `<FW_VERSION NEW=%q OLD=%q/>`, s.flash.version, s.cfg.Update.Version(update.BMC))
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// upload reads an image in flash mode.
func (s *Service) upload(w http.ResponseWriter, r *http.Request) string {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return ""
	}
	field := map[string]string{prefix + "bios_upload.cgi": "bios_rom", prefix + "oem_firmware_upload.cgi": "fw_image"}[r.URL.Path]
	for parts := multipart.NewReader(r.Body, params["boundary"]); ; {
		part, err := parts.NextPart()
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return ""
		}
		if part.FormName() != field {
			continue
		}
		component, version, err := s.cfg.Update.Take(part)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil || !s.flash.locked || s.flash.running {
			w.WriteHeader(http.StatusBadRequest)
			return ""
		}
		s.flash.component, s.flash.version = component, version
		_, _ = io.WriteString(w, "ok")
		return "Upload " + component
	}
}

// op starts the installation.
func (s *Service) op(w http.ResponseWriter, f map[string]string) string {
	component, known := map[string]string{"main_biosupdate": update.BIOS, "main_fwupdate": update.BMC}[f["op"]]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !known || s.flash.component != component || s.flash.running {
		w.WriteHeader(http.StatusBadRequest)
		return ""
	}
	s.flash.running = true
	page(w, "ok")
	return "Flash " + component
}

// process shows the progress, one third with each request. After that, the next restart of the
// system or BMC activates the firmware.
func (s *Service) process(w http.ResponseWriter, f map[string]string) {
	component := map[string]string{"0": update.BMC, "1": update.BIOS}[f["fwtype"]]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flash.component != component || !s.flash.running {
		answerXML(w, `<percent>0</percent><status>0</status>`)
		return
	}
	if s.flash.percent += 34; s.flash.percent < 100 {
		answerXML(w, `<percent>%d</percent><status>8</status>`, s.flash.percent)
		return
	}
	if !s.flash.waits {
		s.flash.waits, s.flash.locked = true, false
		s.cfg.Update.Stage(component, s.flash.version)
	}
	s.flash.percent = 100
	if s.cfg.Update.Version(component) == s.flash.version {
		s.flash.running = false
		answerXML(w, `<percent>0</percent><status>0</status>`)
		return
	}
	answerXML(w, `<percent>100</percent><status>0</status>`)
}
