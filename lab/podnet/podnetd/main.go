// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command podnetd is the program of package podnet's pods. NODE_NAME says where it
// runs. With --hello it is instead a web server that tells its host name, for whoever
// wants to see that pods are reached.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ingot-metal/ingot/lab/podnet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "podnet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pods := flag.String("pods", "", "network of all pods of the cluster, IPv4")
	dir := flag.String("configuration-dir", "/etc/cni/net.d", "where the container runtime looks for CNI configurations")
	hello := flag.String("hello", "", "address, for example :8080, to tell the host name at; nothing else is done then")
	flag.Parse()
	if *hello != "" {
		return sayHello(ctx, *hello)
	}
	prefix, err := netip.ParsePrefix(*pods)
	if err != nil {
		return fmt.Errorf("--pods: %w", err)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return podnet.Run(ctx, podnet.Options{Node: os.Getenv("NODE_NAME"), Pods: prefix, ConfigurationDir: *dir, Client: client})
}

func sayHello(ctx context.Context, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return podnet.Hello(ctx, listener, name)
}
