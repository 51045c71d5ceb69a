// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Snapshot saves the content of etcd to a file that does not exist yet, as operators do by
// "etcdctl snapshot save". It and the functions below need the tools of the group etcd.
func (c *ControlPlane) Snapshot(ctx context.Context, file string) error {
	return c.etcdTool(ctx, "etcdctl", "snapshot", "save", file, "--endpoints=http://"+loopback(c.etcdPort))
}

// Restore replaces the content of etcd by a snapshot. All processes end and are started
// again, the managers of Cluster API too; it returns when they work. Managers that the
// caller has started must have ended before.
func (c *ControlPlane) Restore(ctx context.Context, file string) error {
	c.Stop()
	if err := os.RemoveAll(filepath.Join(c.dir, "etcd")); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := c.restoreEtcd(ctx, file); err != nil {
		return err
	}
	if err := c.startServers(ctx); err != nil {
		return fmt.Errorf("start the restored control plane: %w", err)
	}
	return c.startManagers(ctx)
}

// StartCopy starts a second management cluster in dir, which must be empty, on a snapshot of
// this one. It has the same keys and other ports. The webhooks that it calls are those of
// this one, and of Cluster API no managers run there. The caller stops it.
func (c *ControlPlane) StartCopy(ctx context.Context, dir, file string) (*ControlPlane, error) {
	dir, err := emptyDir(dir)
	if err != nil {
		return nil, err
	}
	other := &ControlPlane{dir: dir, tools: c.tools, opts: c.opts, gates: c.gates, webhookCA: c.webhookCA}
	if err := other.startCopy(ctx, c, file); err != nil {
		other.Stop()
		return nil, fmt.Errorf("start a copy of the control plane: %w", err)
	}
	return other, nil
}

func (c *ControlPlane) startCopy(ctx context.Context, of *ControlPlane, file string) error {
	if err := c.takePorts(); err != nil {
		return err
	}
	for _, keys := range []string{"pki", filepath.Base(of.WebhookCertificates())} {
		if err := os.CopyFS(filepath.Join(c.dir, keys), os.DirFS(filepath.Join(of.dir, keys))); err != nil {
			return err
		}
	}
	for _, name := range []string{kubeconfigFile, managerKubeconfigFile} {
		text, err := os.ReadFile(filepath.Join(of.dir, name))
		if err != nil {
			return err
		}
		moved := strings.ReplaceAll(string(text), loopback(of.apiPort), loopback(c.apiPort))
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(moved), 0o600); err != nil {
			return err
		}
	}
	if err := c.restoreEtcd(ctx, file); err != nil {
		return err
	}
	return c.startServers(ctx)
}

// restoreEtcd makes etcd's data directory from a snapshot.
func (c *ControlPlane) restoreEtcd(ctx context.Context, file string) error {
	data := filepath.Join(c.dir, "etcd")
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore etcd: %s exists (%w)", data, err)
	}
	peer := "http://" + loopback(c.peerPort)
	return c.etcdTool(ctx, "etcdutl", "snapshot", "restore", file, "--data-dir="+data, "--name=default",
		"--initial-cluster=default="+peer, "--initial-advertise-peer-urls="+peer)
}

// etcdTool runs one of etcd's tools to its end.
func (c *ControlPlane) etcdTool(ctx context.Context, name string, args ...string) error {
	path, err := c.tools.Binary(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s %s: %w: %s", name, args[0], args[1], err, bytes.TrimSpace(out))
	}
	return nil
}
