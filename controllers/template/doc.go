// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package template reconciles IngotMachineTemplates: it publishes what the hosts
// that a template can select have at least, so that the cluster autoscaler can
// scale from zero (M65).
//
//	err := (&template.Reconciler{Client: mgr.GetClient()}).SetupWithManager(mgr, opts)
package template
