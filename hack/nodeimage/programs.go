// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/hack/debian"
	"github.com/ingot-metal/ingot/hack/tools"
)

// mains are Ingot's main packages for the built modules. fixed is the rest of this file that affects a
// program.
//
//go:embed mains/*.go
var mains embed.FS

const fixed = "programs 1"

// Modules of the programs.
const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
	coreDNSModule    = "github.com/coredns/coredns"
	kubeVIPModule    = "github.com/kube-vip/kube-vip"
)

// build is a program with its module.
type build struct {
	// program is the file name.
	program string
	// goMod is the go.mod of the module, and goSum the beginning of its go.sum.
	goMod, goSum string
	// pkg is the package to build; empty means the main of the program's name.
	pkg string
	// linked contains variables that the linker sets.
	linked []string
}

// module is a module version in the module cache.
type module struct{ dir, sum string }

// fetchModule downloads a module if needed. The checksum database verifies it.
func fetchModule(ctx context.Context, path, version string) (module, error) {
	download := func(more ...string) (string, error) {
		return debian.RunGo(ctx, os.TempDir(), slices.Concat([]string{"mod", "download"}, more, []string{path + "@" + version})...)
	}
	// With -json the error would be on standard output.
	if _, err := download(); err != nil {
		return module{}, fmt.Errorf("fetch module %s %s: %w", path, version, err)
	}
	out, err := download("-json")
	if err != nil {
		return module{}, fmt.Errorf("find module %s %s: %w", path, version, err)
	}
	var answer struct{ Dir, Sum string }
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return module{}, fmt.Errorf("find module %s %s: %w", path, version, err)
	}
	return module{dir: answer.Dir, sum: answer.Sum}, nil
}

// fetchRelease reads the versions that a Kubernetes release needs from its module.
func fetchRelease(ctx context.Context, version string) (Release, module, error) {
	if err := checkVersion(version); err != nil {
		return Release{}, module{}, err
	}
	kubernetes, err := fetchModule(ctx, kubernetesModule, version)
	if err != nil {
		return Release{}, module{}, err
	}
	constants, err := os.ReadFile(filepath.Join(kubernetes.dir, "cmd", "kubeadm", "app", "constants", "constants.go"))
	if err != nil {
		return Release{}, module{}, err
	}
	release, err := parseRelease(version, constants)
	return release, kubernetes, err
}

// builds lists the programs of a release, from Kubernetes' go.mod and go.sum.
func (r Release) builds(kubeMod, kubeSum string) ([]build, error) {
	own, err := kubeModule(r, kubeMod)
	if err != nil {
		return nil, err
	}
	language := languageLine.FindString(kubeMod)
	return []build{
		{program: "kube", goMod: own, goSum: kubeSum, linked: r.linked()},
		{program: "etcd", goMod: plainModule("etcd", language, etcdModule, r.etcdModule()), pkg: etcdModule},
		{program: "coredns", goMod: plainModule("coredns", language, coreDNSModule, r.CoreDNS)},
		{
			program: "kube-vip", goMod: plainModule("kube-vip", language, kubeVIPModule, kubeVIPVersion), pkg: kubeVIPModule,
			linked: []string{"main.Version=" + kubeVIPVersion},
		},
	}, nil
}

// linked returns the linker variables of Kubernetes releases, which version checks of kubeadm
// need. A fixed date makes the build reproducible.
func (r Release) linked() []string {
	minor, _, _ := strings.Cut(strings.TrimPrefix(r.Kubernetes, "v1."), ".")
	var all []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, kv := range []string{
			"gitVersion=" + r.Kubernetes, "gitMajor=1", "gitMinor=" + minor,
			"gitTreeState=clean", "gitCommit=gomodule", "buildDate=1970-01-01T00:00:00Z",
		} {
			all = append(all, pkg+"."+kv)
		}
	}
	return all
}

// arguments returns the arguments of the go command.
func (b build) arguments(output string) []string {
	flags := "-s -w"
	for _, value := range b.linked {
		flags += " -X " + value
	}
	pkg := b.pkg
	if pkg == "" {
		pkg = b.program + ".go"
	}
	return []string{"build", "-mod=mod", "-trimpath", "-buildvcs=false", "-ldflags=" + flags, "-o", output, pkg}
}

// run builds the program into dir. The go command completes go.sum from the checksum database.
func (b build) run(ctx context.Context, dir string) error {
	work, err := os.MkdirTemp(dir, ".module-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	files := map[string]string{"go.mod": b.goMod, "go.sum": b.goSum}
	if b.pkg == "" {
		main, err := mains.ReadFile("mains/" + b.program + ".go")
		if err != nil {
			return err
		}
		files[b.program+".go"] = string(main)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(work, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	start := time.Now()
	fmt.Printf("building %s\n", b.program)
	if _, err := debian.RunGo(ctx, work, b.arguments(filepath.Join(dir, b.program))...); err != nil {
		return fmt.Errorf("build %s: %w", b.program, err)
	}
	fmt.Printf("%s took %.0f s\n", b.program, time.Since(start).Seconds())
	return nil
}

// buildPrograms returns a directory with kube, etcd, coredns, kube-vip and pause.
func buildPrograms(ctx context.Context, c *debian.Cache, set *tools.Set, r Release, kubernetes module) (string, error) {
	kubeMod, err := os.ReadFile(filepath.Join(kubernetes.dir, "go.mod"))
	if err != nil {
		return "", err
	}
	kubeSum, err := os.ReadFile(filepath.Join(kubernetes.dir, "go.sum"))
	if err != nil {
		return "", err
	}
	all, err := r.builds(string(kubeMod), string(kubeSum))
	if err != nil {
		return "", err
	}
	language, err := tools.GoVersion()
	if err != nil {
		return "", err
	}
	pause := filepath.Join(set.Root(), "hack", "tools", "node", "pause", "main.go")
	key, err := programsKey(r, language, kubernetes.sum, all, pause)
	if err != nil {
		return "", err
	}
	return c.Result("node-programs-"+r.Kubernetes, key, func(dir string) error {
		for _, b := range all {
			if err := b.run(ctx, dir); err != nil {
				return err
			}
		}
		_, err := debian.RunGo(ctx, dir, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, "pause"), pause)
		return err
	})
}

// programsKey returns the key of the programs. Each go.mod determines all its dependencies.
func programsKey(r Release, language, kubernetesSum string, all []build, pause string) (string, error) {
	inputs := []string{fixed, fmt.Sprint(r), language, kubernetesSum}
	for _, b := range all {
		inputs = append(inputs, b.program, b.goMod, strings.Join(b.arguments(""), " "))
		if b.pkg != "" {
			continue
		}
		main, err := mains.ReadFile("mains/" + b.program + ".go")
		if err != nil {
			return "", err
		}
		inputs = append(inputs, string(main))
	}
	main, err := os.ReadFile(pause)
	if err != nil {
		return "", err
	}
	return debian.Key(append(inputs, string(main))...), nil
}
