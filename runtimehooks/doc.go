// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runtimehooks is the server of the Cluster API runtime extension: it
// answers the hooks by which Cluster API asks before, while and after it changes a
// Cluster (Runtime SDK, group hooks.runtime.cluster.x-k8s.io/v1alpha1).
//
// The library of Cluster API (exp/runtime/server) decodes and dispatches. Around
// each of its handlers stands a guard, which the rules R01, R10, R11, R19 and R22
// ask for: POST only, a bound on one body and on all bodies at once, apiVersion and
// kind as the path has them, a deadline below the caller's, an answer also where a
// handler panics, messages that are bounded and the same each time.
//
// What is answered is decided in lifecycle (may this Cluster be created, upgraded,
// deleted), mutation (templates from variables and the image catalogue) and inplace
// (what changes on a running server). This package must not know any of it.
//
//	server, err := runtimehooks.New(runtimehooks.Options{
//		CertDir: "/certs", CertName: "tls.crt", KeyName: "tls.key",
//		Mounts: []runtimehooks.Mount{{Handlers: lifecycle.Handlers(options)}},
//	})
//	err = mgr.Add(server)
package runtimehooks
