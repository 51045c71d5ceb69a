// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendorbmc

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/ingot-metal/ingot/lab/bmc/machine"
	"github.com/ingot-metal/ingot/lab/bmc/update"
)

const (
	asrockCookie = "QSESSIONID"
	asrockToken  = "X-CSRFTOKEN"
	// asrockModel is a board that bmclib knows.
	asrockModel = "E3C246D4I-NL"
)

// ASRockRack is an ASRock Rack board with the HTTP API of its web interface.
type ASRockRack struct {
	*Server
	board *asrock
}

// StartASRockRack starts the BMC of a board.
func StartASRockRack(cfg Config) (*ASRockRack, error) {
	a := &asrock{cfg: cfg, tokens: map[string]string{}, versions: map[string]string{update.BIOS: "L2.07B", update.BMC: "0.03.00"}}
	s, err := start(cfg, a)
	if err != nil {
		return nil, err
	}
	return &ASRockRack{Server: s, board: a}, nil
}

// Sessions counts the open sessions.
func (r *ASRockRack) Sessions() int {
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	return len(r.board.tokens)
}

// Version returns the active version of a component.
func (r *ASRockRack) Version(component string) string {
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	return r.board.versions[component]
}

// Resets counts the restarts of the BMC.
func (r *ASRockRack) Resets() int {
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	return r.board.resets
}

type asrock struct {
	cfg Config

	mu       sync.Mutex
	tokens   map[string]string // CSRF tokens by cookie
	versions map[string]string
	resets   int
	// flashMode is required before a BMC image; staged is the component of an image, coming its
	// version; percent is the progress while writing.
	flashMode      bool
	staged, coming string
	writing        bool
	percent        int
}

func (a *asrock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := "/" + strings.TrimLeft(r.URL.Path, "/") // scripts sometimes send two slashes
	if path == "/api/session" && r.Method == http.MethodPost {
		a.login(w, r)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	cookie, err := r.Cookie(asrockCookie)
	if err != nil || a.tokens[cookie.Value] == "" || a.tokens[cookie.Value] != r.Header.Get(asrockToken) {
		a.say(w, http.StatusUnauthorized, map[string]any{"code": 1001, "error": "Invalid Authentication"})
		return
	}
	switch r.Method + " " + path {
	case "DELETE /api/session":
		delete(a.tokens, cookie.Value)
		a.say(w, http.StatusOK, map[string]any{"ok": 0})
	case "POST /api/actions/power":
		a.power(w, r)
	case "POST /api/maintenance/reset":
		a.resets++
		clear(a.tokens)
		a.flashMode, a.writing = false, false
		a.say(w, http.StatusOK, map[string]any{})
	default:
		if !a.serveFlash(w, r, path) && !a.read(w, r, path) {
			http.NotFound(w, r)
		}
	}
}

func (a *asrock) say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // into memory
}

func (a *asrock) login(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // bounded by Server
	form, err := url.ParseQuery(string(body))
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil || form.Get("username") != a.cfg.Username || form.Get("password") != a.cfg.Password {
		a.say(w, http.StatusUnauthorized, map[string]any{"code": 14001, "error": "login failed for " + form.Get("password")}) // boards repeat the credentials
		return
	}
	sid, token := rand.Text(), rand.Text()
	a.tokens[sid] = token
	http.SetCookie(w, &http.Cookie{Name: asrockCookie, Value: sid, Path: "/", Secure: true, HttpOnly: true})
	a.say(w, http.StatusOK, map[string]any{"ok": 0, "privilege": 4, "racsession_id": len(a.tokens), "CSRFToken": token, "csrftoken": token})
}

