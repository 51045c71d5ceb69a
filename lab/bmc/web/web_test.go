// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/task"
	"github.com/ingot-metal/ingot/lab/bmc/update"
	"github.com/ingot-metal/ingot/lab/bmc/web"
)

// browser is one user of the interface.
type browser struct {
	t      *testing.T
	s      *web.Service
	cookie *http.Cookie
	token  string
}

func (b *browser) ask(method, path, kind string, body []byte) (status int, text, action string) {
	r := httptest.NewRequest(method, "https://192.0.2.1"+path, bytes.NewReader(body))
	r.Header.Set("Content-Type", kind)
	if b.cookie != nil {
		r.AddCookie(b.cookie)
		r.Header.Set("CSRF_TOKEN", b.token)
	}
	w := httptest.NewRecorder()
	action = b.s.Serve(w, r)
	for _, c := range w.Result().Cookies() {
		b.cookie = c
	}
	return w.Code, w.Body.String(), action
}

func (b *browser) want(want, path, body string) {
	b.t.Helper()
	if _, text, _ := b.ask("POST", path, "application/x-www-form-urlencoded", []byte(body)); !strings.Contains(text, want) {
		b.t.Errorf("%s %s: %q, want %q in it", path, body, text, want)
	}
}

func (b *browser) login(password string) {
	b.ask("POST", "/cgi/login.cgi", "", []byte("name=admin&pwd="+password+"&check=00"))
	_, page, _ := b.ask("GET", "/cgi/url_redirect.cgi?url_name=topmenu", "", nil)
	if m := regexp.MustCompile(`"CSRF_TOKEN", "(\w+)"`).FindStringSubmatch(page); m != nil {
		b.token = m[1]
	}
}

func newService(flash bool) (*web.Service, *update.Service, *task.List) {
	p, _ := personality.Named("supermicro-x11")
	tasks := task.New(task.Config{})
	updates := update.New(update.Config{Personality: p, Tasks: tasks, Client: http.DefaultClient})
	return web.New(web.Config{
		Username: "admin", Password: func() string { return "secret" }, Board: "X11SCM-F", Serial: "S1", Flash: flash, Update: updates,
	}), updates, tasks
}

func TestLogin(t *testing.T) {
	s, _, _ := newService(true)
	for name, tc := range map[string]struct {
		password string
		sessions int
	}{"wrong": {"wrong", 0}, "plain": {"secret", 1}, "base64": {"c2VjcmV0", 1}} {
		t.Run(name, func(t *testing.T) {
			b := &browser{t: t, s: s}
			b.login(tc.password)
			if n := s.Sessions(); n != tc.sessions {
				t.Errorf("%d sessions, want %d", n, tc.sessions)
			}
			_, _, action := b.ask("GET", "/cgi/logout.cgi", "", nil)
			if n := s.Sessions(); n != 0 || (action == "Logout") != (tc.sessions == 1) {
				t.Errorf("%d sessions after the logout, action %q", n, action)
			}
		})
	}
	b := &browser{t: t, s: s}
	b.login("secret")
	b.token = "another"
	b.want("<title>Login</title>", "/cgi/ipmi.cgi", "op=FRU_INFO.XML&r=(0,0)") // a POST without the token
}

// TestFlash checks the steps of an update and the effect of the restart.
func TestFlash(t *testing.T) {
	s, updates, tasks := newService(true)
	b := &browser{t: t, s: s}
	b.login("secret")
	b.want(`PART_NUM="X11SCM-F"`, "/cgi/ipmi.cgi", "op=FRU_INFO.XML&r=(0,0)&_=")
	b.want(`RES="-1" SYSOFF="0"`, "/cgi/ipmi.cgi", "op=COMPONENT_UPDATE_MISC.XML&r=(0,0)&_=")
	upload := func() (status int) {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		part, err := form.CreateFormFile("bios_rom", "BIOS.bin")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write(update.Image(update.BIOS, "9.9"))
		_ = form.Close()
		status, _, _ = b.ask("POST", "/cgi/bios_upload.cgi", form.FormDataContentType(), body.Bytes())
		return status
	}
	if status := upload(); status != http.StatusBadRequest {
		t.Errorf("an image outside flash mode: %d", status)
	}
	b.want(`RES="1"`, "/cgi/ipmi.cgi", "op=BIOS_UPLOAD.XML&r=(0,0)&_=")
	b.want(`LOCK_FW_UPLOAD RES="0"`, "/cgi/ipmi.cgi", "op=BIOS_UPLOAD.XML&r=(0,0)&_=") // accepted
	if status := upload(); status != http.StatusOK {
		t.Fatalf("upload: %d", status)
	}
	b.want(`RES="00"`, "/cgi/ipmi.cgi", "op=BIOS_UPDATE_CHECK.XML&r=(0,0)&_=")
	b.want(`NewRev="9.9"`, "/cgi/ipmi.cgi", "op=BIOS_REV.XML&_=")
	if _, text, action := b.ask("POST", "/cgi/op.cgi", "", []byte("op=main_biosupdate&_=")); text != "ok" || action != "Flash BIOS" {
		t.Errorf("start: %q, action %q", text, action)
	}
	for _, percent := range []string{"34", "68", "100"} {
		b.want("<percent>"+percent+"</percent>", "/cgi/upgrade_process.cgi", "fwtype=1&_")
	}
	b.want(`SYSOFF="1"`, "/cgi/ipmi.cgi", "op=COMPONENT_UPDATE_MISC.XML&r=(1,0)&_=")
	if v := updates.Version(update.BIOS); v == "9.9" {
		t.Error("in force before the restart")
	}
	tasks.Signal(task.Boot)
	if v := updates.Version(update.BIOS); v != "9.9" {
		t.Errorf("version %s after the restart", v)
	}
	b.want("<percent>0</percent><status>0</status>", "/cgi/upgrade_process.cgi", "fwtype=1&_")
}

// TestX12 checks that X12 boards take no firmware here.
func TestX12(t *testing.T) {
	s, _, _ := newService(false)
	b := &browser{t: t, s: s}
	b.login("secret")
	if status, _, _ := b.ask("POST", "/cgi/ipmi.cgi", "", []byte("op=FRU_INFO.XML&r=(0,0)&_=")); status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
}
