// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/lifecycle"
)

const password = "a-password"

// A scene is a site with its storm.
type scene struct {
	size    size
	site    *lifecycle.Site
	manager *lifecycle.Manager
	gauge   *gauge
	// pprof is where the manager shows its goroutines.
	pprof string
	// names are all hosts; the early ones are there before the storm.
	names, early []string
	faultyBMCs   map[string]*faultyBMC
	faultWindows []faultWindow
	// stays has, by host, the faults that stay.
	stays    map[string]faultWindow
	workload []workItem
	// machines that were ever made; false: deleted.
	machines map[string]bool
}

// newScene builds data center and management cluster, and starts the manager.
func newScene(t *testing.T, s size, seed uint64) *scene {
	t.Helper()
	sc := &scene{size: s, stays: map[string]faultWindow{}, machines: map[string]bool{}}
	for i := range s.hosts {
		sc.names = append(sc.names, fmt.Sprintf("h-%03d", i))
	}
	rng := source(seed)
	ill := slices.Clone(sc.names)
	rng.Shuffle(len(ill), func(i, j int) { ill[i], ill[j] = ill[j], ill[i] })
	late := slices.Clone(ill[s.hosts-s.hosts/10:])
	ill = ill[:s.hosts*s.share/100]
	late = append(late, ill[:len(ill)/4]...)
	sc.early = slices.DeleteFunc(slices.Clone(sc.names), func(name string) bool { return slices.Contains(late, name) })
	byIPMI := sc.speakers(rng)
	isIPMI := func(name string) bool { return byIPMI[name] }
	sc.faultWindows = append(forecast(rng, slices.DeleteFunc(slices.Clone(ill), isIPMI), s.length, catalogue),
		forecast(rng, slices.DeleteFunc(slices.Clone(ill), func(name string) bool { return !byIPMI[name] }), s.length, ipmiCatalogue)...)
	sortBy(sc.faultWindows, func(s faultWindow) time.Duration { return s.at })
	sc.workload = workload(rng, late, s.hosts*3/5, s.length)
	for _, faultWindow := range sc.faultWindows {
		if faultWindow.until == 0 && !faultWindow.fault.passes {
			sc.stays[faultWindow.host] = faultWindow
		}
	}
	makers := append(bmc.Personalities(), bmc.Personality{}) // and a bare one
	plane := lifecycle.NewPlane(t)
	sc.site = plane.NewSite(t, lifecycle.SiteOptions{
		Servers: sc.names, Password: password,
		Configure: func(spec *datacenter.ServerSpec) {
			spec.Personality, spec.MaxSessions = makers[rng.IntN(len(makers))], 0
			if byIPMI[spec.Name] {
				spec.Protocol = datacenter.IPMI
			}
		},
	})
	sc.addFaultyBMCs(t, ill)
	ports, err := controlplane.FreePorts(1)
	check(t, err)
	sc.pprof = net.JoinHostPort("127.0.0.1", fmt.Sprint(ports[0]))
	sc.manager = sc.site.StartManager(t, lifecycle.ManagerOptions{
		Name: "manager", Direct: true, Shorten: s.factor, Args: []string{"--v=1", "--profiler-address=" + sc.pprof},
	})
	sc.site.CreateCluster(t)
	return sc
}

// addFaultyBMCs collects the BMCs that get faults.
func (sc *scene) addFaultyBMCs(t *testing.T, ill []string) {
	t.Helper()
	other, err := bmc.NewAuthority()
	check(t, err)
	sc.faultyBMCs = map[string]*faultyBMC{}
	for _, name := range ill {
		server := sc.site.Server(name)
		sc.faultyBMCs[name] = &faultyBMC{bmc: server.BMC, ipmi: server.IPMI, authority: sc.site.DataCenter.Authority, password: password, other: other}
	}
}

// speakers are the hosts whose BMC speaks IPMI alone: a quarter of all.
func (sc *scene) speakers(rng *rand.Rand) map[string]bool {
	names := slices.Clone(sc.names)
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	speakers := map[string]bool{}
	for _, name := range names[:len(names)/4] {
		speakers[name] = true
	}
	return speakers
}

func (sc *scene) register(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		sc.site.Register(t, name)
	}
}

// Await waits until nothing is missing.
func (sc *scene) Await(t *testing.T, limit time.Duration, what string, missing eventually.Missing) {
	t.Helper()
	sc.site.AwaitFor(t, limit, what, missing)
}

// telling is how often a long wait says what it waits for.
const telling = 20 * time.Second

// steady is how many times in a row all has to be right: a poll lies between two.
const steady = 3

// allRight says which hosts and machines are not as they should be, the hosts with
// these faults aside.
func (sc *scene) allRight(t *testing.T, stays map[string]*fault) eventually.Missing {
	t.Helper()
	times, told := 0, time.Now()
	return func(ctx context.Context) (string, error) {
		time.Sleep(time.Minute / time.Duration(sc.size.factor) / 2)
		wrong := wrongs(sc.look(ctx, stays), 5)
		if wrong == "" {
			var err error
			if wrong, err = sc.machinesLack(ctx, stays); err != nil {
				return "", err
			}
		}
		if times++; wrong != "" {
			times = 0
			if time.Since(told) > telling {
				told = time.Now()
				t.Logf("not yet: %s", wrong)
			}
			return wrong, nil
		}
		if times < steady {
			return fmt.Sprintf("all is right, for %d of %d times", times, steady), nil
		}
		return "", nil
	}
}

