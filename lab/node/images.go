// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/clusterapi"
	"github.com/ingot-metal/ingot/lab/image"
)

const (
	// pauseImage is the one of kubeadm in the pinned Kubernetes version.
	pauseImage = "registry.k8s.io/pause:3.10.2"

	certManagerGroup  = "certmanager"
	certManagerModule = "github.com/cert-manager/cert-manager"

	// Users of the released images, which their Deployments require.
	clusterAPIUser  = "65532"
	certManagerUser = "1000"
)

// baseImages returns a cached OCI archive with the images of every node. It is rebuilt when one of the
// programs changes.
func baseImages(set *tools.Set) (string, error) {
	images, err := describeImages(set)
	if err != nil {
		return "", err
	}
	cache, err := tools.CacheDir()
	if err != nil {
		return "", err
	}
	// The paths of the programs contain hashes of their sources.
	key := sha256.Sum256(fmt.Appendf(nil, "%q", images))
	path := filepath.Join(cache, "images", "node", hex.EncodeToString(key[:])[:16]+".tar")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := writeArchive(path, images); err != nil {
		return "", fmt.Errorf("build the images of a node: %w", err)
	}
	return path, nil
}

func describeImages(set *tools.Set) ([]image.Image, error) {
	pause, err := set.Binary("pause")
	if err != nil {
		return nil, err
	}
	images := []image.Image{{
		Name: pauseImage, Files: map[string]string{"/pause": pause}, Entrypoint: []string{"/pause"}, User: "65535",
	}}
	version, err := clusterapi.Version(set)
	if err != nil {
		return nil, err
	}
	for _, p := range clusterapi.Providers() {
		program, err := set.Binary(p.Program)
		if err != nil {
			return nil, err
		}
		images = append(images, image.Image{
			Name: p.Image + ":" + version, Files: map[string]string{"/manager": program},
			Entrypoint: []string{"/manager"}, User: clusterAPIUser,
		})
	}
	certManager, err := set.Binary("cert-manager")
	if err != nil {
		return nil, err
	}
	if version, err = set.Version(certManagerGroup, certManagerModule); err != nil {
		return nil, err
	}
	for _, name := range []string{"controller", "webhook", "cainjector"} {
		images = append(images, image.Image{
			Name: "quay.io/jetstack/cert-manager-" + name + ":" + version, Files: map[string]string{"/cert-manager": certManager},
			Entrypoint: []string{"/cert-manager", name}, User: certManagerUser,
		})
	}
	return images, nil
}

// writeArchive writes the archive to a temporary file and renames it. Concurrent writers have the same
// content.
func writeArchive(path string, images []image.Image) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".build-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	out := bufio.NewWriterSize(f, 1<<20)
	err = image.WriteArchive(out, images)
	if err = errors.Join(err, out.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Import imports the images of OCI archives for pods.
func (n *Node) Import(ctx context.Context, archives ...string) error {
	if err := poll(ctx, "containerd", n.Err, func(ctx context.Context) error {
		return n.ctr(ctx, "version")
	}); err != nil {
		return err
	}
	for _, archive := range archives {
		path, err := filepath.Abs(archive) // the sandbox has another working directory
		if err != nil {
			return err
		}
		if err := n.ctr(ctx, "--namespace=k8s.io", "images", "import", "--local", path); err != nil {
			return fmt.Errorf("import images of %s: %w", archive, err)
		}
	}
	return nil
}

// ctr runs containerd's client.
func (n *Node) ctr(ctx context.Context, arguments ...string) error {
	program, err := n.tools.Binary("ctr")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--address=" + n.file("containerd.sock")}, arguments...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
