// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

const (
	pathService = resource.Root + "/SessionService"
	// Path of the sessions.
	Path = pathService + "/Sessions"

	pathAccounts = resource.Root + "/AccountService"

	// ActionLogin and ActionLogout do not affect the server.
	ActionLogin  = "Login"
	ActionLogout = "Logout"
)

// Config describes a service.
type Config struct {
	Personality        personality.Personality
	Username, Password string
	// Max open sessions.
	Max int
	// Timeout ends unused sessions; 0: never.
	Timeout time.Duration
	// Now is the clock. Required.
	Now func() time.Time
}

type session struct {
	id, context string
	used        time.Time
}

// Service has the sessions and accounts. It is safe for concurrent use.
type Service struct {
	cfg Config

	mu       sync.Mutex
	password string
	// factory reports that the password is the factory's and must be changed first.
	factory  bool
	sessions map[string]*session // by token
	last     int
	opened   int
	peak     int
	basics   int
}

// New returns a service without sessions.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, password: cfg.Password, factory: cfg.Personality.Quirks.FactoryPassword}
}

// expire drops timed-out sessions. The lock is held.
func (s *Service) expire() {
	if s.cfg.Timeout == 0 {
		return
	}
	limit := s.cfg.Now().Add(-s.cfg.Timeout)
	for token, have := range s.sessions {
		if have.used.Before(limit) {
			delete(s.sessions, token)
		}
	}
}

// Authorized reports whether the request has the token of an open session (DSP0266, Redfish
// session login authentication) or, if the personality accepts them, Basic credentials. A bare BMC
// does not accept them, so that a client that falls back to them is noticed.
func (s *Service) Authorized(h http.Header) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if token := h.Get("X-Auth-Token"); token != "" {
		have := s.sessions[token]
		if have != nil {
			have.used = s.cfg.Now()
		}
		return have != nil
	}
	user, password, ok := (&http.Request{Header: h}).BasicAuth()
	if !ok || !s.cfg.Personality.Basic {
		return false
	}
	s.basics++
	return s.valid(user, password)
}

// valid must be called with the lock held.
func (s *Service) valid(user, password string) bool {
	u := subtle.ConstantTimeCompare([]byte(user), []byte(s.cfg.Username))
	p := subtle.ConstantTimeCompare([]byte(password), []byte(s.password))
	return u&p == 1
}

// Forget ends all sessions.
func (s *Service) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// MustChange refuses a request while the password must be changed (DSP0266, password change
// required); ok accepts it.
func (s *Service) MustChange(path string) (a resource.Answer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	account := pathAccounts + "/Accounts/" + s.cfg.Personality.AccountID
	if !s.factory || path == account || strings.HasPrefix(path, Path+"/") {
		return a, true
	}
	a = resource.FailByID(http.StatusForbidden, "Base.1.8.PasswordChangeRequired", account)
	return a, false
}

// Counts returns the open sessions, the most that were open at once, all that were opened, and the
// requests with Basic credentials.
func (s *Service) Counts() (open, peak, opened, basics int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	return len(s.sessions), s.peak, s.opened, s.basics
}

// Password returns the current password of the account.
func (s *Service) Password() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.password
}

// SetPassword changes the password, as another administrator would.
func (s *Service) SetPassword(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.password = password
}

