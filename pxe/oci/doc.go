// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oci fetches operating system images that lie in an OCI registry as
// artefacts: one manifest with one layer, which is the image file, as
// "oras push registry.example/images/node:v1 node.raw.zst" makes it.
//
// It is a round tripper beneath an http.Client, so that whoever can fetch
// https://… with that client can fetch oci://registry/repository@sha256:… as well.
// The digest is the manifest's; a tag, which may name another file tomorrow, is
// refused. What was sent is compared with the manifest's digest here; that of the
// layer is the caller's to verify, as it verifies any image.
//
// It knows no cache, no image and no credentials: registries are asked as anybody,
// with the token that they give anybody. Every request, the redirects of a registry
// to its storage included, goes through Base, which decides what may be asked.
//
//	client := &http.Client{Transport: &oci.Transport{Base: http.DefaultTransport}}
//	resp, err := client.Get("oci://registry.example/images/node@sha256:4f53…")
package oci
