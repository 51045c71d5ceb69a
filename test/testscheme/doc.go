// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testscheme is the scheme of tests: the kinds that a management cluster has, as
// Ingot's programs know them. It is for clients of real API servers (test/envtest)
// and for those in memory alike. Tests that are about a scheme make their own.
//
//	c := fake.NewClientBuilder().WithScheme(testscheme.Scheme(t, ipamv1.AddToScheme)).Build()
package testscheme
