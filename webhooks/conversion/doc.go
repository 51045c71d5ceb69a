// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conversion converts Ingot's Cluster API kinds between the hub v1beta2 (the stored
// version, contract v1beta2) and the spoke v1beta1 (contract v1beta1) without loss. Fields that
// the spoke lacks are kept in the annotation cluster.x-k8s.io/conversion-data, as in all Cluster
// API providers.
//
// The package must not validate, default or read other objects: the API server converts every
// object of a list, and one failed conversion makes the list unreadable.
//
//	ctrl.NewWebhookManagedBy(mgr, &v1beta2.IngotMachine{}).
//		WithConverter(conversion.Machine()).
//		Complete()
package conversion
