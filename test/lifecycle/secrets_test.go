// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/server"
)

// The canaries. Nothing else in a run holds these words.
const (
	canaryUser     = "canary-user-data-7c1e55d0"
	canaryPassword = "canary-password-94ab3f21"
)

// eventRefused is the reason of the events about refused requests (I14).
const eventRefused = "AgentRequestRejected"

// testSecrets: what is secret is nowhere but where it belongs, and what an agent
// may do nobody else may (I14–I16, I18).
func testSecrets(t *testing.T, plane *Plane) {
	const name = "vault"
	frames := &capture{}
	var nic server.NIC
	site := plane.NewSite(t, SiteOptions{
		Servers: []string{name}, Password: canaryPassword, Capture: frames,
		UserData: "#cloud-config\n# " + canaryUser + "\n",
		Simulate: func(_ string, c *server.Config) { nic = c.NIC },
	})
	manager := site.StartManager(t, ManagerOptions{Name: "manager", Args: []string{"--v=5", "--agent-deadline=2m"}})
	site.CreateCluster(t)
	site.Register(t, name)
	site.Await(t, "host inspected", site.Free(name))

	a := &abuse{t: t, site: site, name: name, nic: nic}
	site.Images.Hold()
	site.Claim(t, name, theHost(name))
	a.fromElsewhere()
	a.secondKey()
	// The canary must have been on the disk before the first boot removed it, or its
	// absence afterwards says nothing.
	delivered := watchDisk(t, site.Server(name).DiskPath)
	site.Images.Release()
	site.Await(t, "host installed all the same", site.Installed(name))
	a.afterTheEnd()

	if !delivered() {
		t.Error("user data was never seen on the disk: that it is gone says nothing")
	}
	found := &search{t: t, canaries: []string{canaryUser, canaryPassword}}
	found.inFile("installed disk", site.Server(name).DiskPath)
	found.in("log of the manager", manager.Log(t))
	found.in("network capture", frames.bytes())
	found.in("metrics", fetch(t, manager.MetricsURL()))
	found.inObjects(plane, site.Namespace)
	found.inDir("console of the server", filepath.Join(site.dir, "dc", name), ".log")
	site.Delete(t, name)
	site.Await(t, "host wiped", site.Free(name))
	found.in("log of the manager after the release", manager.Log(t))
}

// abuse does what agents must not get away with.
type abuse struct {
	t             *testing.T
	site          *Site
	name          string
	nic           server.NIC
	unknownClient *UnknownClient
}

func (a *abuse) bootServer() string { return a.site.subnet("2") + ":8880" }

// atWork waits for an agent with a session, and returns its order's id.
func (a *abuse) atWork(not string) string {
	a.t.Helper()
	id := ""
	a.site.Await(a.t, "an agent at work", func(context.Context) (string, error) {
		order := a.site.Host(a.t, a.name).Spec.Order
		if order == nil || order.Kind != infrav1.OrderInstall || order.AgentKey == "" || order.ID == not {
			return "no agent has a session", nil
		}
		id = order.ID
		return "", nil
	})
	return id
}

// refused makes a call and wants a refusal.
func (a *abuse) refused(s *UnknownClient, path string, in any, want agentapi.Reason) {
	a.t.Helper()
	got, err := s.Call(a.t.Context(), path, in)
	check(a.t, err)
	if got != want {
		a.t.Errorf("%s was answered with reason %q, want %q", path, got, want)
	}
}

// event waits for an event about the host.
func (a *abuse) event(reason, words string) {
	a.t.Helper()
	a.site.Await(a.t, "event "+reason+" with "+words, func(ctx context.Context) (string, error) {
		events := &eventsv1.EventList{}
		if err := a.site.Client.List(ctx, events, client.InNamespace(a.site.Namespace)); err != nil {
			return "", err
		}
		for _, e := range events.Items {
			if e.Regarding.Name == a.name && e.Reason == reason && strings.Contains(e.Note, words) {
				return "", nil
			}
		}
		return "no such event among " + fmt.Sprint(len(events.Items)), nil
	})
}

// powers counts what the BMC was told to do with the power.
func (a *abuse) powers() []string { return a.site.Server(a.name).BMC.Actions() }

