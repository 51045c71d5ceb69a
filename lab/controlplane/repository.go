// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"
)

// writeRepository writes a clusterctl repository of the given providers on
// disk, from the kustomizations and metadata that the module of Cluster API
// carries, and returns the path of a clusterctl configuration that knows only
// this repository. Nothing is downloaded by clusterctl.
func (c *ControlPlane) writeRepository(ctx context.Context, all []provider) (string, error) {
	const module = "sigs.k8s.io/cluster-api"
	source, err := c.tools.ModuleDir(ctx, "capi", module)
	if err != nil {
		return "", err
	}
	version, err := c.tools.Version("capi", module)
	if err != nil {
		return "", err
	}
	metadata, err := os.ReadFile(filepath.Join(source, "metadata.yaml"))
	if err != nil {
		return "", fmt.Errorf("read Cluster API's metadata: %w", err)
	}

	var entries []map[string]string
	renders, renderContext := errgroup.WithContext(ctx)
	for _, p := range all {
		// clusterctl reads label and version from the path.
		dir := filepath.Join(c.dir, "repository", p.label, version)
		file := filepath.Join(dir, p.components)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("write the repository: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "metadata.yaml"), metadata, 0o600); err != nil {
			return "", fmt.Errorf("write the repository: %w", err)
		}
		renders.Go(func() error {
			out, err := c.Kubectl(renderContext, "kustomize", filepath.Join(source, p.source, "config", "default"))
			if err != nil {
				return err
			}
			return os.WriteFile(file, out, 0o600)
		})
		entries = append(entries, map[string]string{"name": p.name, "type": p.kind, "url": file})
	}
	if err := renders.Wait(); err != nil {
		return "", fmt.Errorf("write the repository: %w", err)
	}
	return c.writeClusterctlConfig(entries)
}

func (c *ControlPlane) writeClusterctlConfig(entries []map[string]string) (string, error) {
	config, err := yaml.Marshal(map[string]any{
		"providers": entries,
		// It must not try to install cert-manager if its check of the kinds
		// fails, but say so.
		"cert-manager":                    map[string]string{"externallyProvisioned": "true"},
		"CLUSTERCTL_DISABLE_VERSIONCHECK": "true",
	})
	if err != nil {
		return "", fmt.Errorf("write clusterctl's configuration: %w", err)
	}
	path := filepath.Join(c.dir, "clusterctl.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return "", fmt.Errorf("write clusterctl's configuration: %w", err)
	}
	return path, nil
}
