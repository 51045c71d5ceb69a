// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/test/bench"
)

// site is where servers run: their files, and the programs of others.
type site struct {
	settings
	// dir is what is served, work what servers write.
	dir, work string
	link      *bench.Link
	self      string
}

// Addresses of the servers.
var (
	ourAddress     = bench.ServerAddress(1)
	theirAddress   = bench.ServerAddress(2)
	dnsmasqAddress = bench.ServerAddress(3)
)

const (
	httpPort  = "8880"
	patience  = 30 * time.Second
	leaseText = "604800"
)

// program finds one of the others' programs: unpacked, or installed.
func (s *site) program(name string) (string, error) {
	for _, dir := range []string{filepath.Join(s.peers, "usr/sbin"), filepath.Join(s.peers, "usr/bin"), "/usr/sbin", "/usr/bin"} {
		if path := filepath.Join(dir, name); exists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is missing", name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// environment has the unpacked libraries found.
func (s *site) environment() []string {
	libraries, _ := filepath.Glob(filepath.Join(s.peers, "usr/lib/*-linux-gnu"))
	return append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(libraries, ":"),
		"KEA_PIDFILE_DIR="+s.work, "KEA_LOCKFILE_DIR="+s.work)
}

// bootManifest is the Deployment of the boot servers.
const bootManifest = "config/boot/boot.yaml"

// tuned is what the manifest tells the Go runtime, as environment.
func tuned() ([]string, error) {
	text, err := os.ReadFile(bootManifest)
	if err != nil {
		return nil, fmt.Errorf("%w: run it from the root of the source", err)
	}
	deployment := &appsv1.Deployment{}
	if err := yaml.Unmarshal(text, deployment); err != nil {
		return nil, fmt.Errorf("%s: %w", bootManifest, err)
	}
	var set []string
	for _, c := range deployment.Spec.Template.Spec.Containers {
		for _, v := range c.Env {
			if strings.HasPrefix(v.Name, "GO") {
				set = append(set, v.Name+"="+v.Value)
			}
		}
	}
	if len(set) == 0 {
		return nil, fmt.Errorf("%s tells the Go runtime nothing", bootManifest)
	}
	return set, nil
}

// server is a running server.
type server struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func (s *site) start(ctx context.Context, program string, args ...string) (*server, error) {
	return s.startWith(ctx, nil, program, args...)
}

// startWith starts a program with more in its environment.
func (s *site) startWith(ctx context.Context, env []string, program string, args ...string) (*server, error) {
	if !filepath.IsAbs(program) {
		path, err := s.program(program)
		if err != nil {
			return nil, err
		}
		program = path
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Stderr, cmd.Dir = append(s.environment(), env...), os.Stderr, s.work
	// A group of its own, so that its children end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return &server{cmd: cmd, out: bufio.NewReader(out)}, nil
}

func (s *server) stop() {
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait()
}

// ours starts our server, and returns once it serves.
func (s *site) ours(ctx context.Context) (*server, ready, error) {
	var r ready
	options, err := json.Marshal(serveOptions{Dir: s.dir, Cache: filepath.Join(s.work, "cache"), Address: ourAddress, Hosts: s.hosts})
	if err != nil {
		return nil, r, err
	}
	env, err := tuned()
	if err != nil {
		return nil, r, err
	}
	srv, err := s.startWith(ctx, env, s.self, "serve", string(options))
	if err != nil {
		return nil, r, err
	}
	line, err := srv.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		srv.stop()
		return nil, r, fmt.Errorf("our server did not start: %w", err)
	}
	return srv, r, nil
}

func (s *site) tftpd(ctx context.Context) (*server, error) {
	return s.start(ctx, "in.tftpd", "-L", "-u", "root", "-a", theirAddress+":69", "-s", s.dir)
}

func (s *site) dnsmasq(ctx context.Context, args ...string) (*server, error) {
	return s.start(ctx, "dnsmasq", append([]string{"--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root",
		"--pid-file=", "--bind-interfaces", "--listen-address=" + dnsmasqAddress, "--log-facility=/dev/null"}, args...)...)
}

func (s *site) dnsmasqTFTP(ctx context.Context) (*server, error) {
	return s.dnsmasq(ctx, "--enable-tftp", "--tftp-root="+s.dir, "--tftp-max=1000")
}

func (s *site) dnsmasqDHCP(ctx context.Context) (*server, error) {
	return s.dnsmasq(ctx, "--dhcp-range=10.77.128.0,10.77.255.250,255.255.0.0,"+leaseText, "--dhcp-authoritative", "--no-ping",
		"--dhcp-lease-max=100000", "--dhcp-leasefile="+filepath.Join(s.work, "dnsmasq.leases"), "--quiet-dhcp")
}

// kea has both cores, and neither a log nor leases on disk.
func (s *site) kea(ctx context.Context) (*server, error) {
	path := filepath.Join(s.work, "kea.json")
	config := fmt.Sprintf(`{"Dhcp4": {
  "interfaces-config": {"interfaces": ["%s/%s"], "dhcp-socket-type": "udp"},
  "lease-database": {"type": "memfile", "persist": false, "lfc-interval": 0},
  "multi-threading": {"enable-multi-threading": true, "thread-pool-size": 2, "packet-queue-size": 64},
  "valid-lifetime": %s,
  "subnet4": [{"subnet": "10.77.0.0/16", "pools": [{"pool": "10.77.128.0 - 10.77.255.250"}],
    "option-data": [{"name": "routers", "data": "10.77.0.254"}, {"name": "domain-name-servers", "data": "10.77.0.253"}]}],
  "loggers": [{"name": "kea-dhcp4", "severity": "ERROR", "output_options": [{"output": "/dev/null"}]}]
}}`, bench.ServerDevice, theirAddress, leaseText)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	return s.start(ctx, "kea-dhcp4", "-c", path)
}

// nginx sends by sendfile, with a worker for each core, and writes no log.
func (s *site) nginx(ctx context.Context) (*server, error) {
	path := filepath.Join(s.work, "nginx.conf")
	config := fmt.Sprintf(`daemon off; worker_processes auto; user root; pid %[1]s/nginx.pid; error_log /dev/null;
events { worker_connections 4096; }
http {
  sendfile on; tcp_nopush on; access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  server { listen %[2]s:%[3]s; root %[4]s; }
}`, s.work, theirAddress, httpPort, s.dir)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	srv, err := s.start(ctx, "nginx", "-e", "/dev/null", "-c", path)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp4", theirAddress+":"+httpPort); err == nil {
			return srv, c.Close()
		}
	}
	srv.stop()
	return nil, errors.New("nginx does not listen")
}