// look judges every host that is registered.
func (sc *scene) look(ctx context.Context, stays map[string]*fault) (ends []end) {
	hosts := &infrav1.IngotHostList{}
	if err := sc.site.Client.List(ctx, hosts, client.InNamespace(sc.site.Namespace)); err != nil {
		return []end{{wrong: err.Error()}}
	}
	for i := range hosts.Items {
		host := &hosts.Items[i]
		e := end{host: host.Name, fault: healthy}
		if sc.faultyBMCs[host.Name] != nil {
			e.fault = passed
		}
		if f := stays[host.Name]; f != nil {
			e.fault = f.name
		}
		e.reason, e.wrong = judge(host, sc.site.Server(host.Name).Powered(), stays[host.Name])
		ends = append(ends, e)
	}
	return ends
}

// machinesLack says which machines are neither served nor gone. One whose host has a
// fault waits with it, and one without a host only while there is none to have.
func (sc *scene) machinesLack(ctx context.Context, stays map[string]*fault) (string, error) {
	hosts, machines := &infrav1.IngotHostList{}, &infrav1.IngotMachineList{}
	err := errors.Join(sc.site.Client.List(ctx, hosts, client.InNamespace(sc.site.Namespace)),
		sc.site.Client.List(ctx, machines, client.InNamespace(sc.site.Namespace)))
	if err != nil {
		return "", err
	}
	free := ""
	for i := range hosts.Items {
		if conditions.IsTrue(&hosts.Items[i], infrav1.HostAvailableCondition) {
			free = hosts.Items[i].Name
		}
	}
	var lacks []string
	for i := range machines.Items {
		m := &machines.Items[i]
		host := ""
		if m.Status.HostRef != nil {
			host = m.Status.HostRef.Name
		}
		switch {
		case host != "" && stays[host] != nil:
		case !m.DeletionTimestamp.IsZero():
			lacks = append(lacks, m.Name+" is still being deleted, on host "+host)
		case host == "" && free != "":
			lacks = append(lacks, m.Name+" has no host, and "+free+" is free: "+conditions.GetMessage(m, infrav1.MachineHostClaimedCondition))
		case host != "" && !ptr.Deref(m.Status.Initialization.Provisioned, false):
			lacks = append(lacks, m.Name+" is not provisioned, on host "+host)
		}
	}
	if len(lacks) > 5 {
		lacks = append(lacks[:5], fmt.Sprintf("and %d more", len(lacks)-5))
	}
	return strings.Join(lacks, "\n"), nil
}

// cure ends all faults, and brings back the hosts that were taken out of service as
// a person does.
func (sc *scene) cure(t *testing.T) {
	t.Helper()
	for _, p := range sc.faultyBMCs {
		check(t, p.cure())
	}
	hosts := &infrav1.IngotHostList{}
	check(t, sc.site.Client.List(t.Context(), hosts, client.InNamespace(sc.site.Namespace)))
	for i := range hosts.Items {
		host := &hosts.Items[i]
		reason := conditions.GetReason(host, infrav1.ReadyCondition)
		annotation := map[string]string{infrav1.ReasonQuarantined: infrav1.ClearQuarantineAnnotation, infrav1.ReasonPoweredOnUnexpectedly: infrav1.ApproveAnnotation}[reason]
		if annotation == "" {
			continue
		}
		t.Logf("%s is %s (faults: %s): annotated with %s", host.Name, reason, sc.faultsOf(host.Name), annotation)
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, time.Now().UTC().Format(time.RFC3339))
		check(t, sc.site.Client.Patch(t.Context(), host, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
}

// faultsOf names the faults that a host had.
func (sc *scene) faultsOf(host string) string {
	var names []string
	for _, s := range sc.faultWindows {
		if s.host == host {
			names = append(names, s.fault.name)
		}
	}
	return strings.Join(names, ", ")
}

// history: no host was ever claimed twice, and no disk written that should not be.
func (sc *scene) history(t *testing.T) {
	t.Helper()
	sc.site.History.Settle(t)
	versions := sc.site.History.Versions(t)
	claims, wrong := lifecycle.CheckClaims(sc.site.Namespace, versions)
	installs := 0
	for _, name := range sc.names {
		n, bad := lifecycle.CheckDisk(name, sc.site.Server(name).Simulated.Disks()[0].Log(), versions)
		installs, wrong = installs+n, append(wrong, bad...)
	}
	for _, text := range wrong {
		t.Error(text)
	}
	t.Logf("%d versions of hosts and machines, %d claims, %d complete writes of disks, %d breaches", len(versions), claims, installs, len(wrong))
}

// goroutines of the manager.
func (sc *scene) goroutines(t *testing.T) map[string]int {
	t.Helper()
	profile, err := fetch(t.Context(), "http://"+sc.pprof+"/debug/pprof/goroutine?debug=1")
	check(t, err)
	return goroutinesOf(profile)
}

func sortBy[T any, K cmp.Ordered](list []T, key func(T) K) {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
