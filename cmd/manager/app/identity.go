// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ingot-metal/ingot/internal/token"
)

// identity contains the keys by which agents and manager authenticate each other.
type identity struct {
	keys token.Keys
	pins []token.Pin
	// files are the sources of keys and pins.
	files token.Files
	// certificate is the certificate of the agent API, only for the role controllers.
	certificate tls.Certificate
}

// loadIdentity reads the keys from the Secret, which it creates if needed, or from the directory.
func loadIdentity(ctx context.Context, mgr manager.Manager, o *Options) (*identity, error) {
	if o.AgentKeySecret == "" {
		files, err := token.ReadDir(o.AgentKeyDir)
		if err != nil {
			return nil, fmt.Errorf("--agent-key-dir: %w", err)
		}
		return newIdentity(files, o)
	}
	key, err := secretKey("--agent-key-secret", o.AgentKeySecret)
	if err != nil {
		return nil, err
	}
	files, err := token.Secret{Live: mgr.GetAPIReader(), Writer: mgr.GetClient(), Key: key}.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("--agent-key-secret: %w", err)
	}
	return newIdentity(files, o)
}

func newIdentity(files token.Files, o *Options) (*identity, error) {
	keys, keysErr := files.Keys()
	pins, pinsErr := files.Pins()
	if err := errors.Join(keysErr, pinsErr); err != nil {
		return nil, fmt.Errorf("read the agent keys: %w", err)
	}
	out := &identity{keys: keys, pins: pins, files: files}
	if !o.Has(RoleControllers) {
		return out, nil
	}
	if err := files.Check(); err != nil {
		return nil, fmt.Errorf("read the agent keys: %w", err)
	}
	certificate, err := files.Certificate()
	if err != nil {
		return nil, fmt.Errorf("read the agent keys: %w", err)
	}
	out.certificate = certificate
	return out, nil
}

const (
	// bootKeysRetry is the delay after a failed write: the boot servers' namespace and its RBAC may
	// be installed after the manager.
	bootKeysRetry = 10 * time.Second
	// bootKeysCheck is the interval at which a correct Secret is checked.
	bootKeysCheck = 5 * time.Minute
)

// bootKeys keeps the keys that boot servers need in a Secret of their namespace. It runs on the
// leader.
type bootKeys struct {
	secret token.Secret
	files  token.Files
	log    logr.Logger
}

// addBootKeys adds bootKeys if --boot-key-secret is set.
func addBootKeys(mgr manager.Manager, o *Options, identity *identity) error {
	if o.BootKeySecret == "" {
		return nil
	}
	key, err := secretKey("--boot-key-secret", o.BootKeySecret)
	if err != nil {
		return err
	}
	return mgr.Add(&bootKeys{
		secret: token.Secret{Live: mgr.GetAPIReader(), Writer: mgr.GetClient(), Key: key}, files: identity.files, log: mgr.GetLogger().WithName("boot-keys"),
	})
}

// Start writes the Secret, and restores it when it is changed or deleted, until the context ends.
func (b *bootKeys) Start(ctx context.Context) error {
	lastReason := ""
	for {
		wait, reason := bootKeysCheck, ""
		if err := b.secret.Publish(ctx, b.files); err != nil && ctx.Err() == nil {
			wait, reason = bootKeysRetry, err.Error()
			if reason != lastReason {
				b.log.Info("Failed to write the keys of the boot servers; retrying", "secret", b.secret.Key.String(), "reason", reason, "interval", bootKeysRetry)
			}
		}
		lastReason = reason
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
