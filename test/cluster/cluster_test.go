// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/node"
	"github.com/ingot-metal/ingot/test/site"
)

const (
	// patience bounds each wait; a server boots three times until its node is ready. Machines
	// are known on which that takes four times what it takes on others.
	patience = 45 * time.Minute
	// pods is the network of pods of the cluster.
	pods = "10.244.0.0/16"
)

// endpoint is an address of the servers' network that nobody has but kube-vip.
var endpoint = netip.MustParseAddrPort("10.77.0.50:6443")

// operatorAddress is nobody else's.
var operatorAddress = netip.MustParsePrefix("10.77.0.60/24")

// options of a test: versions of Kubernetes, that of the image that make names, and, in
// the full form, the one that the cluster begins with; where the timeline goes (out;
// empty: nowhere); by which template the cluster is made; how many servers there are,
// each in a rack of its own, and of how many the cluster is made.
type options struct {
	version, from, out, flavor      string
	servers, controlPlanes, workers int
}

// fromEnvironment are the options that make gives, for a cluster of two on two servers.
func fromEnvironment() options {
	return options{
		version: os.Getenv("INGOT_CLUSTER_VERSION"), from: os.Getenv("INGOT_CLUSTER_FROM"), out: os.Getenv("INGOT_CLUSTER_OUT"),
		flavor: site.PlainFlavor, servers: 2, controlPlanes: 1, workers: 1,
	}
}

// A stage is what the scenes play on.
type stage struct {
	options
	// whole is the test that the scenes are parts of: what lasts longer than one ends with it.
	whole   *testing.T
	release *release.Release
	node    *node.Node
	world   *site.World
	site    *site.Site
	// tap is the management cluster's plug in the servers' network.
	tap network.Tap
	// operator is whence the test speaks to the cluster: a computer of its own in the
	// servers' network.
	operator *network.Stack
	// cluster is what it is to be now.
	cluster site.Cluster
	// workload is the cluster that was made; nil before.
	workload *workloadCluster
	recorder *recorder
	began    time.Time
	// ready are its Nodes when they were last looked at, healed the Machines that were
	// power-cycled; upgraded says from what to what.
	ready, healed int
	upgraded      string
	// burnt is the host that was lost for good; empty: none.
	burnt string
}

// A scene builds on those before it.
type scene struct {
	name string
	play func(*testing.T, *stage)
}

var (
	// beginning is a cluster that runs.
	beginning = []scene{
		{"servers become Available", register},
		{"a cluster by the template", create},
		{"Nodes are their Machines", identify},
		{"a pod runs and is reached", runPod},
	}
	// life is what happens to it.
	life = []scene{
		{"a worker more, whose template lacks the provider ID", scaleOut},
		{"a rack's label changes", relabel},
		{"a worker loses its power", heal},
		{"a worker less", scaleIn},
		{"an upgrade", upgrade},
	}
	end = []scene{{"deletion", remove}}
)

// TestCluster is the life of a cluster. With INGOT_CLUSTER_FROM, an older version of
// Kubernetes, it is the whole one, of the default template; without it goes from its
// creation, by the ClusterClass, to its deletion.
func TestCluster(t *testing.T) {
	o := fromEnvironment()
	if o.version == "" {
		t.Skip("set INGOT_CLUSTER_VERSION to the version of a node image, as make e2e-cluster does; needs root")
	}
	scenes := append(append([]scene{}, beginning...), end...)
	if o.from == "" {
		o.flavor = "clusterclass"
	} else {
		scenes = append(append(append([]scene{}, beginning...), life...), end...)
		o.servers = 3 // one to scale out to and to upgrade by
	}
	s := setUp(t, o)
	s.play(t, scenes)
	if lacking := s.recorder.lacking(); len(lacking) > 0 {
		t.Errorf("not in the timeline: %q", lacking)
	}
	s.summarize(t)
}

// play plays scenes one after the other, until one fails.
func (s *stage) play(t *testing.T, scenes []scene) {
	t.Helper()
	for _, scene := range scenes {
		began := time.Now()
		if !t.Run(scene.name, func(t *testing.T) { scene.play(t, s) }) {
			s.explain(t)
			s.hold(t)
			t.Fatalf("scene %q failed; those after it need it", scene.name)
		}
		t.Logf("%6.1f s, after %6.1f s: %s", time.Since(began).Seconds(), time.Since(s.began).Seconds(), scene.name)
	}
}

// summarize writes the last line, which make prints.
func (s *stage) summarize(t *testing.T) {
	t.Helper()
	line := fmt.Sprintf("cluster: %d of %d nodes ready with provider ID and zone, %s, healed %d, deleted clean, %.0f s",
		s.ready, s.cluster.ControlPlanes+s.cluster.Workers, cmp.Or(s.upgraded, "not upgraded"), s.healed, time.Since(s.began).Seconds())
	t.Log(line)
	s.write(t, "summary.txt", []byte(line+"\n"))
}

// write puts a file into the output folder, if there is one.
func (s *stage) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if s.out == "" {
		return
	}
	check(t, os.MkdirAll(s.out, 0o755))
	check(t, os.WriteFile(filepath.Join(s.out, name), content, 0o600)) // one is a kubeconfig
}

// results are what runs leave in the folder.
var results = []string{"summary.txt", "timeline.txt", "timeline.json", "timeline.svg", "kubeconfig"}

// clearResults takes the results of an earlier run from a folder: whoever collects them must not
// read its success beside another's timeline. What else is there stays.
func clearResults(dir string) error {
	for _, name := range results {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func TestClearResults(t *testing.T) {
	dir := t.TempDir()
	for _, name := range append(slices.Clone(results), "mine.txt") {
		check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	check(t, clearResults(dir))
	check(t, clearResults(dir))
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "mine.txt" {
		t.Errorf("left %v, %v", left, err)
	}
}

// first is the version that the cluster is made with.
func (s *stage) first() string { return cmp.Or(s.from, s.version) }

// hold keeps everything as it is when a scene failed, as long as INGOT_CLUSTER_HOLD
// says, for whoever wants to look.
func (s *stage) hold(t *testing.T) {
	t.Helper()
	wait, err := time.ParseDuration(cmp.Or(os.Getenv("INGOT_CLUSTER_HOLD"), "0"))
	check(t, err)
	if wait > 0 {
		fmt.Fprintf(os.Stderr, "for %s: export KUBECONFIG=%s\n", wait, s.node.Kubeconfig())
		time.Sleep(wait)
	}
}

// kubeVIPImage is the one that the disk holds.
func kubeVIPImage(t *testing.T, disk string) string {
	t.Helper()
	names, err := os.ReadFile(filepath.Join(filepath.Dir(disk), "images.txt"))
	check(t, err)
	for _, name := range strings.Fields(string(names)) {
		if strings.Contains(name, "/kube-vip:") {
			return name
		}
	}
	t.Fatalf("no kube-vip in the image: %s", names)
	return ""
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
