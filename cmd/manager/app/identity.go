// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

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
