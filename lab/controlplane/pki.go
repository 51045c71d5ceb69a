// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/ingot-metal/ingot/lab/pki"
)

// writePKI makes the keys of a control plane in dir/pki and the kubeconfigs of
// the administrator and the controller manager in dir. serviceIP is the first
// address of the service range, by which pods would reach the API server.
func writePKI(dir, server string, serviceIP net.IP) error {
	keys := filepath.Join(dir, "pki")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		return fmt.Errorf("make the key directory: %w", err)
	}
	ca, err := pki.NewAuthority("ingot-lab")
	if err != nil {
		return err
	}
	apiserver, err := ca.Server("kube-apiserver", []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"}, serviceIP)
	if err != nil {
		return err
	}
	serviceAccounts, err := pki.NewAuthority("service-accounts") // only its key is used
	if err != nil {
		return err
	}
	for name, pair := range map[string]*pki.KeyPair{"ca": ca, "apiserver": apiserver, "service-accounts": serviceAccounts} {
		if err := pair.Write(keys, name); err != nil {
			return err
		}
	}
	// The group system:masters is let through by the API server itself, so no
	// role binding has to exist first.
	admin, err := ca.Client("ingot-lab-admin", "system:masters")
	if err != nil {
		return err
	}
	manager, err := ca.Client("system:kube-controller-manager")
	if err != nil {
		return err
	}
	if err := pki.WriteKubeconfig(filepath.Join(dir, kubeconfigFile), server, ca, admin); err != nil {
		return err
	}
	return pki.WriteKubeconfig(filepath.Join(dir, managerKubeconfigFile), server, ca, manager)
}
