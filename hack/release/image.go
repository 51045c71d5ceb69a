// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/ingot-metal/ingot/hack/tools"
)

// architecture is the GOARCH value of the image and of the agent in it.
const architecture = "amd64"

// nonRoot is the user of the image. The boot server's Pod overrides it.
const nonRoot = 65532

const passwd = `root:x:0:0:root:/root:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin
`

const group = `root:x:0:
nobody:x:65534:
nonroot:x:65532:
`

// loaderDir contains Debian's iPXE loaders, on this machine and in the image.
const loaderDir = "/usr/lib/ipxe"

// loaders are the iPXE loaders of the boot server: the small and the full one for BIOS and for x64
// UEFI (see pxe/dhcp).
var loaders = []string{"undionly.kpxe", "ipxe.pxe", "snponly.efi", "ipxe.efi"}

// imageFiles lists the files of the image by layer, the least changing first. The manager is built
// in the directory work.
func imageFiles(ctx context.Context, o Options, work string) ([][]file, error) {
	binary := filepath.Join(work, "manager")
	if err := buildManager(ctx, o, binary); err != nil {
		return nil, err
	}
	system, err := systemFiles(ctx, o.Root)
	if err != nil {
		return nil, err
	}
	boot, err := bootFiles(o.Agent)
	if err != nil {
		return nil, err
	}
	licenses, err := linkedLicenses(ctx, o.Root)
	if err != nil {
		return nil, err
	}
	return [][]file{system, boot, append(licenses, file{path: "/manager", source: binary, mode: 0o755})}, nil
}

// buildImage assembles the image.
func buildImage(version string, layers [][]file) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	for _, files := range layers {
		l, err := layer(files)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: l, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "hack/release"}}); err != nil {
			return nil, fmt.Errorf("add a layer: %w", err)
		}
	}
	made, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, imageConfig(made, version))
}

// imageConfig keeps history and layers of a configuration, and sets how the image runs.
func imageConfig(made *v1.ConfigFile, version string) *v1.ConfigFile {
	config := made.DeepCopy()
	config.Architecture, config.OS = architecture, "linux"
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{
		Entrypoint: []string{"/manager"},
		User:       fmt.Sprintf("%d:%d", nonRoot, nonRoot),
		WorkingDir: "/",
		Env:        []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "ingot",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.source":   "https://github.com/ingot-metal/ingot",
			"org.opencontainers.image.licenses": "Apache-2.0 AND GPL-2.0-only AND GPL-2.0-or-later",
		},
	}
	return config
}

// buildManager builds a reproducible static binary.
func buildManager(ctx context.Context, o Options, output string) error {
	_, err := goTool(ctx, o.Root, "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -X main.version="+o.Version, "-o", output, "./cmd/manager")
	if err != nil {
		return fmt.Errorf("build the manager: %w", err)
	}
	return nil
}

// systemFiles returns the system files that a program needs, and the loaders of the boot server.
func systemFiles(ctx context.Context, root string) ([]file, error) {
	bundle, err := authorities(certificates)
	if err != nil {
		return nil, err
	}
	files := []file{
		{path: "/etc/passwd", content: passwd, mode: 0o644},
		{path: "/etc/group", content: group, mode: 0o644},
		{path: "/etc/ssl/certs/ca-certificates.crt", content: bundle, mode: 0o644},
		{path: "/tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{path: "/var/cache/ingot", mode: fs.ModeDir | 0o755, uid: nonRoot},
		{path: "/usr/share/doc/ingot/copyright", source: filepath.Join(root, "LICENSE"), mode: 0o644},
		{path: "/usr/share/doc/ipxe/copyright", source: "/usr/share/doc/ipxe/copyright", mode: 0o644},
	}
	for _, name := range loaders {
		files = append(files, file{path: loaderDir + "/" + name, source: loaderDir + "/" + name, mode: 0o644})
	}
	source, err := sourcePackage(ctx, "ipxe")
	if err != nil {
		return nil, err
	}
	return append(files, file{path: "/usr/share/doc/ipxe/source", content: source, mode: 0o644}), nil
}

// certificates is the directory of Debian's package ca-certificates. The machine's own bundle may
// contain the CA of a proxy that intercepts TLS, which installations must not trust.
const certificates = "/usr/share/ca-certificates/mozilla"

// authorities concatenates the certificates of a directory.
func authorities(dir string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.crt")) // sorted
	if err != nil || len(paths) == 0 {
		return "", fmt.Errorf("no certificate of an authority in %s: install Debian's package ca-certificates (%w)", dir, cmp.Or(err, fs.ErrNotExist))
	}
	var bundle strings.Builder
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		bundle.WriteString(strings.TrimRight(string(data), "\n") + "\n")
	}
	return bundle.String(), nil
}

// sourcePackage returns the Debian source package of a file under the GPL, so that users of the
// image know what to request.
func sourcePackage(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "dpkg-query", "--show", "--showformat=${source:Package} ${source:Version}\n", name).Output()
	if err != nil {
		return "", fmt.Errorf("look up the source of %s: %w", name, err)
	}
	return "Debian source package " + string(out), nil
}

// bootFiles returns the agent that "make agent-image" built last, with the license of its kernel.
// version is the required version of the agent; "" accepts any.
func bootFiles(version string) ([]file, error) {
	cache, err := tools.CacheDir()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(cache, "images", "agent", "current"))
	if err != nil {
		return nil, fmt.Errorf("find the agent's kernel and initramfs, built by make agent-image: %w", err)
	}
	built, err := os.ReadFile(filepath.Join(dir, "version"))
	if err != nil {
		return nil, fmt.Errorf("the agent that was built last is of an older source tree, run make agent-image: %w", err)
	}
	if got := strings.TrimSpace(string(built)); version != "" && got != version {
		return nil, fmt.Errorf("the agent that was built last, in %s, is of version %s, not %s: run INGOT_VERSION=%s go run ./hack/images agent, and nothing between that and the release", dir, got, version, version)
	}
	files := []file{
		{path: "/usr/share/doc/linux/copyright", source: filepath.Join(dir, "copyright"), mode: 0o644},
		{path: "/usr/share/doc/linux/source", source: filepath.Join(dir, "source"), mode: 0o644},
	}
	for _, pkg := range []string{"systemd-boot-efi", "shim-signed", "grub-efi-amd64-signed"} {
		for _, name := range []string{"copyright", "source"} {
			files = append(files, file{path: "/usr/share/doc/" + pkg + "/" + name, source: filepath.Join(dir, name+"."+pkg), mode: 0o644})
		}
	}
	for _, name := range []string{"linuxx64.efi.stub", "shimx64.efi", "grubx64.efi", "initramfs.cpio.zst", "vmlinuz"} {
		files = append(files, file{path: "/usr/share/ingot/agent/" + name, source: filepath.Join(dir, name), mode: 0o644})
	}
	return files, nil
}
