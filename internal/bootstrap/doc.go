// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap reads the data of a bootstrap Secret (Cluster API, contract of bootstrap providers).
// It works on bytes only. Its errors contain none of the data.
//
//	text, err := bootstrap.Text(secret.Data[bootstrap.ValueKey])
package bootstrap
