// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package template reconciles IngotMachineTemplates. It publishes the minimum capacity of the hosts
// that a template can select, so that the cluster autoscaler can scale from zero (M65).
//
//	err := (&template.Reconciler{Client: mgr.GetClient()}).SetupWithManager(mgr, opts)
package template
