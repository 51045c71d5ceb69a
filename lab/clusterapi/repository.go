// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/hack/tools"
)

// module is Cluster API's; group is where hack/tools pins it.
const (
	module = "sigs.k8s.io/cluster-api"
	group  = "capi"
)

// A Repository says what is written, and where.
type Repository struct {
	// Dir gets the repository and clusterctl.yaml; it is made if missing.
	Dir string
	// CertManager says how clusterctl comes to cert-manager. Where it is empty,
	// clusterctl takes it for installed by others.
	CertManager CertManager
	// Others are providers besides Cluster API's own.
	Others []Entry
}

// CertManager is a manifest of cert-manager on disk.
type CertManager struct{ Manifest, Version string }

// An Entry is a provider in clusterctl's configuration, for example ingot,
// InfrastructureProvider, and the path of its components: clusterctl reads label
// and version from the path, <label>/<version>/<file>.
type Entry struct {
	Name string `json:"name"`
	Kind string `json:"type"`
	URL  string `json:"url"`
}

// Version returns the version of Cluster API that is pinned.
func Version(set *tools.Set) (string, error) { return set.Version(group, module) }

// WriteRepository writes the repository and returns the path of the clusterctl
// configuration. It runs kubectl of hack/tools; an error wraps tools.ErrNotBuilt
// if that is missing.
func WriteRepository(ctx context.Context, set *tools.Set, r Repository) (string, error) {
	config, err := writeRepository(ctx, set, r)
	if err != nil {
		return "", fmt.Errorf("write the clusterctl repository: %w", err)
	}
	return config, nil
}

func writeRepository(ctx context.Context, set *tools.Set, r Repository) (string, error) {
	source, err := set.ModuleDir(ctx, group, module)
	if err != nil {
		return "", err
	}
	version, err := Version(set)
	if err != nil {
		return "", err
	}
	kubectl, err := set.Binary("kubectl")
	if err != nil {
		return "", err
	}
	metadata, err := os.ReadFile(filepath.Join(source, "metadata.yaml"))
	if err != nil {
		return "", fmt.Errorf("read Cluster API's metadata: %w", err)
	}
	var entries []Entry
	renders, renderContext := errgroup.WithContext(ctx)
	for _, p := range Providers() {
		dir := filepath.Join(r.Dir, "repository", p.Label, version)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, "metadata.yaml"), metadata, 0o600); err != nil {
			return "", err
		}
		file := filepath.Join(dir, p.Components)
		renders.Go(func() error {
			built, err := kustomize(renderContext, kubectl, filepath.Join(source, p.Source, "config", "default"))
			if err != nil {
				return err
			}
			return os.WriteFile(file, released(built, p.Image, version), 0o600)
		})
		entries = append(entries, Entry{Name: p.Name, Kind: p.Kind, URL: file})
	}
	if err := renders.Wait(); err != nil {
		return "", err
	}
	return r.writeConfig(append(entries, r.Others...))
}

// kustomize renders a directory of kustomizations.
func kustomize(ctx context.Context, kubectl, dir string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, kubectl, "kustomize", dir)
	// A kubeconfig of the user has nothing to say here.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("kubectl kustomize %s: %w", dir, err)
	}
	return out, nil
}

// released does to the source's manifest what Cluster API's release does: it
// names the released image instead of the one of the development branch, and
// lets the kubelet use an image that is there.
func released(manifest []byte, image, version string) []byte {
	return []byte(strings.NewReplacer(
		"image: gcr.io/k8s-staging-cluster-api/"+path.Base(image)+":main\n", "image: "+image+":"+version+"\n",
		"imagePullPolicy: Always\n", "imagePullPolicy: IfNotPresent\n",
	).Replace(string(manifest)))
}

// writeConfig writes clusterctl's configuration and returns its path.
func (r Repository) writeConfig(entries []Entry) (string, error) {
	// Without cert-manager clusterctl must not try to install one if its check
	// of the kinds fails, but say so.
	certManager := map[string]string{"externallyProvisioned": "true"}
	if r.CertManager.Manifest != "" {
		certManager = map[string]string{"url": r.CertManager.Manifest, "version": r.CertManager.Version}
	}
	config, err := yaml.Marshal(map[string]any{
		"providers":                       entries,
		"cert-manager":                    certManager,
		"CLUSTERCTL_DISABLE_VERSIONCHECK": "true",
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.Dir, "clusterctl.yaml")
	return file, os.WriteFile(file, config, 0o600)
}
