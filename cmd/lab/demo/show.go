// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/management"
	"github.com/ingot-metal/ingot/lab/process"
	"github.com/ingot-metal/ingot/lab/qemu"
)

// labAddress is the manager's address on the user-space network of the servers.
const labAddress = "10.77.0.2/24"

// show is one run of the demo.
type show struct {
	Options
	dir     string
	started time.Time

	plane       *controlplane.ControlPlane
	dc          *datacenter.Datacenter
	ingot       *management.Ingot
	manager     *process.Process
	managerArgs []string
	// kills are the moments at which the manager was killed.
	kills   []string
	images  *http.Server
	capture *os.File
	client  client.Client
	// image is the OS image of the machines.
	image imageFile
	// password is the random password of every BMC.
	password string
	// inUse are the hosts that were provisioned.
	inUse  []string
	result result
}

type imageFile struct{ path, url, checksum string }

// say prints a line with the time since the start.
func (s *show) say(format string, args ...any) {
	fmt.Fprintf(s.Out, "[%4.0fs] %s\n", time.Since(s.started).Seconds(), fmt.Sprintf(format, args...))
}

// run runs the scenes.
func (s *show) run(ctx context.Context) error {
	for _, scene := range []func(context.Context) error{
		s.build, s.register, s.awaitInspection, s.createCluster, s.awaitMachines, s.scaleDown, s.awaitRelease,
	} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	s.timelines()
	return s.conclude(ctx)
}

// close stops everything in reverse order.
func (s *show) close() {
	if s.manager != nil {
		s.manager.Stop(20 * time.Second)
	}
	if s.dc != nil {
		_ = s.dc.Close()
	}
	if s.images != nil {
		_ = s.images.Close()
	}
	if s.plane != nil {
		s.plane.Stop()
	}
	if s.capture != nil {
		_ = s.capture.Close()
	}
}

// build starts the management cluster and the datacenter concurrently, then the manager.
func (s *show) build(ctx context.Context) error {
	s.say("Starting a management cluster (etcd, API server, Cluster API core, kubeadm bootstrap and control plane) and a datacenter")
	s.password = uuid.NewString()
	if err := s.serveImage(ctx); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.startManagement(groupCtx) })
	group.Go(func() error { return s.startDatacenter(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	return s.startManager(ctx)
}

func (s *show) startManagement(ctx context.Context) error {
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: filepath.Join(s.dir, "plane")})
	if err != nil {
		return err
	}
	s.plane = plane
	return plane.InstallClusterAPI(ctx)
}

func (s *show) startDatacenter(ctx context.Context) error {
	config := datacenter.Config{Dir: filepath.Join(s.dir, "dc"), Password: s.password}
	if s.Capture != "" {
		file, err := os.Create(s.Capture)
		if err != nil {
			return err
		}
		s.capture, config.Capture = file, file
	}
	if !s.Simulated {
		probe := &qemu.Probe{}
		config.Accel = probe.Accel(ctx)
	}
	config.Servers = s.servers()
	dc, err := datacenter.Start(config)
	if err != nil {
		return err
	}
	s.dc = dc
	return nil
}

// startManager installs Ingot and starts its manager: this program with the command manager.
func (s *show) startManager(ctx context.Context) error {
	ingot, err := management.Install(ctx, s.plane, management.Options{Dir: filepath.Join(s.dir, "ingot"), ConfigDir: s.ConfigDir})
	if err != nil {
		return err
	}
	keys := filepath.Join(s.dir, "keys")
	if err := token.Generate(keys); err != nil {
		return err
	}
	agentImage, err := s.agentImage()
	if err != nil {
		return err
	}
	s.ingot = ingot
	s.managerArgs = []string{
		"manager", "--lab-uplink=" + s.dc.Uplink(), "--lab-address=" + labAddress,
		"--agent-key-dir=" + keys, "--loader-dir=" + s.LoaderDir, "--agent-image-dir=" + agentImage,
		"--agent-arguments=console=ttyS0", "--image-cache-dir=" + filepath.Join(s.dir, "images"), "--image-sources=127.0.0.0/8",
		// Emulated BMCs need no delay between power actions.
		"--reset-interval=3s", "--power-poll=15s", "--v=1",
	}
	if err := s.runManager(ctx); err != nil {
		return err
	}
	scheme, err := app.Scheme()
	if err != nil {
		return err
	}
	s.client, err = client.New(s.plane.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	s.say("Ready. In another shell, run: export KUBECONFIG=%s", s.plane.Kubeconfig())
	return nil
}

// runManager starts or restarts the manager.
func (s *show) runManager(ctx context.Context) error {
	var err error
	s.manager, err = s.ingot.StartManager(ctx, management.Manager{Name: "manager", Path: s.Binary, Args: s.managerArgs})
	return err
}

// serveImage serves the OS image over HTTP on loopback.
func (s *show) serveImage(ctx context.Context) error {
	var err error
	if s.image, err = s.osImage(); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	name := filepath.Base(s.image.path)
	s.image.url = "http://" + listener.Addr().String() + "/" + name
	s.images = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.FileServer(http.Dir(filepath.Dir(s.image.path)))}
	go func() { _ = s.images.Serve(listener) }() // ends with Close
	return nil
}

// agentImage returns the directory with the agent's kernel and initramfs.
func (s *show) agentImage() (string, error) {
	if s.Simulated {
		return s.emptyAgentImage()
	}
	return imageDir("agent", "vmlinuz", "make agent-image")
}

// osImage returns the OS image to install.
func (s *show) osImage() (imageFile, error) {
	if s.Simulated {
		path := filepath.Join(s.dir, "image", "disk.raw.zst")
		checksum, err := datacenter.WriteSmallImage(path)
		return imageFile{path: path, checksum: checksum}, err
	}
	dir, err := imageDir("test", "disk.raw.zst", "make test-image")
	if err != nil {
		return imageFile{}, err
	}
	sum, err := os.ReadFile(filepath.Join(dir, "disk.raw.zst.sha256"))
	if err != nil {
		return imageFile{}, err
	}
	digest, _, _ := strings.Cut(strings.TrimSpace(string(sum)), " ")
	return imageFile{path: filepath.Join(dir, "disk.raw.zst"), checksum: "sha256:" + digest}, nil
}

// imageDir returns the directory of the last built image of a kind.
func imageDir(kind, file, remedy string) (string, error) {
	cache, err := tools.CacheDir()
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(cache, "images", kind, "current"))
	if err != nil {
		return "", fmt.Errorf("find the %s image in %s (run %q first): %w", kind, cache, remedy, err)
	}
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		return "", fmt.Errorf("find the %s image (run %q): %w", kind, remedy, err)
	}
	return dir, nil
}
