// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package web is the web interface of Supermicro's boards as scripts use it: CGI
// programs behind a login with a cookie, which on X11 boards are the only way to push
// firmware. X12 boards have the login and leave firmware to Redfish.
//
// It must not know who calls it. What is pushed, it hands to package update, so that
// both ways change the same firmware.
//
//	s := web.New(web.Config{Username: "admin", Password: account.Password, Board: "X11SCM-F", Flash: true, Update: updates})
//	if s.Owns(r.URL.Path) {
//		action := s.Serve(w, r)
//	}
package web
