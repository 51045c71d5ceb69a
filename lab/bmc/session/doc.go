// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package session is who may speak to an emulated BMC: sessions with a table of
// bounded size and a timeout, Basic authentication where the maker has it, and the
// account service with its one account, whose password can be changed.
//
// It must not know the network, nor log what it is given.
//
//	s := session.New(session.Config{Username: "admin", Password: "secret", Max: 8})
//	answer, token := s.Login(request)
package session
