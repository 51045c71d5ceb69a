// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package web is the web interface of Supermicro boards as scripts use it: CGI programs with a login and a
// cookie. X11 boards take firmware only there; X12 boards have the login and take firmware by Redfish. Pushed
// images go to package update, so that both interfaces change the same firmware.
//
//	s := web.New(web.Config{Username: "admin", Password: account.Password, Board: "X11SCM-F", Flash: true, Update: updates})
//	if s.Owns(r.URL.Path) {
//		action := s.Serve(w, r)
//	}
package web
