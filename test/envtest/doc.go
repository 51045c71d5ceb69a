// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envtest gives a test a real etcd and kube-apiserver with custom
// resource definitions in it, for reconcilers and webhooks. It wraps
// controller-runtime's package of that name and adds where the programs and
// the definitions are.
//
// Without the programs a test skips and names the command that builds them (package needs).
// There is no controller manager and no Cluster API controller in it; for those
// see lab/controlplane.
//
//	func TestReconcile(t *testing.T) {
//		cfg := envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
//		c, err := client.New(cfg, client.Options{Scheme: scheme})
//		...
//	}
package envtest
