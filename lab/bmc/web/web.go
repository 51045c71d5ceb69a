// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/ingot-metal/ingot/lab/bmc/update"
)

const (
	prefix = "/cgi/"
	cookie = "SID"
	// maxForm bounds the body of a request that is not an upload, in bytes.
	maxForm = 16 << 10
	// maxSessions bounds the open sessions.
	maxSessions = 8
)

// Config describes a web interface.
type Config struct {
	Username string
	// Password returns the current password. Required.
	Password func() string
	// Board is the part number of the baseboard; Serial the server's.
	Board, Serial string
	// Flash accepts firmware (X11).
	Flash bool
	// Update receives pushed images. Required.
	Update *update.Service
}

// Service is the web interface. It is safe for concurrent use.
type Service struct {
	cfg Config

	mu       sync.Mutex
	sessions map[string]string // CSRF tokens by cookie
	opened   int
	flash    flash
}

// New returns an interface without sessions.
func New(cfg Config) *Service { return &Service{cfg: cfg, sessions: map[string]string{}} }

// Owns reports whether a path belongs to the interface.
func (s *Service) Owns(path string) bool { return strings.HasPrefix(path, prefix) }

// Uploads reports whether a request contains an image.
func (s *Service) Uploads(r *http.Request) bool {
	return r.Method == http.MethodPost && (r.URL.Path == prefix+"bios_upload.cgi" || r.URL.Path == prefix+"oem_firmware_upload.cgi")
}

// Sessions counts the open sessions.
func (s *Service) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Serve answers a request and returns a description: "Login", "Logout", "Flash BIOS", or "".
func (s *Service) Serve(w http.ResponseWriter, r *http.Request) string {
	name := strings.TrimPrefix(r.URL.Path, prefix)
	if name == "login.cgi" && r.Method == http.MethodPost {
		s.login(w, r)
		return "Login"
	}
	sid, ok := s.authorized(r)
	if !ok {
		// Real boards send their login page with 200.
		page(w, "<html><head><title>Login</title></head></html>")
		return ""
	}
	switch {
	case name == "logout.cgi":
		s.mu.Lock()
		delete(s.sessions, sid)
		s.mu.Unlock()
		page(w, "<html>bye</html>")
		return "Logout"
	case name == "url_redirect.cgi":
		s.mu.Lock()
		token := s.sessions[sid]
		s.mu.Unlock()
		page(w, "<html><script>\nSmcCsrfInsert (\"CSRF_TOKEN\", \""+token+"\");\n</script></html>")
		return ""
	case s.cfg.Flash:
		return s.serveFlash(w, r, name)
	}
	http.NotFound(w, r)
	return ""
}

func page(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, text)
}

func answerXML(w http.ResponseWriter, format string, args ...any) {
	w.Header().Set("Content-Type", "text/xml")
	_, _ = fmt.Fprintf(w, "<?xml version=\"1.0\"?>\n<IPMI>\n"+format+"\n</IPMI>\n", args...)
}

// form parses name=value&… as the boards do: without decoding.
func form(r *http.Request) map[string]string {
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxForm))
	fields := map[string]string{}
	for _, f := range strings.Split(string(body), "&") {
		name, value, _ := strings.Cut(f, "=")
		fields[name] = value
	}
	return fields
}

// login accepts credentials in base64 or plain. A failed login is answered with 200 and another
// page.
func (s *Service) login(w http.ResponseWriter, r *http.Request) {
	f := form(r)
	plain := func(text string) string {
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			return string(b)
		}
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if plain(f["name"]) != s.cfg.Username || plain(f["pwd"]) != s.cfg.Password() || len(s.sessions) >= maxSessions {
		page(w, "<html>Invalid login for "+f["name"]+" with "+plain(f["pwd"])+"</html>") // boards repeat the credentials
		return
	}
	sid := rand.Text()
	s.sessions[sid] = rand.Text()
	s.opened++
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: sid, Path: "/", Secure: true})
	page(w, `<html><script>self.location="../cgi/url_redirect.cgi?url_name=topmenu";</script></html>`)
}

// authorized returns the session. Every POST must have its CSRF token.
func (s *Service) authorized(r *http.Request) (sid string, ok bool) {
	c, err := r.Cookie(cookie)
	if err != nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	token, ok := s.sessions[c.Value]
	if !ok || r.Method == http.MethodPost && r.Header.Get("CSRF_TOKEN") != token && r.Header.Get("Csrf-Token") != token {
		return "", false
	}
	return c.Value, true
}
