// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/server"
)

// The hosts of the scene, by what happens to their live systems.
const (
	liveQuiet, liveDisturbed, liveCrashed = "quiet", "disturbed", "crashed"
)

// liveScene is what the tests do while a live system is about to fetch its data.
type liveScene struct {
	t    *testing.T
	site *Site

	mu sync.Mutex
	// held is closed when the system may go on; asked gets its command line.
	held  map[string]chan struct{}
	asked map[string]chan string
	nics  map[string]server.NIC
}

// hold has the next live system of a server wait before its first request.
func (s *liveScene) hold(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name], s.asked[name] = make(chan struct{}), make(chan string, 1)
}

// live is called by the simulated server.
func (s *liveScene) live(name string) func(context.Context, string) {
	return func(ctx context.Context, commandLine string) {
		s.mu.Lock()
		held, asked := s.held[name], s.asked[name]
		s.mu.Unlock()
		if held == nil {
			return
		}
		select {
		case asked <- commandLine:
		default:
		}
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
}

// goOn lets it go on, and all that come after it.
func (s *liveScene) goOn(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.held[name])
	s.held[name] = nil
}

// address waits for the live system and returns where its data is.
func (s *liveScene) address(name string) string {
	s.t.Helper()
	select {
	case line := <-s.asked[name]:
		for word := range strings.FieldsSeq(line) {
			if address, ok := strings.CutPrefix(word, "data="); ok {
				return address
			}
		}
		s.t.Fatal("the command line names no address")
	case <-time.After(patience):
		s.t.Fatalf("no live system started on %s", name)
	}
	return ""
}

// get asks as somebody on the network; 0: no answer.
func (s *liveScene) get(from Dialer, address string) (status int, body string) {
	s.t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return from.DialContext(ctx, network, addr)
		}}}
	response, err := client.Get(address)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(text)
}

// liveFile serves one file as an operator's mirror does.
func liveFile(t *testing.T, content []byte) infrav1.LiveFile {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(server.Close)
	return infrav1.LiveFile{URL: server.URL + "/file", Checksum: fmt.Sprintf("sha256:%x", sha256.Sum256(content))}
}

// testLive provisions systems that install themselves (I16): one over TLS, whose secret
// is found nowhere; one whose address somebody else tries, whose manager is killed, and
// whose first reply is lost; and one whose server loses its power before it has asked.
func testLive(t *testing.T, plane *Plane) {
	frames := &capture{}
	s := &liveScene{t: t, held: map[string]chan struct{}{}, asked: map[string]chan string{}, nics: map[string]server.NIC{}}
	s.site = plane.NewSite(t, SiteOptions{
		Servers: []string{liveQuiet, liveDisturbed, liveCrashed}, Capture: frames,
		UserData: "#cloud-config\n# " + canaryUser + "\n",
		Simulate: func(name string, c *server.Config) { s.nics[name], c.Live = c.NIC, s.live(name) },
	})
	manager := s.site.StartManager(t, ManagerOptions{Name: "manager", Args: []string{"--v=1"}})
	s.site.CreateCluster(t)
	for _, name := range []string{liveQuiet, liveDisturbed, liveCrashed} {
		s.site.Register(t, name)
	}
	s.site.Await(t, "hosts inspected", s.site.Free(liveQuiet, liveDisturbed, liveCrashed))
	system := infrav1.LiveSystem{
		Kernel:      liveFile(t, append([]byte(server.LiveKernel), make([]byte, 1<<20)...)),
		Initrd:      liveFile(t, bytes.Repeat([]byte("initramfs"), 200_000)),
		CommandLine: "quiet ds=nocloud;s={seedURL} pin={pin}", DataTransport: infrav1.LiveHTTPS,
	}
	s.quiet(system, manager, frames)
	system.CommandLine, system.DataTransport = "quiet data={dataURL}", infrav1.LiveHTTP
	s.disturbed(system, manager)
	s.crashed(system)
	for _, name := range []string{liveQuiet, liveDisturbed, liveCrashed} {
		s.site.Delete(t, name)
	}
	s.site.Await(t, "hosts wiped", s.site.Free(liveQuiet, liveDisturbed, liveCrashed))
	s.site.History.Settle(t)
	if claims, wrong := CheckClaims(s.site.Namespace, s.site.History.Versions(t)); claims != 3 || len(wrong) > 0 {
		t.Errorf("%d claims; %s", claims, strings.Join(wrong, "\n"))
	}
}

func (s *liveScene) claim(name string, live infrav1.LiveSystem) {
	s.t.Helper()
	s.site.ClaimAs(s.t, name, infrav1.IngotMachineSpec{HostSelector: theHost(name), Live: &live})
}

// quiet: nobody disturbs it. The data is on the disk until the first boot, and nowhere
// else.
func (s *liveScene) quiet(system infrav1.LiveSystem, manager *Manager, frames *capture) {
	s.t.Helper()
	delivered := watchDisk(s.t, s.site.Server(liveQuiet).DiskPath)
	s.claim(liveQuiet, system)
	s.site.Await(s.t, "a live system installed and booted from its disk", s.site.Installed(liveQuiet))
	claim := s.site.Host(s.t, liveQuiet).Spec.Claim
	if claim.LiveFetch == nil || claim.Attempt != 1 || claim.Image.URL != "" {
		s.t.Errorf("claim %+v", claim)
	}
	if !delivered() {
		s.t.Error("user data was never seen on the disk: that it is gone says nothing")
	}
	found := &search{t: s.t, canaries: []string{canaryUser}}
	found.in("log of the manager", manager.Log(s.t))
	found.in("network capture", frames.bytes())
	found.inFile("installed disk", s.site.Server(liveQuiet).DiskPath)
}

