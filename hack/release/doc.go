// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release writes the input of "clusterctl init --infrastructure ingot --addon ingot": a
// local clusterctl repository, and the container image as an archive, without a container engine.
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
// The pinned kubectl of hack/tools renders the components from config/default,
// config/runtime-extension and config/boot. Builds are reproducible: the same sources, tools and
// packages give the same bytes.
//
// The package knows the names of files and images, but not the content of manifests. Its tests
// check the rules of the clusterctl contract (K01–K54) with clusterctl's library.
//
//	r, err := release.Write(ctx, release.Options{Root: root, Version: "v0.1.0", Out: "dist"})
//	if err != nil { ... }
//	fmt.Println(r.Components, r.Archive)
package release