// fromElsewhere: another host's address gets no boot script with this host's token; and
// with the token, which somebody listened to, it is refused, and nothing happens to the
// host.
func (a *abuse) fromElsewhere() {
	a.t.Helper()
	id := a.atWork("")
	elsewhere, err := network.NewStack(a.site.DataCenter.Switch, network.StackConfig{
		Name: "unknown", Address: netip.MustParsePrefix(a.site.subnet("77/24")),
	})
	check(a.t, err)
	defer func() { _ = elsewhere.Close() }()
	unknownClient, listener := newUnknownClient(a.t, elsewhere), newUnknownClient(a.t, a.nic)
	mac := a.site.Server(a.name).MAC.String()
	if err := unknownClient.Steal(a.t.Context(), a.bootServer(), mac); !errors.Is(err, ErrNoAgentBoot) {
		a.t.Errorf("a boot script with a token was given to another address: %v", err)
	}
	check(a.t, listener.Steal(a.t.Context(), a.bootServer(), mac))
	unknownClient.token, unknownClient.server = listener.token, listener.server
	before := a.powers()
	a.refused(unknownClient, agentapi.PathSession, agentapi.SessionRequest{}, agentapi.ReasonTokenInvalid)
	a.refused(unknownClient, agentapi.PathBootstrap, agentapi.BootstrapRequest{OrderID: id}, agentapi.ReasonTokenInvalid)
	a.event(eventRefused, a.site.subnet("77"))
	time.Sleep(statusHold / 2) // two polls
	order := a.site.Host(a.t, a.name).Spec.Order
	if after := a.powers(); !slices.Equal(before, after) || order == nil || order.ID != id || ptr.Deref(order.Revoked, false) {
		a.t.Errorf("a request from another address changed something: BMC %v, then %v; order %+v", before, after, order)
	}
}

// secondKey: a second key with the same token, from the host's own address, ends
// both: event, condition, power off, and then a fresh attempt.
func (a *abuse) secondKey() {
	a.t.Helper()
	id := a.atWork("")
	a.unknownClient = newUnknownClient(a.t, a.nic)
	check(a.t, a.unknownClient.Steal(a.t.Context(), a.bootServer(), a.site.Server(a.name).MAC.String()))
	cuts := len(a.powers())
	a.refused(a.unknownClient, agentapi.PathBootstrap, agentapi.BootstrapRequest{OrderID: id}, agentapi.ReasonKeyConflict)
	a.event(infrav1.ReasonAgentKeyConflict, "Two agents used the same token")
	a.site.Await(a.t, "power off", func(context.Context) (string, error) {
		for _, action := range a.powers()[cuts:] {
			if action == "Reset ForceOff" {
				return "", nil
			}
		}
		return "the BMC was told nothing of it", nil
	})
	a.refused(a.unknownClient, agentapi.PathBootstrap, agentapi.BootstrapRequest{OrderID: id}, a.gone(id))
	a.atWork(id)
	a.site.History.Settle(a.t)
	revoked, shown := false, false
	for _, v := range a.site.History.Versions(a.t) {
		if v.Host == nil {
			continue
		}
		revoked = revoked || v.Host.Spec.Order != nil && v.Host.Spec.Order.ID == id && ptr.Deref(v.Host.Spec.Order.Revoked, false)
		for _, c := range v.Host.Status.Conditions {
			shown = shown || c.Reason == infrav1.ReasonAgentKeyConflict
		}
	}
	if !revoked || !shown {
		a.t.Errorf("order revoked: %t; a condition says %s: %t", revoked, infrav1.ReasonAgentKeyConflict, shown)
	}
}

// gone is the reason of a refusal while a revoked order is there, and after it.
func (a *abuse) gone(id string) agentapi.Reason {
	a.t.Helper()
	a.site.Await(a.t, "a fresh order", func(context.Context) (string, error) {
		if order := a.site.Host(a.t, a.name).Spec.Order; order == nil || order.ID == id {
			return "the revoked one is still there", nil
		}
		return "", nil
	})
	return agentapi.ReasonOrderGone
}

// afterTheEnd: a token of an order that has ended gets nothing, and nothing
// happens to the host.
func (a *abuse) afterTheEnd() {
	a.t.Helper()
	before := a.powers()
	for path, in := range map[string]any{
		agentapi.PathSession: agentapi.SessionRequest{}, agentapi.PathOrder: agentapi.OrderRequest{},
		agentapi.PathBootstrap: agentapi.BootstrapRequest{}, agentapi.PathReport: agentapi.Report{Outcome: agentapi.Failed},
	} {
		if reason, err := a.unknownClient.Call(a.t.Context(), path, in); err != nil || reason == "" {
			a.t.Errorf("%s after the end was answered with %q, %v", path, reason, err)
		}
	}
	a.event(eventRefused, "has ended")
	time.Sleep(statusHold)
	host := a.site.Host(a.t, a.name)
	if after := a.powers(); !slices.Equal(before, after) || host.Spec.Claim.State != infrav1.ClaimProvisioned || host.Spec.Order != nil {
		a.t.Errorf("a request after the end changed something: BMC %v, then %v; ledger %+v", before, after, host.Spec)
	}
}

// capture keeps the frames of a network.
type capture struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Write(p)
}

func (c *capture) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.buf.Bytes())
}