// disturbed: until the host's own system has asked, others get nothing; its first reply
// is lost with the manager that gave it.
func (s *liveScene) disturbed(system infrav1.LiveSystem, manager *Manager) {
	s.t.Helper()
	s.hold(liveDisturbed)
	s.claim(liveDisturbed, system)
	address := s.address(liveDisturbed)
	elsewhere, err := network.NewStack(s.site.DataCenter.Switch, network.StackConfig{
		Name: "unknown", Address: netip.MustParsePrefix(s.site.subnet("77/16")),
	})
	check(s.t, err)
	defer func() { _ = elsewhere.Close() }()
	if code, _ := s.get(elsewhere, address); code != http.StatusGone {
		s.t.Errorf("an unknown client was answered %d", code)
	}
	if host := s.site.Host(s.t, liveDisturbed); host.Spec.Claim.State != infrav1.ClaimProvisioning {
		s.t.Errorf("an unknown client's request has provisioned the host: %+v", host.Spec.Claim)
	}
	(&abuse{t: s.t, site: s.site, name: liveDisturbed}).event(infrav1.ReasonLiveDataRejected, s.site.subnet("77"))
	manager.Kill()
	code, body := 0, ""
	s.site.Await(s.t, "the data, from a manager that was killed and started again", func(context.Context) (string, error) {
		if code, body = s.get(s.nics[liveDisturbed], address); code != http.StatusOK {
			return fmt.Sprintf("answered %d", code), nil
		}
		return "", nil
	})
	if !strings.Contains(body, canaryUser) {
		s.t.Error("that was not the bootstrap data")
	}
	host := s.site.Host(s.t, liveDisturbed)
	if host.Spec.Claim.State != infrav1.ClaimProvisioned || host.Spec.Claim.LiveFetch == nil || host.Spec.Order != nil {
		s.t.Errorf("the data was given before the commit point: %+v", host.Spec)
	}
	manager.Kill() // and what it said was lost
	before := s.site.Server(liveDisturbed).BMC.Actions()
	s.goOn(liveDisturbed)
	s.site.Await(s.t, "the live system on its disk", s.booted(liveDisturbed))
	if code, _ := s.get(elsewhere, address); code == http.StatusOK {
		s.t.Error("the data was given to an unknown client afterwards")
	}
	if after := s.site.Server(liveDisturbed).BMC.Actions(); len(after) != len(before) {
		s.t.Errorf("the BMC was told %v after the commit point", after[len(before):])
	}
}

// crashed: a server that loses its power before its system has asked is tried again, and
// so is one whose system reboots; nobody is blamed for that, and nobody suspected.
func (s *liveScene) crashed(system infrav1.LiveSystem) {
	s.t.Helper()
	s.hold(liveCrashed)
	s.claim(liveCrashed, system)
	addresses := []string{s.address(liveCrashed)}
	s.hold(liveCrashed)
	check(s.t, s.site.Server(liveCrashed).Simulated.Power(s.t.Context(), bmc.Off))
	addresses = append(addresses, s.address(liveCrashed))
	check(s.t, s.site.Server(liveCrashed).Simulated.Power(s.t.Context(), bmc.Reset))
	(&abuse{t: s.t, site: s.site, name: liveCrashed}).event(infrav1.ReasonLiveSystemUnresponsive, "rebooted")
	s.goOn(liveCrashed)
	s.site.Await(s.t, "the live system on its disk, at the third try", s.booted(liveCrashed))
	host := s.site.Host(s.t, liveCrashed)
	if host.Spec.Claim.Attempt != 3 || host.Spec.Record.Failures != 0 {
		s.t.Errorf("installed at attempt %d, with %d failures", host.Spec.Claim.Attempt, host.Spec.Record.Failures)
	}
	for i, address := range addresses {
		if code, _ := s.get(s.nics[liveCrashed], address); code != http.StatusGone {
			s.t.Errorf("the address of try %d is answered %d", i+1, code)
		}
	}
	s.site.History.Settle(s.t)
	for _, v := range s.site.History.Versions(s.t) {
		if h := v.Host; h != nil && h.Name == liveCrashed && (h.Spec.Record != nil && h.Spec.Record.Failures > 0 || h.Spec.Order != nil && h.Spec.Order.Revoked != nil) {
			s.t.Fatalf("held against the host: %+v, order %+v", h.Spec.Record, h.Spec.Order)
		}
	}
}

// booted says whether a live system runs from its disk, on a host that is provisioned.
func (s *liveScene) booted(name string) func(context.Context) (string, error) {
	return s.site.hosts([]string{name}, func(host *infrav1.IngotHost) string {
		claim := host.Spec.Claim
		switch {
		case claim == nil || claim.State != infrav1.ClaimProvisioned || claim.LiveFetch == nil || host.Status.Phase != infrav1.PhaseProvisioned:
			return "it is not provisioned"
		case count(s.site.Server(name).Simulated, server.EventSystem) == 0:
			return "its system does not run from the disk"
		}
		return ""
	})
}
