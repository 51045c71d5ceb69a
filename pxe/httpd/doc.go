// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpd is the HTTP side of the boot server: boot scripts, kernels and initramfs
// images, and a cache of OS images.
//
//	/boot/<mac>/script.ipxe   the host's current boot script for iPXE
//	/files/<sha256>/<name>    a file of the registry
//	/images/<digest>          an OS image, SHA-256 or SHA-512 in hex
//
// All answers come from memory or the local disk. A request for a file that must be fetched
// first gets 503 and Retry-After at once. Images are served only with a verified checksum.
//
// The package must not know the purpose of a host, and fetches only what its ImageDirectory names.
//
//	cache, err := httpd.NewImageCache(httpd.CacheConfig{Dir: dir, MaxBytes: 20 << 30, Sources: images})
//	h := &httpd.Handler{BaseURL: "http://192.0.2.1:8880", Directory: dir, Files: files, Images: cache}
//	go cache.Run(ctx)
//	err = httpd.Serve(ctx, listener, h, httpd.Options{Log: log})
package httpd
