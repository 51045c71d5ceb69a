// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ingot-metal/ingot/hack/debian"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/image"
)

// imagesFile lists the container images in a disk, one name per line.
const imagesFile = "images.txt"

// Kind returns the cache directory of the images of a Kubernetes version.
func Kind(version string) string { return "node-" + version }

// Build returns the directory with the node disk of a Kubernetes version, such as v1.36.3, and
// builds it if it does not exist.
func Build(ctx context.Context, c *debian.Cache, version string) (string, error) {
	if err := debian.NeedTools(ctx); err != nil {
		return "", err
	}
	release, kubernetes, err := fetchRelease(ctx, version)
	if err != nil {
		return "", err
	}
	set, err := tools.Open()
	if err != nil {
		return "", err
	}
	if err := set.Build(ctx, os.Stdout, "containerd"); err != nil {
		return "", err
	}
	containerd := map[string]string{}
	for _, name := range containerdPrograms {
		if containerd[name], err = set.Binary(name); err != nil {
			return "", err
		}
	}
	programs, err := buildPrograms(ctx, c, set, release, kubernetes)
	if err != nil {
		return "", err
	}
	system, err := release.System(programs, containerd)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "ingot-node-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	podNetwork := filepath.Join(work, "podnetd")
	if err := buildPodNetwork(ctx, set.Root(), podNetwork); err != nil {
		return "", err
	}
	return buildDisk(ctx, c, release, programs, podNetwork, system)
}

// buildPodNetwork builds the lab's network plugin of this source tree.
func buildPodNetwork(ctx context.Context, root, output string) error {
	_, err := debian.RunGo(ctx, root, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", output, "./lab/podnet/podnetd")
	if err != nil {
		return fmt.Errorf("build the network plugin: %w", err)
	}
	return nil
}

func buildDisk(ctx context.Context, c *debian.Cache, r Release, programs, podNetwork string, system debian.System) (string, error) {
	sources, err := debian.Sources(ctx)
	if err != nil {
		return "", err
	}
	base, err := system.Key(sources)
	if err != nil {
		return "", err
	}
	plugin, err := debian.SHA256File(podNetwork)
	if err != nil {
		return "", err
	}
	return c.Result(Kind(r.Kubernetes), diskKey(base, r, programs, plugin), func(dir string) error {
		work, err := os.MkdirTemp(dir, ".work-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		filter, err := extractPacketFilter(ctx, sources, work)
		if err != nil {
			return err
		}
		images := r.containers(programs, podNetwork, filter)
		archive := filepath.Join(work, "images.tar")
		if err := writeArchive(archive, images); err != nil {
			return err
		}
		system.Files = append(system.Files, debian.File{Path: archivePath, Source: archive})
		if err := system.Build(ctx, sources, dir); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, imagesFile), []byte(listOf(images)), 0o644)
	})
}

// diskKey extends the key by the content of the future image archive: the programs by the key of
// their directory, the network plugin by its checksum, and the recipe of their images.
func diskKey(base string, r Release, programs, plugin string) string {
	return debian.Key("node disk 2", base, filepath.Base(programs), plugin, strings.Join(packetFilterPackages, " "),
		fmt.Sprintf("%q", r.containers("", "", packetFilter{})))
}

func listOf(images []image.Image) string {
	var b strings.Builder
	for _, i := range images {
		fmt.Fprintln(&b, i.Name)
	}
	return b.String()
}

func writeArchive(path string, images []image.Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	err = image.WriteArchive(out, images)
	return errors.Join(err, out.Flush(), f.Close())
}

// extractPacketFilter extracts iptables and nft from Debian packages to files below dir.
func extractPacketFilter(ctx context.Context, sources []debian.Source, dir string) (packetFilter, error) {
	archive := filepath.Join(dir, "filter.tar")
	if err := debian.Extract(ctx, sources, packetFilterPackages, archive); err != nil {
		return packetFilter{}, err
	}
	f, err := os.Open(archive)
	if err != nil {
		return packetFilter{}, err
	}
	defer f.Close()
	all, err := readTree(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return packetFilter{}, fmt.Errorf("read the packages %s: %w", strings.Join(packetFilterPackages, ", "), err)
	}
	part, err := packetFilterOf(all)
	if err != nil {
		return packetFilter{}, err
	}
	filter := packetFilter{files: map[string]string{}, links: part.links}
	for name, content := range part.files {
		path := filepath.Join(dir, "filter", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return packetFilter{}, err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return packetFilter{}, err
		}
		filter.files[name] = path
	}
	return filter, nil
}
