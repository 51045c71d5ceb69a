// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resource is shared by the services of an emulated BMC: Redfish resources as JSON objects,
// answers as values, and the error format of DSP0266. A service is a pair of functions:
//
//	func (s *Service) Read(path string) (resource.Object, bool)
//	func (s *Service) Write(r resource.Request) (resource.Answer, bool)
package resource
