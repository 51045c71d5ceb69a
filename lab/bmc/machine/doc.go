// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine is a server as its BMC sees it: a power switch and a boot
// setting, which the server's firmware uses up.
//
// It must not know the BMC, nor what a server is made of.
//
//	type Server struct{ machine.BootSetting }
//	func (s *Server) start() { target, mode := s.ConsumeBoot(); … }
package machine
