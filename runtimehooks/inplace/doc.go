// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inplace implements the hooks by which Cluster API changes a machine without replacing
// it. CanUpdateMachine and CanUpdateMachineSet select the changes that are safe on a running
// server, and UpdateMachine reports whether they are applied.
//
// Two fields of an IngotMachine can change in place: cleaning, which the machine controller copies
// to the host's claim, and the labels of hostSelector, if the host already has them. For other
// changes the hooks return no patch, and Cluster API replaces the machine. Cluster API itself
// changes labels and annotations of Machines in place, and the boot order is a setting of the
// IngotHost.
//
// The handlers write nothing and keep no state: UpdateMachine reads the host. They have their own
// ExtensionConfig, because Cluster API allows only one extension for these hooks.
//
//	handlers := inplace.Handlers(inplace.Options{Cache: mgr.GetClient(), Live: mgr.GetAPIReader()})
package inplace
