// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit makes an API server keep an audit log: who did what to which
// object, one JSON object a line (audit.k8s.io/v1 Event). Requests about chosen
// API groups are logged with their bodies, all others without; Secrets,
// ConfigMaps and tokens never with their bodies.
//
//	arguments, err := audit.Arguments(dir, "infrastructure.cluster.x-k8s.io")
//	// kube-apiserver ... <arguments>; then
//	events, err := audit.Read(audit.File(dir))
package audit
