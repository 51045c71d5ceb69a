// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inuse removes InUseFinalizer from objects that no host needs anymore (I23).
//
// Packages hardware and bmccredentials add the finalizer to the IngotHardware of a host, the Secret
// with its BMC credentials, and the Secret or ConfigMap with its BMC's CA. If an operator, the
// garbage collector, the namespace controller or a GitOps tool deletes such an object, it stays
// until its last host is gone, since Ingot must still fence and clean that host.
//
// It also removes Ingot's labels from a Secret that hosts share and that no host names anymore.
package inuse
