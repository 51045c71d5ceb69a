// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

const (
	pathSessions = "/redfish/v1/SessionService/Sessions"

	// ActionLogin and ActionLogout are writes that do nothing to the server.
	ActionLogin  = "Login"
	ActionLogout = "Logout"
)

// authorized says whether the request carries the token of an open session
// (DSP0266, Redfish session login authentication). Basic authentication is not
// offered, so that a client that falls back to it is found out.
func (b *BMC) authorized(r *http.Request) bool {
	token := r.Header.Get("X-Auth-Token")
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.sessions[token]
	return token != "" && ok
}

// login opens a session.
func (b *BMC) login(w http.ResponseWriter, r *http.Request) {
	var body struct{ UserName, Password string }
	if !decode(w, r, &body) {
		return
	}
	user := subtle.ConstantTimeCompare([]byte(body.UserName), []byte(b.cfg.Username))
	pass := subtle.ConstantTimeCompare([]byte(body.Password), []byte(b.cfg.Password))
	if user&pass != 1 {
		// Real ones have been seen to repeat what they got: the client must not.
		writeError(w, http.StatusUnauthorized, "Base.1.16.ResourceAtUriUnauthorized",
			fmt.Sprintf("while logging in with %s / %s, access was denied", body.UserName, body.Password))
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sessions) >= b.cfg.MaxSessions {
		writeError(w, http.StatusBadRequest, "Base.1.16.SessionLimitExceeded",
			"The session establishment failed due to the number of simultaneous sessions exceeding the limit of the implementation.")
		return
	}
	b.lastID++
	b.opened++
	id, token := strconv.Itoa(b.lastID), rand.Text()
	b.sessions[token] = id
	b.peak = max(b.peak, len(b.sessions))
	w.Header().Set("X-Auth-Token", token)
	w.Header().Set("Location", pathSessions+"/"+id)
	writeJSON(w, http.StatusCreated, sessionResource(id, b.cfg.Username))
}

func sessionResource(id, user string) resource {
	return resource{
		"@odata.id": pathSessions + "/" + id, "@odata.type": "#Session.v1_7_0.Session",
		"Id": id, "Name": "User Session", "UserName": user, "Password": nil,
	}
}

// logout ends the session that the path names.
func (b *BMC) logout(w http.ResponseWriter, path string) {
	id := strings.TrimPrefix(path, pathSessions+"/")
	b.mu.Lock()
	defer b.mu.Unlock()
	for token, have := range b.sessions {
		if have == id {
			delete(b.sessions, token)
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	notFound(w, path)
}

// sessionPaths lists the open sessions.
func (b *BMC) sessionPaths() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	paths := make([]string, 0, len(b.sessions))
	for _, id := range b.sessions {
		paths = append(paths, pathSessions+"/"+id)
	}
	return paths
}
