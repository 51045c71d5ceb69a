// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault has the faults of an emulated BMC, request by request: late, missing, endless,
// truncated and wrong answers. Faults can be changed at any time and add up.
//
//	var list fault.List
//	list.Set(fault.Faults{Every: 5, Status: 503}, fault.Faults{Latency: time.Second})
//	f := list.For(r.Method, r.URL.Path)
//	if f.Before(w, r, closed) { … }
package fault