// load runs one of this program's loads on the clients' side.
func load[L any](ctx context.Context, s *site, role string, options L) (bench.Transferred, error) {
	var moved bench.Transferred
	text, err := json.Marshal(options)
	if err != nil {
		return moved, err
	}
	cmd := s.link.ClientCommand(ctx, s.self, role, string(text))
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		return moved, fmt.Errorf("%s load: %w: %s", role, err, failed.String())
	}
	return moved, json.Unmarshal(out, &moved)
}

// perfdhcp runs Kea's load, and forgives it its status: that says what the report
// says as well.
func (s *site) perfdhcp(ctx context.Context, l bench.DHCPLoad) (bench.Exchanged, error) {
	program, err := s.program("perfdhcp")
	if err != nil {
		return bench.Exchanged{}, err
	}
	cmd := s.link.ClientCommand(ctx, append([]string{program}, l.Args()...)...)
	cmd.Env, cmd.Dir = s.environment(), s.work
	out, err := cmd.Output()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		return bench.Exchanged{}, err
	}
	if s.verbose {
		fmt.Fprintf(os.Stderr, "%s\n%s", cmd, out)
	}
	return l.Read(string(out))
}

// writeRandom makes a file that no file system can shorten.
func writeRandom(path string, size int64) error {
	src, err := os.Open("/dev/urandom")
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, src, size)
	return errors.Join(err, f.Close())
}
