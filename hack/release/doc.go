// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release writes what "clusterctl init --infrastructure ingot --addon ingot" installs:
// a local clusterctl repository and the container image as an archive, without
// a container engine.
//
//	<Out>/infrastructure-ingot/<version>/infrastructure-components.yaml
//	<Out>/infrastructure-ingot/<version>/metadata.yaml
//	<Out>/infrastructure-ingot/<version>/cluster-template*.yaml
//	<Out>/infrastructure-ingot/<version>/clusterclass-ingot*.yaml
//	<Out>/runtime-extension-ingot/<version>/runtime-extension-components.yaml
//	<Out>/runtime-extension-ingot/<version>/metadata.yaml
//	<Out>/addon-ingot/<version>/addon-components.yaml
//	<Out>/addon-ingot/<version>/metadata.yaml
//	<Out>/images/ingot-<version>-linux-amd64.tar
//
// The components are kustomize's rendering of config/default, config/runtime-extension
// and config/boot by the pinned kubectl of hack/tools. Nothing in a file depends on when, where or by whom it
// is made: the same sources, tools and packages give the same bytes.
//
// The package knows the names of files and images, not what is in a manifest:
// the rules of the clusterctl contract (K01–K54) are its tests' business, which
// read the result with clusterctl's own library.
//
//	r, err := release.Write(ctx, release.Options{Root: root, Version: "v0.1.0", Out: "dist"})
//	if err != nil { ... }
//	fmt.Println(r.Components, r.Archive)
package release
