// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/webhooks"
)

// Run runs the manager until ctx ends.
func Run(ctx context.Context, o *Options, open OpenSockets) error {
	if err := o.Validate(); err != nil {
		return err
	}
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	if o.Has(RoleHooks) {
		if err := errors.Join(setupHookCache(ctx, mgr.GetCache()), addHooksRole(ctx, mgr, o)); err != nil {
			return err
		}
	}
	if !o.hasAgents() {
		return mgr.Start(ctx)
	}
	if err := setupCache(ctx, mgr.GetCache(), o); err != nil {
		return err
	}
	identity, err := loadIdentity(ctx, mgr, o)
	if err != nil {
		return err
	}
	sockets, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer sockets.Close()
	bindings := &pxe.AddressBindings{}
	if o.Has(RoleControllers) {
		sources, err := o.bmcSources(ctx, mgr.GetAPIReader(), mgr.GetConfig())
		if err != nil {
			return err
		}
		o.BMC.Sources = &sources
		if err := addControllersRole(ctx, mgr, o, identity, sockets, bindings); err != nil {
			return err
		}
	}
	if o.Has(RoleBoot) {
		if err := addBootRole(mgr, o, identity, sockets, bindings); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

// addControllersRole adds controllers, agent API and webhooks.
func addControllersRole(ctx context.Context, mgr manager.Manager, o *Options, identity *identity, sockets *Sockets, bindings *pxe.AddressBindings) error {
	watch := continuityWatch(mgr, o)
	if err := addControllers(ctx, mgr, o, identity, watch); err != nil {
		return err
	}
	if err := addBootKeys(mgr, o, identity); err != nil {
		return err
	}
	if err := addMigrator(ctx, mgr, o); err != nil {
		return err
	}
	if err := addAgentAPI(mgr, o, identity, sockets, bindings, watch); err != nil {
		return err
	}
	if !o.servesWebhooks() {
		return nil
	}
	dialer := NewDialer()
	return webhooks.SetupWithManager(mgr, webhooks.Options{
		ManagerUsername: o.ManagerUsername, BMCs: webhooks.BMCs{Check: dialer.Check, Offers: dialer.Offers, Source: o.BMC.Sources.Check},
	})
}

// everywhere is a manager.Runnable that runs on every replica.
type everywhere func(context.Context) error

// Start implements manager.Runnable.
func (f everywhere) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection returns false.
func (everywhere) NeedLeaderElection() bool { return false }

// setupCache sets up the indexes of the roles. Each index starts a watch, so a boot server gets only
// those that its RBAC allows. A boot server starts all its watches before it is ready: a watch that
// the first boot starts would block that boot while the API server is unavailable.
func setupCache(ctx context.Context, c cache.Cache, o *Options) error {
	setup := index.Setup
	if o.forwardsAgents() {
		setup = index.SetupDirectory
	}
	if err := setup(ctx, c); err != nil || !o.Has(RoleBoot) {
		return err
	}
	for _, object := range []client.Object{&infrav1.IngotHost{}, &infrav1.IngotHardware{}, &infrav1.IngotNetwork{}, &infrav1.IngotCluster{}} {
		if _, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T for the boot server: %w", object, err)
		}
	}
	return nil
}
