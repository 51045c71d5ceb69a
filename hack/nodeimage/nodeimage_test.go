// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/hack/debian"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update writes it again:\n%s", path, diff)
	}
}

var release = Release{Kubernetes: "v1.36.3", Etcd: "3.6.8-0", CoreDNS: "v1.14.2", Pause: "3.10.2"}

func TestCheckVersion(t *testing.T) {
	for version, good := range map[string]bool{
		"v1.36.3": true, "v1.35.4": true, "v1.36.0": true, "": false, "1.36.3": false, "v1.36": false,
		"v1.36.0-rc.1": false, "v1.36.03": false, "v2.0.0": false, "v1.36.3/../x": false, "latest": false,
	} {
		if err := checkVersion(version); (err == nil) != good {
			t.Errorf("checkVersion(%q) = %v", version, err)
		}
	}
}

const constants = `package constants

const (
	// DefaultEtcdVersion indicates the default etcd version that kubeadm uses
	DefaultEtcdVersion = "3.6.8-0"

	// CoreDNSVersion is the version of CoreDNS to be deployed if it is used
	CoreDNSVersion = "v1.14.2"

	PauseVersion = "3.10.2"
)
`

func TestParseRelease(t *testing.T) {
	got, err := parseRelease("v1.36.3", []byte(constants))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(release, got); diff != "" {
		t.Error(diff)
	}
	if got := got.etcdModule(); got != "v3.6.8" {
		t.Errorf("module of etcd %s", got)
	}
	for _, name := range []string{"DefaultEtcdVersion", "CoreDNSVersion", "PauseVersion"} {
		_, err := parseRelease("v1.36.3", []byte(strings.ReplaceAll(constants, name, "Other")))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

const kubernetesGoMod = `module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	github.com/spf13/cobra v1.10.2
	k8s.io/api v0.0.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
)

tool (
	golang.org/x/tools/cmd/x
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubectl => ./staging/src/k8s.io/kubectl
)
`

func TestKubeModule(t *testing.T) {
	got, err := kubeModule(release, kubernetesGoMod)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "kube.mod", got)
	for _, part := range []string{"go 1.26.0\n", "require (", "./staging/"} {
		if _, err := kubeModule(release, strings.ReplaceAll(kubernetesGoMod, part, "")); err == nil {
			t.Errorf("a go.mod without %q was accepted", part)
		}
	}
}

// The builds of a release.
func TestBuilds(t *testing.T) {
	builds, err := release.builds(kubernetesGoMod, "k8s.io/api v0.0.0 h1:x\n")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, build := range builds {
		b.WriteString("go " + strings.Join(build.arguments(build.program), " ") + "\n")
		if build.program != "kube" {
			b.WriteString(build.goMod + "\n")
		}
	}
	golden(t, "builds", b.String())
}

// The key of the programs changes with each input.
func TestProgramsKey(t *testing.T) {
	pause := filepath.Join(t.TempDir(), "main.go")
	key := func(r Release, language, sum, mod, pauseMain string) string {
		t.Helper()
		if err := os.WriteFile(pause, []byte(pauseMain), 0o600); err != nil {
			t.Fatal(err)
		}
		builds, err := r.builds(mod, "")
		if err != nil {
			t.Fatal(err)
		}
		k, err := programsKey(r, language, sum, builds, pause)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := key(release, "go1.26.8", "h1:a", kubernetesGoMod, "package main")
	if again := key(release, "go1.26.8", "h1:a", kubernetesGoMod, "package main"); again != first {
		t.Error("the same inputs have two keys")
	}
	other := release
	other.CoreDNS = "v1.14.3"
	for name, got := range map[string]string{
		"CoreDNS":    key(other, "go1.26.8", "h1:a", kubernetesGoMod, "package main"),
		"Go":         key(release, "go1.26.9", "h1:a", kubernetesGoMod, "package main"),
		"Kubernetes": key(release, "go1.26.8", "h1:b", kubernetesGoMod, "package main"),
		"go.mod":     key(release, "go1.26.8", "h1:a", strings.Replace(kubernetesGoMod, "v1.10.2", "v1.10.3", 1), "package main"),
		"pause":      key(release, "go1.26.8", "h1:a", kubernetesGoMod, "package main // new"),
	} {
		if got == first {
			t.Errorf("another %s has the same key", name)
		}
	}
}

// The images have the names of kubeadm, templates and containerd, and the right programs.
func TestContainers(t *testing.T) {
	filter := packetFilter{files: map[string]string{"/usr/sbin/nft": "/x/nft"}, links: map[string]string{"/usr/sbin/iptables": "xtables-nft-multi"}}
	images := release.containers("/programs", "/podnetd", filter)
	golden(t, "images.txt", listOf(images))
	for _, i := range images {
		// Each entrypoint is a file or a link.
		entry := i.Entrypoint[0]
		if target, ok := i.Links[entry]; ok {
			entry = filepath.Join(filepath.Dir(entry), target)
		}
		if i.Files[entry] == "" {
			t.Errorf("%s has no %s", i.Name, i.Entrypoint[0])
		}
		filters := strings.Contains(i.Name, "/kube-") && !strings.Contains(i.Name, "kube-vip") || i.Name == podNetworkImage
		if (i.Files["/usr/sbin/nft"] != "") != filters {
			t.Errorf("%s: nft is in it: %v", i.Name, !filters)
		}
	}
}

func TestDiskKey(t *testing.T) {
	first := diskKey("base", release, "/cache/programs-1", "sum")
	if first != diskKey("base", release, "/elsewhere/programs-1", "sum") {
		t.Error("the place of the cache changes the key")
	}
	other := release
	other.Pause = "3.10.3"
	if first == diskKey("base2", release, "/cache/programs-1", "sum") || first == diskKey("base", other, "/cache/programs-1", "sum") ||
		first == diskKey("base", release, "/cache/programs-2", "sum") || first == diskKey("base", release, "/cache/programs-1", "sum2") {
		t.Error("another content has the same key")
	}
}

// The files of a node that are not from Debian.
func TestSystem(t *testing.T) {
	containerd := map[string]string{}
	for _, name := range containerdPrograms {
		containerd[name] = "/containerd/" + name
	}
	system, err := release.System("/programs", containerd)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	files := slices.Clone(system.Files)
	slices.SortFunc(files, func(a, b debian.File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range files {
		switch {
		case f.Link != "":
			b.WriteString(f.Path + " -> " + f.Link + "\n")
		case f.Source != "":
			b.WriteString(f.Path + " = " + f.Source + "\n")
		default:
			b.WriteString(f.Path + "\n")
		}
		if strings.HasPrefix(f.Path, "/etc/containerd/") {
			b.WriteString("\t" + strings.ReplaceAll(strings.TrimSpace(string(f.Data)), "\n", "\n\t") + "\n")
		}
	}
	b.WriteString("packages: " + strings.Join(system.Packages, " ") + "\n")
	b.WriteString("without: " + strings.Join(system.Excludes, " ") + "\n")
	b.WriteString("enabled: " + strings.Join(system.Enable, " ") + "\n")
	golden(t, "system", b.String())
	if !slices.ContainsFunc(system.Hooks, func(h string) bool { return strings.Contains(h, filepath.Base(archivePath)) }) {
		t.Error("no hook imports the container images")
	}
}

// A package tree with a script, link chains and cycles, and missing files.
func TestClosure(t *testing.T) {
	world := tree{
		files: map[string][]byte{"/bin/a": []byte("#!/bin/sh"), "/lib/b": []byte("data"), "/bin/other": nil},
		links: map[string]string{"/bin/a1": "a", "/bin/a2": "/bin/a1", "/bin/x": "y", "/bin/y": "x", "/bin/gone": "nowhere"},
	}
	part, err := closure(world, "/bin/a2", "/lib/b")
	if err != nil {
		t.Fatal(err)
	}
	want := tree{
		files: map[string][]byte{"/bin/a": []byte("#!/bin/sh"), "/lib/b": []byte("data")},
		links: map[string]string{"/bin/a1": "a", "/bin/a2": "/bin/a1"},
	}
	if diff := cmp.Diff(want, part, cmp.AllowUnexported(tree{})); diff != "" {
		t.Error(diff)
	}
	if _, err := closure(world, "/bin/x"); err != nil {
		t.Errorf("links in a circle: %v", err)
	}
	for _, name := range []string{"/bin/none", "/bin/gone"} {
		if _, err := closure(world, name); err == nil {
			t.Errorf("%s was found", name)
		}
	}
	if _, err := closure(tree{files: map[string][]byte{"/x": []byte("\x7fELF broken")}}, "/x"); err == nil {
		t.Error("a broken program was read")
	}
}

// The closure of this machine's shell contains its linker and libraries, and nothing else.
func TestClosureOfAProgram(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	needed, err := needs(content)
	if err != nil {
		t.Fatal(err)
	}
	if len(needed) < 2 {
		t.Skipf("%s is static", shell)
	}
	world := tree{files: map[string][]byte{"/bin/sh": content, "/usr/lib/unused.so": nil}, links: map[string]string{}}
	want := []string{"/bin/sh"}
	for _, name := range needed {
		if !filepath.IsAbs(name) {
			name = filepath.Join(libraryDirs[1], name)
		}
		world.files[name] = []byte("library")
		want = append(want, name)
	}
	part, err := closure(world, "/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for name := range part.files {
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	delete(world.files, want[len(want)-1])
	if _, err := closure(world, "/bin/sh"); err == nil {
		t.Error("a missing library was not missed")
	}
}

func TestReadTree(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "./usr/"},
		{Typeflag: tar.TypeReg, Name: "./usr/a", Size: 1},
		{Typeflag: tar.TypeLink, Name: "./usr/b", Linkname: "./usr/a"},
		{Typeflag: tar.TypeSymlink, Name: "usr/c", Linkname: "a"},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := readTree(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	want := tree{files: map[string][]byte{"/usr/a": []byte("x"), "/usr/b": []byte("x")}, links: map[string]string{"/usr/c": "a"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(tree{})); diff != "" {
		t.Error(diff)
	}
	if _, err := readTree(bytes.NewReader(b.Bytes()[:600])); err == nil {
		t.Error("half an archive was read")
	}
}

func TestPacketFilterOf(t *testing.T) {
	const extensions = "/usr/lib/x86_64-linux-gnu/xtables/"
	from := tree{files: map[string][]byte{
		multiCall: nil, "/usr/sbin/nft": nil, extensions + "libxt_comment.so": nil, extensions + "libxt_NAT.so": nil, extensions + "README": nil, "/usr/sbin/else": nil,
	}, links: map[string]string{extensions + "libxt_MASQUERADE.so": "libxt_NAT.so"}}
	part, err := packetFilterOf(from)
	if err != nil {
		t.Fatal(err)
	}
	if len(part.files) != 4 || part.links["/usr/sbin/ip6tables-restore"] != "xtables-nft-multi" || part.links[extensions+"libxt_MASQUERADE.so"] == "" {
		t.Errorf("files %v, links %v", part.files, part.links)
	}
	delete(from.files, multiCall)
	if _, err := packetFilterOf(from); err == nil {
		t.Error("made without iptables")
	}
}

// The patches work with kubeadm: a patch is merged into the Pod that its name begins with, or
// applied as a JSON patch by its suffix. A release without the feature gates does not get them.
func TestPatches(t *testing.T) {
	arguments := []string{"--etcd-healthcheck-timeout=10s", "--etcd-readycheck-timeout=10s", "--etcd-count-metric-poll-period=10m"}
	gates := "--feature-gates=SizeBasedListCostEstimate=false,DetectCacheInconsistency=false"
	for version, arguments := range map[string][]string{"v1.33.12": arguments, "v1.34.0": append(arguments, gates), "v1.36.3": append(arguments, gates)} {
		t.Run(version, func(t *testing.T) {
			got := map[string]*corev1.Pod{"etcd": podOf("etcd"), "kube-apiserver": podOf("kube-apiserver"), "kube-scheduler": podOf("kube-scheduler")}
			want := map[string]*corev1.Pod{}
			for name, pod := range got {
				want[name] = pod.DeepCopy()
				want[name].Spec.Containers[0].ReadinessProbe.PeriodSeconds = 10
			}
			server := &want["kube-apiserver"].Spec.Containers[0]
			server.Command = append(server.Command, arguments...)
			system, err := Release{Kubernetes: version, Pause: "3.10"}.System("/programs", nil)
			check(t, err)
			for _, f := range system.Files {
				file, found := strings.CutPrefix(f.Path, "/etc/kubernetes/patches/")
				if !found {
					continue
				}
				name, isJSON := strings.CutSuffix(strings.TrimSuffix(file, ".yaml"), "+json")
				name = strings.TrimRight(name, "123456789")
				if got[name] == nil {
					t.Fatalf("%s matches no Pod of kubeadm", file)
				}
				got[name] = patched(t, got[name], f.Data, isJSON)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Pods (-want +got):\n%s", diff)
			}
		})
	}
}

// podOf is what kubeadm makes of a part of the control plane, as far as patches go.
func podOf(name string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: name, Command: []string{name, "--v=1"}, ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 15},
	}}}}
}

// patched is a Pod after one of kubeadm's patches.
func patched(t *testing.T, pod *corev1.Pod, patch []byte, isJSON bool) *corev1.Pod {
	t.Helper()
	document, err := json.Marshal(pod)
	check(t, err)
	patch, err = yaml.YAMLToJSONStrict(patch)
	check(t, err)
	if isJSON {
		operations, err := jsonpatch.DecodePatch(patch)
		check(t, err)
		document, err = operations.Apply(document)
		check(t, err)
	} else {
		document, err = strategicpatch.StrategicMergePatch(document, patch, corev1.Pod{})
		check(t, err)
	}
	out := &corev1.Pod{}
	check(t, json.Unmarshal(document, out))
	return out
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
