// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	requestca "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	requestselfsigned "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"         // registers the kind of issuer
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned" // registers the kind of issuer
)

// workers of each controller, as many as cert-manager itself starts.
const workers = 5

// wanted names the controllers that run.
var wanted = []string{
	clusterissuers.ControllerName,
	issuers.ControllerName,
	approver.ControllerName,
	requestca.CRControllerName,
	requestselfsigned.CRControllerName,
	issuing.ControllerName,
	keymanager.ControllerName,
	readiness.ControllerName,
	requestmanager.ControllerName,
	revisionmanager.ControllerName,
	trigger.ControllerName,
}

// runController issues certificates.
func runController(ctx context.Context, flags *pflag.FlagSet, args []string) error {
	addVerbosity(flags)
	namespace := flags.String("cluster-resource-namespace", "cert-manager", "namespace of the Secrets of ClusterIssuers")
	health := flags.String("healthz-listen-address", "0.0.0.0:9403", "address and port of /livez")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var options controller.ContextOptions
	options.ClusterResourceNamespace = *namespace
	// The zero value would retry a failed request without a pause; upstream's
	// default of an hour is longer than a lab lives.
	options.CertificateRequestMinimumBackoffDuration = 10 * time.Second
	options.CertificateRequestMaximumBackoffDuration = time.Hour
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	all, err := build(factory)
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())

	group, ctx := errgroup.WithContext(ctx)
	for _, c := range all {
		group.Go(func() error { return c.Run(workers, ctx) })
	}
	group.Go(func() error { return serveLivez(ctx, *health) })
	return group.Wait()
}

// build makes the wanted controllers.
func build(factory *controller.ContextFactory) ([]controller.Interface, error) {
	known := controller.Known()
	var all []controller.Interface
	for _, name := range wanted {
		construct, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("cert-manager has no controller %q", name)
		}
		c, err := construct(factory)
		if err != nil {
			return nil, fmt.Errorf("controller %s: %w", name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// serveLivez answers the liveness probe until ctx ends.
func serveLivez(ctx context.Context, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
