// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/ingot-metal/ingot/internal/bootconfig"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/test/bench"
)

// serveOptions are those of our own server.
type serveOptions struct {
	// Dir holds the loader and the image, Cache is for the image cache.
	Dir, Cache string
	Address    string
	Hosts      int
}

// The files that all servers serve.
const (
	loaderName = "loader"
	imageName  = "image.raw"
)

// ready is what our server says once it serves.
type ready struct {
	// Image and Kernel are paths.
	Image, Kernel string
}

// serve is the boot server as the manager has it: the production directory over an
// informer cache, which a small API server has filled.
func serve(ctx context.Context, o serveOptions) error {
	reader, err := inventory(ctx, o.Hosts)
	if err != nil {
		return err
	}
	files := &pxe.Files{}
	kernel, err := files.Add(filepath.Join(o.Dir, loaderName))
	if err != nil {
		return err
	}
	keys, err := token.NewKeys(make([]byte, token.MinKeyBytes))
	if err != nil {
		return err
	}
	dir := bootconfig.New(bootconfig.Options{
		Cache: reader, Keys: keys, Pins: []token.Pin{token.PinOf(nil)}, Server: o.Address + ":8843",
		Kernel: kernel, Initrds: []pxe.File{kernel}, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	if err := dir.Follow(ctx, reader); err != nil {
		return err
	}
	images, checksum, err := imageCache(o)
	if err != nil {
		return err
	}
	srv, err := bootserver.New(bootserver.Config{
		Address: netip.MustParseAddr(o.Address), LoaderDir: o.Dir, Directory: dir, Files: files, Images: images,
	})
	if err != nil {
		return err
	}
	sockets, err := bootserver.ListenHost(ctx, bench.ServerDevice, bootserver.Config{Address: netip.MustParseAddr(o.Address)})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return srv.Run(ctx, sockets) })
	g.Go(func() error {
		if err := fetched(ctx, images, checksum); err != nil {
			return err
		}
		_, digest, _ := cutChecksum(checksum)
		return json.NewEncoder(os.Stdout).Encode(ready{Image: "/images/" + digest, Kernel: kernel.Path()})
	})
	return g.Wait()
}

// imageCache has one image to fetch, from a web server in this process.
func imageCache(o serveOptions) (*httpd.ImageCache, string, error) {
	path := filepath.Join(o.Dir, imageName)
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return nil, "", err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	origin := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) })}
	go func() { _ = origin.Serve(l) }() // ends with the process
	allowed, err := httpd.ParseSources([]string{"127.0.0.1"})
	if err != nil {
		return nil, "", err
	}
	checksum := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	images, err := httpd.NewImageCache(httpd.CacheConfig{
		Dir: o.Cache, MaxBytes: 2 * size, Client: httpd.NewClient(httpd.ClientConfig{Allowed: allowed}),
		Sources: pxe.Images{checksum: {URL: "http://" + l.Addr().String() + "/", Checksum: checksum}},
	})
	return images, checksum, err
}

// fetched waits until the image is there.
func fetched(ctx context.Context, images *httpd.ImageCache, checksum string) error {
	for {
		f, err := images.Open(checksum)
		if err == nil {
			return f.Close()
		}
		if !errors.Is(err, httpd.ErrFetching) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func cutChecksum(checksum string) (algorithm, digest string, err error) {
	if len(checksum) < len("sha256:") {
		return "", "", fmt.Errorf("checksum %q", checksum)
	}
	return checksum[:6], checksum[7:], nil
}
