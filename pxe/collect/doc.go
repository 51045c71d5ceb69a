// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package collect registers the metrics of boot servers, of which a process may start
// several, one after the other. It knows no metric.
//
//	err := errors.Join(collect.Adopt(registry, &m.requests), collect.Adopt(registry, &m.bytes))
package collect
