// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conversion converts Ingot's Cluster API kinds between the hub v1beta2
// (contract v1beta2, what is stored) and the spoke v1beta1 (contract v1beta1),
// without loss either way: what the spoke cannot hold travels in the annotation
// cluster.x-k8s.io/conversion-data, as in all Cluster API providers.
//
// It must not validate, default or look anything up: the API server calls it for
// every object of a list, and a conversion that fails makes the list unreadable.
//
//	ctrl.NewWebhookManagedBy(mgr, &v1beta2.IngotMachine{}).
//		WithConverter(conversion.Machine()).
//		Complete()
package conversion
