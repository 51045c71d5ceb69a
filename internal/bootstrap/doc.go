// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap reads what a bootstrap provider left in the Secret of a Machine
// (Cluster API, contract of bootstrap providers).
//
// It is pure: bytes in, text out. It must not know hosts, Secrets or the API server. No
// error holds any of the data.
//
//	text, err := bootstrap.Text(secret.Data[bootstrap.ValueKey])
package bootstrap
