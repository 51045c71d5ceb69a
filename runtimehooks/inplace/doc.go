// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inplace answers the hooks by which Cluster API changes a machine without
// replacing it: what of a change can be made on a running server without harm
// (CanUpdateMachine, CanUpdateMachineSet), and whether it is made (UpdateMachine).
//
// Two fields of an IngotMachine are changed live: cleaning, which says what is done
// to the disks at release and is carried to the host's claim by the machine's
// controller; and the labels of hostSelector, where the host already has them, so
// that there is nothing to do. (Labels and annotations of Machines, Cluster API
// changes in place by itself; the boot order of a server is a setting of its
// IngotHost, which the host's controller applies live.) Of any other change no patch
// is returned, and Cluster API replaces the machine.
//
// The handlers write nothing and remember nothing: UpdateMachine looks at the host.
// They stand in an ExtensionConfig of their own, since Cluster API takes one
// extension only for these hooks.
//
//	handlers := inplace.Handlers(inplace.Options{Cache: mgr.GetClient(), Live: mgr.GetAPIReader()})
package inplace
