// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault is what can be wrong with an emulated BMC, request by request:
// answers that are late, missing, endless, cut off, of the wrong types or lies.
// Faults can be set at any time and add up.
//
// It must not know what is served.
//
//	var list fault.List
//	list.Set(fault.Faults{Every: 5, Status: 503}, fault.Faults{Latency: time.Second})
//	f := list.For(r.Method, r.URL.Path)
//	if f.Before(w, r, closed) { … }
package fault
