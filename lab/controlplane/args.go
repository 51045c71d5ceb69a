// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"path/filepath"
	"strconv"
)

// EtcdArguments are those of an etcd on loopback with its data in dir/etcd.
func EtcdArguments(dir string, clientPort, peerPort int) []string {
	client, peer := "http://"+loopback(clientPort), "http://"+loopback(peerPort)
	return []string{
		"--data-dir=" + filepath.Join(dir, "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		// The data does not outlive the lab; a slow disk must not slow it down.
		"--unsafe-no-fsync",
	}
}

// An APIServer says where an API server listens and what it stands on.
type APIServer struct {
	// Dir holds the keys of WritePKI.
	Dir string
	// Bind is the address that it listens on, Advertise the one that it tells
	// pods, which must not be of loopback.
	Bind, Advertise string
	Port            int
	// EtcdPort is that of etcd on loopback.
	EtcdPort int
}

// Arguments are those of kube-apiserver.
func (s APIServer) Arguments() []string {
	pki := func(file string) string { return filepath.Join(s.Dir, "pki", file) }
	return []string{
		"--etcd-servers=http://" + loopback(s.EtcdPort),
		"--bind-address=" + s.Bind,
		"--secure-port=" + strconv.Itoa(s.Port),
		"--advertise-address=" + s.Advertise,
		"--service-cluster-ip-range=" + serviceRange,
		"--authorization-mode=Node,RBAC",
		"--enable-bootstrap-token-auth=true",
		"--client-ca-file=" + pki("ca.crt"),
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki("service-accounts.crt"),
		"--service-account-signing-key-file=" + pki("service-accounts.key"),
	}
}

// ManagerArguments are those of a kube-controller-manager with the keys and the
// kubeconfig of WritePKI in dir, and health and metrics on a port of loopback.
func ManagerArguments(dir string, port int) []string {
	pki := func(file string) string { return filepath.Join(dir, "pki", file) }
	kubeconfig := filepath.Join(dir, managerKubeconfigFile)
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--client-ca-file=" + pki("ca.crt"),
		"--root-ca-file=" + pki("ca.crt"),
		"--cluster-signing-cert-file=" + pki("ca.crt"),
		"--cluster-signing-key-file=" + pki("ca.key"),
		"--service-account-private-key-file=" + pki("service-accounts.key"),
	}
}
