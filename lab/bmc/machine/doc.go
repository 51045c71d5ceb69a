// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine is the interface of a server to its BMC: a power switch and a boot setting, which the
// firmware of the server uses up. It does not know the BMC or the kind of server.
//
//	type Server struct{ machine.BootSetting }
//	func (s *Server) start() { target, mode := s.ConsumeBoot(); … }
package machine
