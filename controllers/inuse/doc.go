// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inuse releases what hosts need once no host needs it any more (I23).
//
// The IngotHardware of a host, the Secret with the credentials of its BMC and the Secret or
// ConfigMap with the CA of its BMC carry InUseFinalizer. Packages hardware and access add
// it. When such an object is deleted (a person, the garbage collector in a foreground
// deletion, the namespace controller, a pruning GitOps tool), the object and its content stay
// until the last host that uses it is forgotten: that host has still to be fenced and cleaned.
// This package then removes the finalizer.
package inuse
