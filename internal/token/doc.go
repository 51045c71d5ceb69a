// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package token mints and verifies the tokens by which a network-booted agent,
// and later the installed system, prove what they were sent for (I14). A token is
// text that says in clear what it is for, and an HMAC over it under a key that
// the controllers and the boot server share; it is stored nowhere. The keys lie in a
// directory, or in a Secret that the manager makes.
//
//	files, err := token.ReadDir(dir)
//	keys, err := files.Keys()
//	text := keys.Mint(token.Claims{Host: "dc1/node-7", Purpose: token.Install, ...})
//	claims, err := keys.Verify(text)
package token
