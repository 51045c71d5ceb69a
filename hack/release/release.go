// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultImage is the repository of Ingot's image (K22).
const DefaultImage = "ghcr.io/ingot-metal/ingot"

// Provider is the label of the provider, and so the directory of a local
// repository (K13).
const Provider = "infrastructure-ingot"

// runtimeProviderDir is the directory of the runtime extension in a clusterctl repository.
const runtimeProviderDir = "runtime-extension-ingot"

// bootProviderDir is the directory of the boot servers in a clusterctl repository.
const bootProviderDir = "addon-ingot"

// ErrVersion is returned for a version that this source tree cannot be released as.
var ErrVersion = errors.New("version cannot be released")

// Options configures a release.
type Options struct {
	// Root is the top directory of the source tree.
	Root string
	// Version is the tag: a semantic version with "v" of a series in metadata.yaml.
	Version string
	// Out is the directory to write to. Files of the same version are replaced.
	Out string
	// Image is the repository of the image without tag; "" means DefaultImage.
	Image string
	// Agent is the required version of the agent in the image; "" accepts any.
	Agent string
	// NoImages omits binary and archive.
	NoImages bool
}

// Release contains the written files as paths below Options.Out.
type Release struct {
	// Dir is the clusterctl repository's directory of this version.
	Dir string
	// Components and Metadata are the files for clusterctl init.
	Components, Metadata string
	// RuntimeDir, RuntimeComponents and RuntimeMetadata belong to the runtime extension.
	RuntimeDir, RuntimeComponents, RuntimeMetadata string
	// BootDir, BootComponents and BootMetadata belong to the boot servers.
	BootDir, BootComponents, BootMetadata string
	// Templates are the cluster templates and the ClusterClass, sorted.
	Templates []string
	// Image is the image name with tag, as in the components.
	Image string
	// Archive is the image as an OCI archive; "" with NoImages.
	Archive string
	// Checksums are the SHA-256 sums of all files, in the format of sha256sum.
	Checksums string
}

// Write writes the release. The error wraps ErrVersion if this source tree cannot be released as
// the version.
func Write(ctx context.Context, o Options) (*Release, error) {
	if o.Image == "" {
		o.Image = DefaultImage
	}
	metadata, err := os.ReadFile(filepath.Join(o.Root, "metadata.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the release series: %w", err)
	}
	if err := checkVersion(o.Version, metadata); err != nil {
		return nil, err
	}
	r := &Release{
		Dir: filepath.Join(o.Out, Provider, o.Version), RuntimeDir: filepath.Join(o.Out, runtimeProviderDir, o.Version),
		BootDir: filepath.Join(o.Out, bootProviderDir, o.Version), Image: o.Image + ":" + o.Version,
	}
	if r.Components, r.Metadata, err = writeProvider(ctx, o, repository{
		dir: r.Dir, config: "default", components: "infrastructure-components.yaml", image: r.Image, metadata: metadata,
	}); err != nil {
		return nil, err
	}
	if r.RuntimeComponents, r.RuntimeMetadata, err = writeProvider(ctx, o, repository{
		dir: r.RuntimeDir, config: "runtime-extension", components: "runtime-extension-components.yaml", image: r.Image, metadata: metadata,
	}); err != nil {
		return nil, err
	}
	if r.BootComponents, r.BootMetadata, err = writeProvider(ctx, o, repository{
		dir: r.BootDir, config: "boot", components: "addon-components.yaml", image: r.Image, metadata: metadata,
	}); err != nil {
		return nil, err
	}
	if r.Templates, err = copyTemplates(o.Root, r.Dir); err != nil {
		return nil, err
	}
	if !o.NoImages {
		r.Archive = filepath.Join(o.Out, "images", fmt.Sprintf("ingot-%s-linux-%s.tar", o.Version, architecture))
		if err := writeArchive(ctx, o, r); err != nil {
			return nil, err
		}
	}
	r.Checksums = filepath.Join(o.Out, "SHA256SUMS-"+o.Version)
	return r, writeChecksums(r.Checksums, o.Out, r.Files())
}

// repository is a directory of a clusterctl repository with the kustomization that is rendered to
// it.
type repository struct {
	dir, config, components, image string
	metadata                       []byte
}

// writeProvider renders the files before it replaces existing ones.
func writeProvider(ctx context.Context, o Options, p repository) (componentsPath, metadataPath string, err error) {
	rendered, err := components(ctx, filepath.Join(o.Root, "config", p.config), p.image)
	if err != nil {
		return "", "", err
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return "", "", fmt.Errorf("replace %s: %w", o.Version, err)
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return "", "", err
	}
	componentsPath, metadataPath = filepath.Join(p.dir, p.components), filepath.Join(p.dir, "metadata.yaml")
	return componentsPath, metadataPath, errors.Join(
		os.WriteFile(componentsPath, rendered, 0o644), os.WriteFile(metadataPath, p.metadata, 0o644))
}

// copyTemplates copies the cluster templates and ClusterClasses, which do not depend on the
// version.
func copyTemplates(root, dir string) ([]string, error) {
	names, err := templateNames(root)
	if err != nil {
		return nil, err
	}
	var copies []string
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(root, "templates", name))
		if err != nil {
			return nil, fmt.Errorf("read the template: %w", err)
		}
		to := filepath.Join(dir, name)
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return nil, err
		}
		copies = append(copies, to)
	}
	return copies, nil
}

// templateNames lists the files with the names that clusterctl requires (K30, K37), sorted. A
// missing default template is an error (K29).
func templateNames(root string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(root, "templates"))
	if err != nil {
		return nil, fmt.Errorf("list the templates: %w", err)
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, ".yaml") && (strings.HasPrefix(name, "cluster-template") || strings.HasPrefix(name, "clusterclass-")) {
			names = append(names, name)
		}
	}
	if !slices.Contains(names, "cluster-template.yaml") {
		return nil, errors.New("templates/cluster-template.yaml is missing")
	}
	return names, nil
}
