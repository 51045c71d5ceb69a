// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package session has the access to an emulated BMC: sessions with a limit and a timeout, Basic
// authentication if the personality has it, and the account service with its one account, whose
// password can be changed. It must not log credentials.
//
//	s := session.New(session.Config{Username: "admin", Password: "secret", Max: 8})
//	answer, token := s.Login(request)
package session
