// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package token signs and verifies the tokens of network-booted agents and installed systems (I14).
// A token is a readable text that names its purpose, with an HMAC under a key that the manager and
// the boot servers share. Tokens are not stored. The keys are in a directory, or in a Secret that the
// manager creates.
//
//	files, err := token.ReadDir(dir)
//	keys, err := files.Keys()
//	text := keys.Mint(token.Claims{Host: "dc1/node-7", Purpose: token.Install, ...})
//	claims, err := keys.Verify(text)
package token
