// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki issues the certificates of the lab's control planes and writes
// kubeconfigs. It knows X.509 and nothing of what the certificates are for.
// Keys are ECDSA P-256: RSA keys take seconds on a busy machine.
//
//	ca, err := pki.NewAuthority("lab")
//	serving, err := ca.Server("kube-apiserver", []string{"kubernetes"}, net.IPv4(10, 96, 0, 1))
//	err = serving.Write(dir, "apiserver") // apiserver.crt, apiserver.key
//	admin, err := ca.Client("admin", "system:masters")
//	err = pki.WriteKubeconfig(path, "https://127.0.0.1:6443", ca, admin)
package pki
