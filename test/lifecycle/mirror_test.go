// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agent/raid"
	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/server"
)

// testMirror: a machine asks for two disks. It is placed on no host that has one, and on
// the one with two the image is on both, each has a superblock of the same array, and the
// ledger names both. Its release leaves neither.
func testMirror(t *testing.T, plane *Plane) {
	const one, two = "one", "two"
	site := plane.NewSite(t, SiteOptions{
		Servers: []string{one, two},
		Simulate: func(name string, c *server.Config) {
			if name == two {
				second := c.Disks[0]
				second.Path, second.Serial, second.SizeBytes = second.Path+".second", name+"-d1", diskSize
				c.Disks = append(c.Disks, second)
			}
		},
	})
	site.StartManager(t, ManagerOptions{})
	site.CreateCluster(t)
	site.Register(t, one)
	site.Await(t, "the host with one disk", site.Free(one))
	spec := infrav1.IngotMachineSpec{SoftwareRAID: &infrav1.SoftwareRAID{Level: infrav1.SoftwareRAIDLevel1},
		Image: infrav1.Image{URL: site.Images.URL, Checksum: site.Images.Checksum}}
	site.ClaimAs(t, two, spec)
	site.Await(t, "a refusal", site.unplaced(two, "softwareRAID needs two disks"))

	site.Register(t, two)
	site.Await(t, "a running system", site.Provisioned(two))
	host := &infrav1.IngotHost{}
	check(t, site.Client.Get(t.Context(), client.ObjectKey{Namespace: site.Namespace, Name: two}, host))
	claim := host.Spec.Claim
	if claim.RootDisk == nil || len(claim.MirrorDisks) != 1 || claim.RootDisk.SerialNumber+claim.MirrorDisks[0].SerialNumber != "two-d0two-d1" {
		t.Errorf("the claim names %v and %v", claim.RootDisk, claim.MirrorDisks)
	}
	disks := site.Server(two).Simulated.Disks()
	install := server.Install{InstanceID: claim.InstanceID, Attempt: claim.Attempt}
	var arrays [][16]byte
	for i, disk := range disks {
		found := superblocks(t, disk)
		if len(found) != 1 || found[0].Role != i || found[0].Members != 2 || disk.CompleteWrites()[install] != 1 {
			t.Fatalf("disk %d: superblocks %+v, complete %v", i, found, disk.CompleteWrites())
		}
		arrays = append(arrays, found[0].Array)
		if got := imageOn(t, disk); got != string(site.Images.Content) {
			t.Errorf("disk %d does not hold the image", i)
		}
	}
	if arrays[0] != arrays[1] {
		t.Errorf("members of two arrays: %x", arrays)
	}

	site.Delete(t, two)
	site.Await(t, "hosts given back", site.Free(one, two))
	for i, disk := range disks {
		if found := superblocks(t, disk); len(found) > 0 || disk.Wipes() != 1 {
			t.Errorf("disk %d: %+v after %d wipes", i, found, disk.Wipes())
		}
	}
	if begun := site.Server(one).Simulated.Disks()[0].Log(); len(begun) > 0 {
		t.Errorf("the host with one disk was written: %+v", begun)
	}
}

// unplaced waits until the machine says why it has no host.
func (s *Site) unplaced(name, why string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		machine := &infrav1.IngotMachine{}
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, machine); err != nil {
			return "", err
		}
		if machine.Spec.ProviderID != "" {
			return "", fmt.Errorf("the machine was placed: %s", machine.Spec.ProviderID)
		}
		said := apimeta.FindStatusCondition(machine.Status.Conditions, infrav1.MachineHostClaimedCondition)
		if said == nil || !strings.Contains(said.Message, why) {
			return fmt.Sprintf("the machine says %v", said), nil
		}
		return "", nil
	}
}

func superblocks(t *testing.T, disk *server.Disk) []raid.Superblock {
	t.Helper()
	f, err := os.Open(disk.Path())
	check(t, err)
	defer func() { _ = f.Close() }()
	return raid.Find(f, diskSize)
}

// imageOn is the content of the disk's first bytes, but for the marker.
func imageOn(t *testing.T, disk *server.Disk) string {
	t.Helper()
	f, err := os.Open(disk.Path())
	check(t, err)
	defer func() { _ = f.Close() }()
	b := make([]byte, imageSize)
	_, err = f.ReadAt(b, 0)
	check(t, err)
	clear(b[agentapi.MarkerOffset : agentapi.MarkerOffset+agentapi.MarkerSize])
	return string(b)
}
