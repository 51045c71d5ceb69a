// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendorbmc

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"

	"github.com/ingot-metal/ingot/lab/bmc/machine"
)

// signatureHeader has the signature: "sha256=" and the HMAC of the body in hex.
const signatureHeader = "X-BMCLIB-Signature-256"

// StartWebhook starts a consumer of bmclib's notifications (docs/Examples of its providers/rpc):
// JSON by POST, signed with the shared secret.
func StartWebhook(cfg Config) (*Server, error) { return start(cfg, webhook{cfg}) }

type webhook struct{ cfg Config }

// notification is a request.
type notification struct {
	ID     int64           `json:"id"`
	Host   string          `json:"host"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// reply is the answer to a notification.
type reply struct {
	ID     int64  `json:"id"`
	Host   string `json:"host"`
	Result any    `json:"result,omitempty"`
	Error  *fail  `json:"error,omitempty"`
}

type fail struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (h webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // bounded by Server
	if err != nil || r.Method != http.MethodPost {
		http.Error(w, "not a notification", http.StatusBadRequest)
		return
	}
	mac := hmac.New(sha256.New, []byte(h.cfg.Password))
	_, _ = mac.Write(body)
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); !hmac.Equal([]byte(want), []byte(r.Header.Get(signatureHeader))) {
		http.Error(w, "the signature is wrong", http.StatusUnauthorized)
		return
	}
	var n notification
	if err := json.Unmarshal(body, &n); err != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	out := reply{ID: n.ID, Host: n.Host}
	out.Result, out.Error = h.do(r, n)
	text, err := json.Marshal(out)
	if err != nil {
		http.Error(w, "no answer", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// actions returns the actions of setPowerState.
func actions() map[string]machine.Action {
	return map[string]machine.Action{
		"on": machine.On, "off": machine.Off, "soft": machine.Shutdown, "reset": machine.Reset, "cycle": machine.Reset,
	}
}

// devices returns the devices of setBootDevice.
func devices() map[string]machine.Target {
	return map[string]machine.Target{
		"pxe": machine.TargetPXE, "disk": machine.TargetDisk, "cdrom": machine.TargetCD, "bios": machine.TargetSetup, "none": machine.TargetNone,
	}
}

func (h webhook) do(r *http.Request, n notification) (result any, _ *fail) {
	var params struct {
		State      string `json:"state"`
		Device     string `json:"device"`
		Persistent bool   `json:"persistent"`
		EFIBoot    bool   `json:"efiBoot"`
	}
	if len(n.Params) > 0 {
		if err := json.Unmarshal(n.Params, &params); err != nil {
			return nil, &fail{http.StatusBadRequest, "invalid params"}
		}
	}
	m := h.cfg.Machine
	switch n.Method {
	case "ping":
		return "pong", nil
	case "getPowerState":
		if m.Powered() {
			return "on", nil
		}
		return "off", nil
	case "setPowerState":
		action, ok := actions()[params.State]
		if !ok {
			return nil, &fail{http.StatusBadRequest, "no such state"}
		}
		if err := m.Power(r.Context(), action); err != nil {
			return nil, &fail{http.StatusInternalServerError, err.Error()}
		}
		return "ok", nil
	case "setBootDevice":
		target, ok := devices()[params.Device]
		if !ok {
			return nil, &fail{http.StatusBadRequest, "no such device"}
		}
		boot := machine.Boot{Enabled: machine.Once, Target: target, Mode: machine.Legacy}
		if params.EFIBoot {
			boot.Mode = machine.UEFI
		}
		switch {
		case target == machine.TargetNone:
			boot.Enabled = machine.Disabled
		case params.Persistent:
			boot.Enabled = machine.Continuous
		}
		m.SetBoot(boot)
		return "ok", nil
	}
	return nil, &fail{http.StatusNotImplemented, "no such method"}
}
