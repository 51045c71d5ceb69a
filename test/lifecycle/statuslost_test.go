// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/server"
)

// How long a host is left alone in each state after its status was emptied: many
// polls (2 s) and reset intervals, so that what Ingot would do, it does.
const statusHold = 6 * time.Second

// statusPOST is how long firmware takes, so that a host can be caught while the
// wipe has been ordered and its agent has not come.
const statusPOST = statusHold + 2*time.Second

// deed is one thing that was done to a server, as its BMC or its disk tells it.
type deed struct{ Host, Scene, What string }

// testStatusLost: the same scenes are played twice, once with the status of every
// object emptied in each of the states free, provisioning, provisioned and wiping.
// BMCs and disks must tell the same in both (I2, I3), deed by deed.
func testStatusLost(t *testing.T, plane *Plane) {
	var told [2][]deed
	for i, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%t", lost), func(t *testing.T) { told[i] = playStatusLost(t, plane, lost) })
	}
	if diff := cmp.Diff(told[0], told[1]); diff != "" {
		t.Errorf("what was done to the servers with (+) and without (-) a lost status:\n%s", diff)
	}
	for _, want := range []deed{
		{hostFree, "before", "BMC POST Reset On 204"},
		{hostWiping, "caught", "BMC POST Reset GracefulShutdown 204"},
		{hostProvisioning, "after", "disk InstallComplete attempt 1"},
		{hostWiping, "after", "disk MarkerRemoved attempt 1"},
	} {
		if !slices.Contains(told[0], want) {
			t.Errorf("%+v is not among the deeds: nothing was compared\n%+v", want, told[0])
		}
	}
	t.Logf("%d deeds of BMCs and disks, the same in both", len(told[1]))
}

// The hosts, by what they are when the status is lost.
const (
	hostFree         = "free"
	hostProvisioning = "provisioning"
	hostProvisioned  = "provisioned"
	hostWiping       = "wiping"
)

// statusScenes plays the scenes and writes down the deeds of each.
type statusScenes struct {
	t     *testing.T
	site  *Site
	lost  bool
	deeds []deed
	seen  map[string]int
	// emptied counts the objects whose status was taken.
	emptied int
}

func playStatusLost(t *testing.T, plane *Plane, lost bool) []deed {
	site := plane.NewSite(t, SiteOptions{
		Servers: []string{hostFree, hostProvisioning, hostProvisioned, hostWiping},
		Simulate: func(name string, c *server.Config) {
			if name == hostWiping {
				c.POST = statusPOST
			}
		},
	})
	site.StartManager(t, ManagerOptions{Name: "manager", Args: []string{"--reset-interval=5s", "--agent-deadline=2m", "--v=1"}})
	site.CreateCluster(t)
	s := &statusScenes{t: t, site: site, lost: lost, seen: map[string]int{}}
	for _, name := range []string{hostFree, hostProvisioning, hostProvisioned, hostWiping} {
		site.Register(t, name)
	}
	site.Await(t, "hosts inspected", site.Free(hostFree, hostProvisioning, hostProvisioned, hostWiping))
	for _, name := range []string{hostProvisioned, hostWiping} {
		site.Claim(t, name, theHost(name))
	}
	site.Await(t, "two hosts installed", site.Installed(hostProvisioned, hostWiping))
	s.note("before")

	site.Images = newImageServer(t, 2) // one that the boot server does not have yet
	site.Images.Hold()
	site.Claim(t, hostProvisioning, theHost(hostProvisioning))
	site.Await(t, "an agent at work", s.agentAtWork)
	site.Delete(t, hostWiping)
	site.Await(t, "a wipe ordered and the server on", s.wipeOrdered)
	s.note("caught")
	s.lose()
	time.Sleep(statusHold)
	s.note("held")
	site.Images.Release()
	site.Await(t, "the install to end", site.Provisioned(hostProvisioning, hostProvisioned))
	site.Await(t, "the wipe to end", site.Free(hostFree, hostWiping))
	s.note("after")
	s.lose()
	time.Sleep(statusHold)
	s.note("at rest")
	site.Await(t, "everything as before", site.Provisioned(hostProvisioning, hostProvisioned))
	site.Await(t, "everything as before", site.Free(hostFree, hostWiping))
	site.History.Settle(t)
	versions := site.History.Versions(t)
	if n := emptied(versions); (n > 0) != lost || lost && n < s.emptied {
		t.Errorf("%d objects lost their status, by the history %d", s.emptied, n)
	}
	_, wrong := CheckClaims(site.Namespace, versions)
	for _, name := range []string{hostFree, hostProvisioning, hostProvisioned, hostWiping} {
		_, bad := CheckDisk(name, site.Server(name).Simulated.Disks()[0].Log(), versions)
		wrong = append(wrong, bad...)
	}
	for _, text := range wrong {
		t.Error(text)
	}
	return s.deeds
}

