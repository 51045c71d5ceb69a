// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resource is what the services of an emulated BMC share: Redfish
// resources as JSON objects, answers as values, and the error form of DSP0266.
//
// It must not know any service, nor the network: a service is a pair of
// functions from paths and requests to objects and answers.
//
//	func (s *Service) Read(path string) (resource.Object, bool)
//	func (s *Service) Write(r resource.Request) (resource.Answer, bool)
package resource
