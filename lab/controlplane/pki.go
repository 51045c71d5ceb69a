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

// WritePKI makes the keys of a control plane in dir/pki and the kubeconfigs of
// the administrator ("kubeconfig") and the controller manager in dir. The API
// server's certificate is for loopback, for the first address of the service
// range, by which pods reach it, and for addresses. It returns the authority, to
// issue certificates of further clients.
func WritePKI(dir, server string, addresses ...net.IP) (*pki.KeyPair, error) {
	serviceIP, _, err := net.ParseCIDR(serviceRange)
	if err != nil {
		return nil, err
	}
	serviceIP = serviceIP.To4()
	serviceIP[3]++
	keys := filepath.Join(dir, "pki")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		return nil, fmt.Errorf("make the key directory: %w", err)
	}
	ca, err := pki.NewAuthority("ingot-lab")
	if err != nil {
		return nil, err
	}
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	apiserver, err := ca.Server("kube-apiserver", names, append(addresses, serviceIP)...)
	if err != nil {
		return nil, err
	}
	serviceAccounts, err := pki.NewAuthority("service-accounts") // only its key is used
	if err != nil {
		return nil, err
	}
	for name, pair := range map[string]*pki.KeyPair{"ca": ca, "apiserver": apiserver, "service-accounts": serviceAccounts} {
		if err := pair.Write(keys, name); err != nil {
			return nil, err
		}
	}
	// The group system:masters is let through by the API server itself, so no
	// role binding has to exist first.
	if err := writeClient(filepath.Join(dir, kubeconfigFile), server, ca, "ingot-lab-admin", "system:masters"); err != nil {
		return nil, err
	}
	return ca, writeClient(filepath.Join(dir, managerKubeconfigFile), server, ca, "system:kube-controller-manager")
}

// writeClient writes the kubeconfig of a new client.
func writeClient(path, server string, ca *pki.KeyPair, user string, groups ...string) error {
	client, err := ca.Client(user, groups...)
	if err != nil {
		return err
	}
	return pki.WriteKubeconfig(path, server, ca, client)
}