// emptied counts the versions of hosts and machines with an empty status that had
// one before.
func emptied(versions []Version) int {
	n, had := 0, map[string]bool{}
	for _, v := range versions {
		var name string
		var filled bool
		if v.Host != nil {
			name, filled = "host "+v.Host.Name, v.Host.Status.Phase != ""
		} else {
			name, filled = "machine "+v.Machine.Name, len(v.Machine.Status.Conditions) > 0
		}
		if had[name] && !filled {
			n++
		}
		had[name] = filled
	}
	return n
}

// agentAtWork: the agent holds its order and waits for the image.
func (s *statusScenes) agentAtWork(context.Context) (string, error) {
	host := s.site.Host(s.t, hostProvisioning)
	if host.Spec.Order == nil || host.Spec.Order.AgentKey == "" || host.Spec.Claim.State != infrav1.ClaimProvisioning {
		return "the agent has no session", nil
	}
	return "", nil
}

// wipeOrdered: the server is on for a wipe, and its agent has not come.
func (s *statusScenes) wipeOrdered(context.Context) (string, error) {
	order := s.site.Host(s.t, hostWiping).Spec.Order
	if order == nil || order.Kind != infrav1.OrderClean || !s.site.Server(hostWiping).Powered() {
		return "the wipe is not under way", nil
	}
	if order.AgentKey != "" {
		return "", fmt.Errorf("the agent came too early: the state was missed")
	}
	return "", nil
}

// lose empties the status of everything that is Ingot's.
func (s *statusScenes) lose() {
	if !s.lost {
		return
	}
	hosts, machines := s.site.EmptyAll(s.t)
	s.emptied += hosts + machines
	for _, name := range []string{hostFree, hostProvisioning, hostProvisioned, hostWiping} {
		s.site.Await(s.t, "status of "+name+" written again", func(context.Context) (string, error) {
			if s.site.Host(s.t, name).Status.Phase == "" {
				return "its value is empty", nil
			}
			return "", nil
		})
	}
}

// endsAgent says whether a write cuts the power of an agent that has reported the
// end of an inspection or a wipe. That agent switches the server off by itself at the
// same moment; who is faster makes no difference to anything.
func endsAgent(w bmc.Write, events []server.Event) bool {
	if w.Action != "Reset ForceOff" {
		return false
	}
	reported, install := false, false
	for _, e := range events {
		switch {
		case e.At.After(w.At):
		case e.Kind == server.EventPowerOn:
			reported, install = false, false
		case e.Kind == server.EventAgent && strings.HasPrefix(e.Detail, "order: Install"):
			install = true
		case e.Kind == server.EventAgent && strings.HasPrefix(e.Detail, "report: "):
			reported = true
		}
	}
	return reported && !install
}

// note writes down what BMCs and disks tell since the last time: each write to a
// BMC that is not a login, each change of a disk's marker, and how many bytes each
// disk took since.
func (s *statusScenes) note(scene string) {
	for _, one := range s.site.DataCenter.Servers {
		name := one.Spec.Name
		var all []string
		for _, w := range one.BMC.Writes() {
			if !strings.Contains(w.Path, "SessionService") && !endsAgent(w, one.Simulated.Events()) {
				all = append(all, fmt.Sprintf("BMC %s %s %d", w.Method, w.Action, w.Status))
			}
		}
		disk := one.Simulated.Disks()[0]
		marks := 0
		for _, e := range disk.Log() {
			marks++
			if marks > s.seen[name+"/marks"] {
				s.deeds = append(s.deeds, deed{name, scene, fmt.Sprintf("disk %s attempt %d", e.Kind, e.Marker.Attempt)})
			}
		}
		s.seen[name+"/marks"] = marks
		for _, what := range all[s.seen[name]:] {
			s.deeds = append(s.deeds, deed{name, scene, what})
		}
		s.seen[name] = len(all)
		written, zeroed := disk.BytesWritten()
		s.deeds = append(s.deeds, deed{name, scene, fmt.Sprintf("disk has taken %d and zeroed %d bytes, on %t", written, zeroed, one.Powered())})
	}
}