// read answers reads. The lock is held.
func (a *asrock) read(w http.ResponseWriter, r *http.Request, path string) bool {
	if r.Method != http.MethodGet {
		return false
	}
	switch path {
	case "/api/chassis-status":
		status := 0
		if a.cfg.Machine.Powered() {
			status = 1
		}
		a.say(w, http.StatusOK, map[string]any{"power_status": status, "led_status": 0})
	case "/api/fru":
		board := map[string]any{"version": 1, "manufacturer": "ASRockRack", "product_name": asrockModel, "serial_number": "SER123", "part_number": "P1"}
		a.say(w, http.StatusOK, []any{map[string]any{"device": map[string]any{"id": 0}, "board": board, "product": board}})
	case "/api/asrr/fw-info":
		a.say(w, http.StatusOK, map[string]any{
			"BMC_fw_version": a.versions[update.BMC], "BIOS_fw_version": a.versions[update.BIOS], "ME_fw_version": "5.1.3.78",
			"Micro_Code_version": "000000ca", "CPLD_version": "N/A", "Node_id": "2",
		})
	case "/api/asrr/inventory_info":
		a.say(w, http.StatusOK, []any{map[string]any{"device_id": 1, "device_name": "CPU1", "device_type": "CPU", "product_manufacturer_name": "Intel", "product_name": "Xeon"}})
	case "/api/sensors":
		a.say(w, http.StatusOK, []any{map[string]any{"id": 1, "name": "MB Temp", "sensor_state": 1, "reading": 30}})
	case "/api/asrr/getbioscode":
		a.say(w, http.StatusOK, map[string]any{"poststatus": 1, "postdata": 160})
	default:
		return false
	}
	return true
}

// power executes power_command: 0 off, 1 on, 2 cycle, 3 reset, 5 shutdown.
func (a *asrock) power(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Command *int `json:"power_command"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Command == nil {
		a.say(w, http.StatusBadRequest, map[string]any{"error": "power_command"})
		return
	}
	action, ok := map[int]machine.Action{0: machine.Off, 1: machine.On, 2: machine.Reset, 3: machine.Reset, 5: machine.Shutdown}[*body.Command]
	if !ok || a.cfg.Machine.Power(r.Context(), action) != nil {
		a.say(w, http.StatusBadRequest, map[string]any{"error": "power_command"})
		return
	}
	a.say(w, http.StatusOK, map[string]any{"power_command": *body.Command})
}

// serveFlash installs firmware. The lock is held.
func (a *asrock) serveFlash(w http.ResponseWriter, r *http.Request, path string) bool {
	ok := func(done bool) bool {
		if !done {
			a.say(w, http.StatusInternalServerError, map[string]any{"error": "not now"})
			return true
		}
		a.say(w, http.StatusOK, map[string]any{})
		return true
	}
	const bios = "/api/asrr/maintenance/BIOS/"
	switch r.Method + " " + path {
	case "PUT /api/maintenance/flash":
		busy := a.flashMode
		a.flashMode = true
		return ok(!busy)
	case "POST /api/maintenance/firmware":
		return ok(a.flashMode && a.upload(r, update.BMC))
	case "GET /api/maintenance/firmware/verification":
		return ok(a.staged == update.BMC)
	case "PUT /api/maintenance/firmware/upgrade":
		return ok(a.begin(update.BMC))
	case "POST " + bios + "firmware":
		return ok(!a.writing && a.upload(r, update.BIOS))
	case "POST " + bios + "configuration":
		return ok(a.staged == update.BIOS)
	case "POST " + bios + "upgrade":
		return ok(a.begin(update.BIOS))
	case "GET " + bios + "flash-progress":
		return a.progress(w, update.BIOS)
	case "GET /api/maintenance/firmware/flash-progress":
		return a.progress(w, update.BMC)
	}
	return false
}

func (a *asrock) upload(r *http.Request, want string) bool {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return false
	}
	part, err := multipart.NewReader(r.Body, params["boundary"]).NextPart()
	if err != nil || part.FormName() != "fwimage" {
		return false
	}
	component, version, err := update.Read(part)
	if err != nil || component != want {
		return false
	}
	a.staged, a.coming = component, version
	return true
}

// begin starts writing the image; a second request for the same image is refused.
func (a *asrock) begin(component string) bool {
	if a.writing || a.staged != component {
		return false
	}
	a.writing, a.percent = true, 0
	return true
}

// progress advances by a third with each request. At the end, the firmware is active and there is
// no progress any more.
func (a *asrock) progress(w http.ResponseWriter, component string) bool {
	if !a.writing || a.staged != component {
		a.say(w, http.StatusInternalServerError, map[string]any{"error": "no flashing"})
		return true
	}
	if a.percent += 34; a.percent < 100 {
		a.say(w, http.StatusOK, map[string]any{"id": 1, "action": "Flashing...", "progress": fmt.Sprintf("%d%% done         ", a.percent), "state": 0})
		return true
	}
	a.versions[component] = a.coming
	a.writing, a.flashMode, a.staged = false, false, ""
	a.say(w, http.StatusInternalServerError, map[string]any{"error": "no flashing"})
	return true
}
