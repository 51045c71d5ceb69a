// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpd is the boot server's HTTP side: boot scripts, kernels and
// initramfs images, and a cache of OS images.
//
//	/boot/<mac>/script.ipxe   what this host boots now, as an iPXE script
//	/files/<sha256>/<name>    a file of the registry
//	/images/<digest>          an OS image, SHA-256 or SHA-512 in hex
//
// Everything is answered from memory or from the local disk. What has still to
// be fetched is answered with 503 and Retry-After at once, never by waiting. An
// image is served only after its checksum has been verified.
//
// It must not know what a host is for, nor fetch anything that its
// ImageDirectory does not name.
//
//	cache, err := httpd.NewImageCache(httpd.CacheConfig{Dir: dir, MaxBytes: 20 << 30, Sources: images})
//	h := &httpd.Handler{BaseURL: "http://192.0.2.1:8880", Directory: dir, Files: files, Images: cache}
//	go cache.Run(ctx)
//	err = httpd.Serve(ctx, listener, h, httpd.Options{Log: log})
package httpd
