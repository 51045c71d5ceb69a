// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runtimehooks serves the Cluster API runtime extension: the hooks that Cluster API calls
// before, during and after it changes a Cluster (Runtime SDK, group
// hooks.runtime.cluster.x-k8s.io/v1alpha1).
//
// Cluster API's library (exp/runtime/server) decodes and dispatches the requests. A guard before
// each handler implements the rules R01, R10, R11, R19 and R22: POST only, limits on one body and
// on all bodies, apiVersion and kind that match the path, a deadline before the caller's, an
// answer after a panic, and stable messages of limited length.
//
// The decisions are in the packages lifecycle (whether a Cluster can be created, upgraded or
// deleted), mutation (templates from variables and the image catalog) and inplace (changes of
// running servers). This package does not depend on them.
//
//	server, err := runtimehooks.New(runtimehooks.Options{
//		CertDir: "/certs", CertName: "tls.crt", KeyName: "tls.key",
//		Mounts: []runtimehooks.Mount{{Handlers: lifecycle.Handlers(options)}},
//	})
//	err = mgr.Add(server)
package runtimehooks
