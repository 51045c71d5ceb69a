// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/httpd"
)

// Replica is one of the boot servers of a rack, with its way to the manager.
type Replica struct {
	// Address of it, 192.168.0.1 and on.
	Address netip.Addr
	// Sent are the bytes that it has sent by TFTP and HTTP.
	Sent atomic.Int64

	view  view
	stack *network.Stack
	stop  context.CancelFunc
	done  chan struct{}
	once  sync.Once
	// killed: the network is taken away before the server is told to end.
	killed atomic.Bool
	fuse   atomic.Int64
}

// BlowAfter kills the replica, as by pulling its plug, when it has sent so many bytes.
func (r *Replica) BlowAfter(bytes int64) { r.fuse.Store(bytes) }

// Kill pulls the replica's plug: it sends nothing any more.
func (r *Replica) Kill() {
	r.once.Do(func() {
		r.killed.Store(true)
		_ = r.stack.Close()
		r.stop()
	})
}

// Dead says whether it was killed.
func (r *Replica) Dead() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Freeze leaves the replica with what it knows now, as a cache that is cut off does.
func (r *Replica) Freeze() { r.view.freeze() }

// Thaw lets it see what all see again.
func (r *Replica) Thaw() { r.view.thaw() }

// count counts what was sent, and blows the fuse.
func (r *Replica) count(n int) {
	sent, fuse := r.Sent.Add(int64(n)), r.fuse.Load()
	if fuse > 0 && sent >= fuse {
		go r.Kill() // not in the middle of its own write
	}
}

// startBootServers puts boot servers on 192.168.0.1 and on, and the manager behind
// each of them.
func (r *Rack) startBootServers(t testing.TB, n int) {
	dir := t.TempDir()
	files := &pxe.Files{}
	r.kernel, r.initrd = addFile(t, files, dir, "vmlinuz", 300_000), addFile(t, files, dir, "initramfs", 400_000)
	addFile(t, files, dir, "undionly.kpxe", 70_000)
	addFile(t, files, dir, "snponly.efi", 150_016) // a multiple of 512: the transfer ends with an empty block
	sources := r.makeImage(t)
	var listeners []net.Listener
	for i := range n {
		address := netip.AddrFrom4([4]byte{192, 168, 0, byte(1 + i)})
		cache, err := httpd.NewImageCache(httpd.CacheConfig{
			Dir: filepath.Join(dir, fmt.Sprint("cache-", i)), MaxBytes: 1 << 30, Sources: sources, Client: &http.Client{},
		})
		check(t, err)
		replica := &Replica{Address: address, done: make(chan struct{})}
		replica.view = view{of: r.directory, server: netip.AddrPortFrom(address, agentPort).String()}
		srv, err := bootserver.New(bootserver.Config{Address: address, LoaderDir: dir, Directory: &replica.view, Files: files, Images: cache})
		check(t, err)
		listeners = append(listeners, replica.start(t, r.Switch, srv))
		r.Replicas = append(r.Replicas, replica)
	}
	r.Manager = newManager(t, listeners)
}

// start runs a boot server and returns where agents come in.
func (r *Replica) start(t testing.TB, lan *network.Switch, srv *bootserver.Server) net.Listener {
	var err error
	r.stack, err = network.NewStack(lan, network.StackConfig{
		Name: "boot-" + r.Address.String(), Address: netip.PrefixFrom(r.Address, 16), Queue: 32 << 10,
	})
	check(t, err)
	t.Cleanup(func() { _ = r.stack.Close() })
	var s bootserver.Sockets
	s.DHCP, err = r.stack.ListenUDP(bootserver.DHCPPort)
	check(t, err)
	s.BINL, err = r.stack.ListenUDP(bootserver.BINLPort)
	check(t, err)
	s.TFTP, err = r.stack.ListenUDP(bootserver.TFTPPort)
	check(t, err)
	http, err := r.stack.ListenTCP(bootserver.DefaultHTTPPort)
	check(t, err)
	s.HTTP = countedListener{http, r.count}
	s.DialTFTP = func(client netip.AddrPort) (net.Conn, error) {
		conn, err := r.stack.DialUDP(client)
		return countedConn{conn, r.count}, err
	}
	agents, err := r.stack.ListenTCP(agentPort)
	check(t, err)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.done)
		if err := srv.Run(ctx, s); err != nil && ctx.Err() == nil && !r.killed.Load() {
			t.Errorf("boot server %s: %v", r.Address, err)
		}
	}()
	t.Cleanup(func() { stop(); <-r.done })
	return agents
}

// view is what one replica sees of the directory: agents are to come by itself.
type view struct {
	of     *directory
	server string

	mu     sync.RWMutex
	frozen map[string]pxe.Host
}

func (v *view) freeze() {
	v.of.mu.RLock()
	defer v.of.mu.RUnlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.frozen = maps.Clone(v.of.hosts)
}

func (v *view) thaw() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.frozen = nil
}

// Lookup implements pxe.Directory.
func (v *view) Lookup(mac net.HardwareAddr) (pxe.Host, bool) {
	h, ok := v.of.Lookup(mac)
	v.mu.RLock()
	if v.frozen != nil {
		h, ok = v.frozen[mac.String()]
	}
	v.mu.RUnlock()
	if h.Plan.Kind == pxe.Agent {
		h.Plan.Agent.Server = v.server
	}
	return h, ok
}

type countedListener struct {
	net.Listener
	count func(int)
}

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countedConn{conn, l.count}, err
}

type countedConn struct {
	net.Conn
	count func(int)
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.count(n)
	return n, err
}
