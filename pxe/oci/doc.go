// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oci fetches operating system images from OCI registries. Such an artifact has one
// manifest with one layer, which is the image file, as
// "oras push registry.example/images/node:v1 node.raw.zst" makes it.
//
// It is an http.RoundTripper that adds oci://registry/repository@sha256:… URLs to an http.Client.
// The digest is the manifest's. Tags are refused, because they may name another file later. The
// package verifies the digest of the manifest, and the caller verifies the image.
//
// It knows no cache, no image and no credentials: it uses the registry's anonymous tokens.
// Every request, including redirects from a registry to its storage, goes through Base, which
// decides what is allowed.
//
//	client := &http.Client{Transport: &oci.Transport{Base: http.DefaultTransport}}
//	resp, err := client.Get("oci://registry.example/images/node@sha256:4f53…")
package oci
