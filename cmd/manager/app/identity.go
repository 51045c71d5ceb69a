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

// identity is what agents and manager know each other by.
type identity struct {
	keys token.Keys
	pins []token.Pin
	// files are what these were read from.
	files token.Files
	// certificate of the agent API, for the role controllers only.
	certificate tls.Certificate
}

// loadIdentity reads the keys from the Secret, which it makes if it is missing, or
// from the directory.
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
		return nil, fmt.Errorf("agent keys: %w", err)
	}
	out := &identity{keys: keys, pins: pins, files: files}
	if !o.Has(RoleControllers) {
		return out, nil
	}
	if err := files.Check(); err != nil {
		return nil, fmt.Errorf("agent keys: %w", err)
	}
	certificate, err := files.Certificate()
	if err != nil {
		return nil, fmt.Errorf("agent keys: %w", err)
	}
	out.certificate = certificate
	return out, nil
}

const (
	// bootKeysRetry is how soon a write that failed is tried again: the boot servers'
	// namespace, and the right to write there, may be installed after the manager.
	bootKeysRetry = 10 * time.Second
	// bootKeysCheck is how often the Secret is looked at when it was right.
	bootKeysCheck = 5 * time.Minute
)

// bootKeys keeps what boot servers need of the agent keys in a Secret of their namespace. It
// runs with the leader.
type bootKeys struct {
	secret token.Secret
	files  token.Files
	log    logr.Logger
}

// addBootKeys adds it, where there is such a Secret.
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

// Start writes the Secret, and again where it was changed or deleted, until the context ends.
func (b *bootKeys) Start(ctx context.Context) error {
	said := ""
	for {
		wait, now := bootKeysCheck, ""
		if err := b.secret.Publish(ctx, b.files); err != nil && ctx.Err() == nil {
			wait, now = bootKeysRetry, err.Error()
			if now != said {
				b.log.Info("Boot servers have no keys yet; Ingot tries again", "secret", b.secret.Key.String(), "reason", now, "interval", bootKeysRetry)
			}
		}
		said = now
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
