// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package collect registers metrics of what a process may start several of, one after
// the other: boot servers, and in tests whole managers. It lives with the boot server,
// which has most of them; controllers, hooks and the manager use it too. It knows no metric.
//
//	err := errors.Join(collect.Adopt(registry, &m.requests), collect.Adopt(registry, &m.bytes))
package collect