// watchDisk looks at the end of a disk, where simulated servers keep the seed, for
// the canary; what it returns ends that, and says whether it was seen.
func watchDisk(t *testing.T, path string) func() bool {
	t.Helper()
	disk, err := os.Open(path)
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan bool, 1)
	go func() {
		defer func() { _ = disk.Close() }()
		tail := make([]byte, 1<<20)
		found := false
		for ctx.Err() == nil {
			if _, err := disk.ReadAt(tail, diskSize-int64(len(tail))); err == nil {
				found = found || bytes.Contains(tail, []byte(canaryUser))
			}
			time.Sleep(2 * time.Millisecond)
		}
		seen <- found
	}()
	return sync.OnceValue(func() bool { cancel(); return <-seen })
}

// search looks for canaries, as they are and in base64, whatever their offset in it.
type search struct {
	t        *testing.T
	canaries []string
}

func (s *search) forms() [][]byte {
	var forms [][]byte
	for _, canary := range s.canaries {
		forms = append(forms, []byte(canary))
		for shift := range 3 {
			// The first and last characters depend on the neighbours.
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + canary))
			forms = append(forms, []byte(text[4:len(text)-4]))
		}
	}
	return forms
}

// in searches some bytes; none at all is an error, since nothing was searched.
func (s *search) in(what string, data []byte) {
	s.t.Helper()
	if len(data) == 0 {
		s.t.Errorf("%s is empty: nothing was searched", what)
	}
	for _, form := range s.forms() {
		if at := bytes.Index(data, form); at >= 0 {
			s.t.Errorf("%s holds %q: …%q…", what, form, data[max(0, at-200):at])
		}
	}
	s.t.Logf("searched %s: %d bytes", what, len(data))
}

// inFile searches a large file piece by piece.
func (s *search) inFile(what, path string) {
	s.t.Helper()
	file, err := os.Open(path)
	check(s.t, err)
	defer func() { _ = file.Close() }()
	const overlap = 256
	buffer := make([]byte, overlap+8<<20)
	total := 0
	for {
		n, err := io.ReadFull(file, buffer[overlap:])
		total += n
		for _, form := range s.forms() {
			if bytes.Contains(buffer[:overlap+n], form) {
				s.t.Errorf("%s holds %q before byte %d", what, form, total)
			}
		}
		if err != nil {
			break // its end
		}
		copy(buffer, buffer[len(buffer)-overlap:])
	}
	s.t.Logf("searched %s: %d bytes", what, total)
}

// inDir searches the files of a directory that end so.
func (s *search) inDir(what, dir, suffix string) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	check(s.t, err)
	if len(files) == 0 {
		s.t.Errorf("no %s in %s", what, dir)
	}
	for _, file := range files {
		s.inFile(what, file)
	}
}

// inObjects searches every object of every kind that can be listed, as kubectl
// shows it, but for the Secrets that hold the canaries: there they must be.
func (s *search) inObjects(plane *Plane, namespace string) {
	s.t.Helper()
	kinds := strings.Fields(string(plane.Kubectl(s.t, "api-resources", "--verbs=list", "--output=name")))
	own := map[string]string{bootstrapSecret: canaryUser, "vault" + secretSuffix: canaryPassword}
	objects, total := 0, 0
	for _, kind := range kinds {
		var list struct{ Items []json.RawMessage }
		check(s.t, json.Unmarshal(plane.Kubectl(s.t, "get", "--all-namespaces", "--output=json", "--show-managed-fields", kind), &list))
		for _, item := range list.Items {
			var object metav1.PartialObjectMetadata
			check(s.t, json.Unmarshal(item, &object))
			objects, total = objects+1, total+len(item)
			if canary := own[object.Name]; kind == "secrets" && object.Namespace == namespace && canary != "" {
				s.belongs(plane, item, object, canary)
				delete(own, object.Name)
				continue
			}
			for _, form := range s.forms() {
				if bytes.Contains(item, form) {
					s.t.Errorf("%s %s/%s holds %q", kind, object.Namespace, object.Name, form)
				}
			}
		}
	}
	if len(own) != 0 {
		s.t.Errorf("these Secrets were not found: %v", own)
	}
	s.t.Logf("searched %d objects of %d kinds: %d bytes", objects, len(kinds), total)
}

// belongs: a canary is found in its own Secret by the very search that finds it
// nowhere else, and the Secret is what Ingot was given.
func (s *search) belongs(plane *Plane, item []byte, object metav1.PartialObjectMetadata, canary string) {
	s.t.Helper()
	secret := &corev1.Secret{}
	check(s.t, plane.Client.Get(s.t.Context(), client.ObjectKey{Namespace: object.Namespace, Name: object.Name}, secret))
	there := slices.ContainsFunc(slices.Collect(maps.Values(secret.Data)), func(value []byte) bool { return bytes.Contains(value, []byte(canary)) })
	seen := slices.ContainsFunc(s.forms(), func(form []byte) bool { return bytes.Contains(item, form) })
	if !there || !seen {
		s.t.Errorf("Secret %s: holds its canary: %t; the search finds it: %t", object.Name, there, seen)
	}
}

// fetch reads a page.
func fetch(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	check(t, err)
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	check(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s answered %d", url, response.StatusCode)
	}
	return body
}