// Login opens a session. The token is empty if it was refused. full answers as if all sessions were
// in use.
func (s *Service) Login(r resource.Request, full bool) (a resource.Answer, token string) {
	var body struct{ UserName, Password, Context string }
	if a, ok := r.Decode(&body); !ok {
		return a.Named(ActionLogin), ""
	}
	if body.Context != "" && !s.cfg.Personality.SessionContext {
		return resource.Fail(http.StatusBadRequest, "PropertyUnknown",
			"The property Context is not in the list of valid properties for the resource.").Named(ActionLogin), ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.valid(body.UserName, body.Password) {
		// Some BMCs repeat the credentials; the client must not show them.
		return resource.Fail(http.StatusUnauthorized, "ResourceAtUriUnauthorized",
			fmt.Sprintf("while logging in with %s / %s, access was denied", body.UserName, body.Password)).Named(ActionLogin), ""
	}
	s.expire()
	if full || len(s.sessions) >= s.cfg.Max {
		return resource.Fail(cmp.Or(s.cfg.Personality.Quirks.FullTableStatus, http.StatusBadRequest), "SessionLimitExceeded",
			"The session establishment failed due to the number of simultaneous sessions exceeding the limit of the implementation.").Named(ActionLogin), ""
	}
	s.last++
	s.opened++
	if s.sessions == nil {
		s.sessions = map[string]*session{}
	}
	id, token := strconv.Itoa(s.last), rand.Text()
	have := &session{id: id, context: body.Context, used: s.cfg.Now()}
	s.sessions[token] = have
	s.peak = max(s.peak, len(s.sessions))
	return resource.Answer{Status: http.StatusCreated, Location: Path + "/" + id, Body: s.object(have), Action: ActionLogin}, token
}

func (s *Service) object(have *session) resource.Object {
	o := resource.New(Path+"/"+have.id, "Session.v1_7_0", "User Session")
	o["UserName"], o["Password"] = s.cfg.Username, nil
	if have.context != "" {
		o["Context"] = have.context
	}
	return o
}

// Write ends sessions and changes the account.
func (s *Service) Write(r resource.Request) (resource.Answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := strings.CutPrefix(r.Path, Path+"/"); ok && r.Method == http.MethodDelete {
		for token, have := range s.sessions {
			if have.id == id {
				delete(s.sessions, token)
				return resource.Done(ActionLogout), true
			}
		}
		return resource.Fail(http.StatusNotFound, "ResourceMissingAtURI", "no resource at "+r.Path).Named(ActionLogout), true
	}
	if !s.cfg.Personality.Bare() && r.Is(http.MethodPatch, pathAccounts+"/Accounts/"+s.cfg.Personality.AccountID) {
		return s.patchAccount(r).Named("Account"), true
	}
	return resource.Answer{}, false
}

func (s *Service) patchAccount(r resource.Request) resource.Answer {
	var body struct{ Password *string }
	if a, ok := r.Decode(&body); !ok {
		return a
	}
	p := s.cfg.Personality
	switch {
	case body.Password == nil:
		return resource.Fail(http.StatusBadRequest, "PropertyMissing", "only Password can be written")
	case p.Quirks.PasswordPolicy && !strings.ContainsAny(*body.Password, "0123456789"):
		// OpenBMC's text with the password, which some BMCs repeat.
		return resource.Fail(http.StatusBadRequest, "PropertyValueFormatError",
			fmt.Sprintf("The value %s for the property Password is of a different format than the property can accept: it has no digit.", *body.Password))
	case *body.Password == "" || len(*body.Password) > p.PasswordMax:
		return resource.Fail(http.StatusBadRequest, "PropertyValueFormatError", fmt.Sprintf("the password has not 1 to %d bytes", p.PasswordMax))
	}
	s.password, s.factory = *body.Password, false
	if p.Quirks.LogoutOnPassword {
		clear(s.sessions)
	}
	return resource.Done("Account")
}

// Read returns the services, sessions and accounts.
func (s *Service) Read(path string) (resource.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	switch path {
	case pathService, Path:
		if s.cfg.Personality.Quirks.BasicOnly {
			return nil, false
		}
	}
	switch path {
	case pathService:
		o := resource.New(path, "SessionService.v1_1_9", "Session Service")
		timeout := cmp.Or(s.cfg.Timeout, 30*time.Minute)
		o["ServiceEnabled"], o["SessionTimeout"], o["Sessions"] = true, int(timeout/time.Second), resource.Ref(Path)
		return o, true
	case Path:
		paths := make([]string, 0, len(s.sessions))
		for _, have := range s.sessions {
			paths = append(paths, Path+"/"+have.id)
		}
		return resource.Collection(path, "Session", paths), true
	}
	for _, have := range s.sessions {
		if path == Path+"/"+have.id {
			return s.object(have), true
		}
	}
	if s.cfg.Personality.Bare() {
		return nil, false
	}
	return s.readAccounts(path)
}

func (s *Service) readAccounts(path string) (resource.Object, bool) {
	p := s.cfg.Personality
	switch path {
	case pathAccounts:
		o := resource.New(path, "AccountService.v1_15_0", "Account Service")
		o["Accounts"], o["MaxPasswordLength"], o["MinPasswordLength"] = resource.Ref(path+"/Accounts"), p.PasswordMax, 1
		return o, true
	case pathAccounts + "/Accounts":
		paths := []string{path + "/" + p.AccountID}
		for _, id := range p.EmptyAccounts {
			paths = append(paths, path+"/"+id)
		}
		return resource.Collection(path, "ManagerAccount", paths), true
	}
	id, ok := strings.CutPrefix(path, pathAccounts+"/Accounts/")
	if !ok {
		return nil, false
	}
	o := resource.New(path, "ManagerAccount.v1_12_0", "User Account")
	o["Password"], o["RoleId"], o["Enabled"], o["AccountTypes"] = nil, "Administrator", true, []string{"Redfish"}
	if id == p.AccountID {
		o["UserName"] = s.cfg.Username
		return o, true
	}
	o["UserName"], o["Enabled"], o["RoleId"] = "", false, "None"
	return o, slices.Contains(p.EmptyAccounts, id)
}
