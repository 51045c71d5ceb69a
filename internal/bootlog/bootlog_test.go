// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe/bootlog"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/testscheme"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// bootAt is a boot of some seconds, n minutes after the begin.
func bootAt(n int, outcome bootlog.Outcome) bootlog.Boot {
	at := begin.Add(time.Duration(n) * time.Minute)
	return bootlog.Boot{Host: "n/h", MAC: "52:54:00:00:00:01", Firmware: "BIOS", Server: "192.0.2.1", Outcome: outcome,
		Marks: []bootlog.Mark{{Stage: bootlog.DHCP, At: at}, {Stage: bootlog.Loader, At: at.Add(1500 * time.Millisecond)}}}
}

// stages are those of a record, with their milliseconds.
func stages(r infrav1.BootRecord) (out []string) {
	for _, s := range r.Stages {
		out = append(out, fmt.Sprint(s.Name, " ", *s.AfterMilliseconds))
	}
	return out
}

// What boots and ends make of each other, in whatever order they come.
func TestMerge(t *testing.T) {
	minute := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Minute) }
	boot := func(n int, outcome bootlog.Outcome) func([]infrav1.BootRecord) []infrav1.BootRecord {
		return func(b []infrav1.BootRecord) []infrav1.BootRecord { return add(b, recordOf(bootAt(n, outcome))) }
	}
	over := func(n int, outcome infrav1.BootOutcome) func([]infrav1.BootRecord) []infrav1.BootRecord {
		return func(b []infrav1.BootRecord) []infrav1.BootRecord { return end(b, minute(n), outcome) }
	}
	bare := func(n int) func([]infrav1.BootRecord) []infrav1.BootRecord {
		b := bootAt(n, bootlog.AgentStarted)
		b.Marks[1].Stage = bootlog.Agent
		return func(boots []infrav1.BootRecord) []infrav1.BootRecord { return add(boots, recordOf(b)) }
	}
	for name, tc := range map[string]struct {
		steps []func([]infrav1.BootRecord) []infrav1.BootRecord
		want  []string
	}{
		"those of which only DHCP was seen push out one": {[]func([]infrav1.BootRecord) []infrav1.BootRecord{bare(0), bare(1), boot(2, bootlog.Incomplete), boot(3, bootlog.Incomplete),
			boot(4, bootlog.Incomplete), boot(5, bootlog.Incomplete), bare(6), bare(7), bare(8)},
			[]string{"Agent 8 [DHCP 0 Agent 1500]", "Incomplete 5 [DHCP 0 Loader 1500]", "Incomplete 4 [DHCP 0 Loader 1500]", "Incomplete 3 [DHCP 0 Loader 1500]", "Incomplete 2 [DHCP 0 Loader 1500]"}},
		"boot, then its end": {[]func([]infrav1.BootRecord) []infrav1.BootRecord{boot(0, bootlog.AgentStarted), over(1, infrav1.BootSucceeded)},
			[]string{"Succeeded 0 [DHCP 0 Loader 1500 Done 60000]"}},
		"its end, then the boot": {[]func([]infrav1.BootRecord) []infrav1.BootRecord{over(1, infrav1.BootFailed), boot(0, bootlog.AgentStarted)},
			[]string{"Failed 0 [DHCP 0 Loader 1500 Done 60000]"}},
		"told twice": {[]func([]infrav1.BootRecord) []infrav1.BootRecord{boot(0, bootlog.AgentStarted), over(1, infrav1.BootSucceeded), boot(0, bootlog.AgentStarted)},
			[]string{"Succeeded 0 [DHCP 0 Loader 1500 Done 60000]"}},
		"an agent that nobody saw coming": {[]func([]infrav1.BootRecord) []infrav1.BootRecord{boot(0, bootlog.Incomplete), over(9, infrav1.BootSucceeded)},
			[]string{"Succeeded 0 [DHCP 0 Loader 1500 Done 540000]"}},
		"an end long after": {[]func([]infrav1.BootRecord) []infrav1.BootRecord{boot(0, bootlog.AgentStarted), over(60*24, infrav1.BootSucceeded)},
			[]string{"Succeeded 1440 [Done 0]", "Agent 0 [DHCP 0 Loader 1500]"}},
		"to its disk, and an end that is another's": {[]func([]infrav1.BootRecord) []infrav1.BootRecord{boot(0, bootlog.BootedFromDisk), over(1, infrav1.BootSucceeded)},
			[]string{"Succeeded 1 [Done 0]", "Disk 0 [DHCP 0 Loader 1500]"}},
		"the last five, by time": {[]func([]infrav1.BootRecord) []infrav1.BootRecord{boot(3, bootlog.BootedFromDisk), boot(1, bootlog.BootedFromDisk), boot(6, bootlog.BootedFromDisk),
			boot(2, bootlog.BootedFromDisk), boot(5, bootlog.BootedFromDisk), boot(4, bootlog.BootedFromDisk)},
			[]string{"Disk 6 [DHCP 0 Loader 1500]", "Disk 5 [DHCP 0 Loader 1500]", "Disk 4 [DHCP 0 Loader 1500]", "Disk 3 [DHCP 0 Loader 1500]", "Disk 2 [DHCP 0 Loader 1500]"}},
	} {
		t.Run(name, func(t *testing.T) {
			var boots []infrav1.BootRecord
			for _, step := range tc.steps {
				boots = step(boots)
			}
			var got []string
			for _, b := range boots {
				got = append(got, fmt.Sprint(b.Outcome, " ", int(b.StartTime.Sub(begin).Minutes()), " ", stages(b)))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("boots (-want +got):\n%s", diff)
			}
		})
	}
}

// A boot goes from a boot server to the status of its host, and costs two writes.
func TestRecorder(t *testing.T) {
	scheme := testscheme.Scheme(t)
	c, err := client.New(envtest.Start(t, envtest.IngotCRDs(t)), client.Options{Scheme: scheme})
	must(t, err)
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = "52:54:00:00:00:01", "net"
	host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInspect, ID: "00000000-0000-4000-8000-000000000001", Attempt: 1, CreationTime: metav1.NewTime(begin)}
	must(t, c.Create(t.Context(), host))
	told := events.NewFakeRecorder(100)
	r := &Recorder{Client: c, Live: c, Recorder: told}
	read := func() *infrav1.IngotHost {
		t.Helper()
		got := &infrav1.IngotHost{}
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(host), got))
		return got
	}
	gone, strange, empty := bootAt(0, bootlog.AgentStarted), bootAt(0, "Exploded"), bootAt(0, bootlog.AgentStarted)
	gone.Host, empty.Marks = "n/gone", nil
	long := bootAt(0, bootlog.AgentStarted)
	long.Firmware, long.LastFailure = strings.Repeat("é", 300), strings.Repeat("x", 300)
	must(t, r.Record(t.Context(), []bootlog.Boot{gone, strange, empty, long}))
	first := read()
	must(t, r.Record(t.Context(), []bootlog.Boot{long})) // again, since the answer was lost
	if again := read(); again.ResourceVersion != first.ResourceVersion {
		t.Error("the same boot was written twice")
	}
	must(t, r.End(t.Context(), client.ObjectKeyFromObject(host), begin.Add(time.Minute), true))
	want := infrav1.BootRecord{StartTime: metav1.NewMicroTime(begin), Outcome: infrav1.BootSucceeded, Firmware: strings.Repeat("é", 64), Server: "192.0.2.1",
		Error: strings.Repeat("x", 256), Stages: []infrav1.BootStage{{Name: "DHCP", AfterMilliseconds: ptr.To[int64](0)},
			{Name: "Loader", AfterMilliseconds: ptr.To[int64](1500)}, {Name: "Done", AfterMilliseconds: ptr.To[int64](60000)}}}
	if diff := cmp.Diff([]infrav1.BootRecord{want}, read().Status.Boots, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	if len(told.Events) != 0 {
		t.Errorf("a boot that went well is told: %s", <-told.Events)
	}
	must(t, r.Record(t.Context(), []bootlog.Boot{bootAt(5, bootlog.Incomplete)}))
	select {
	case event := <-told.Events:
		if !strings.Contains(event, infrav1.ReasonNetworkBootIncomplete) || !strings.Contains(event, "after Loader") {
			t.Errorf("told: %s", event)
		}
	default:
		t.Error("a boot that stopped is not told")
	}
	// Nobody writes to a host that is paused.
	for name, pause := range map[string]func(*infrav1.IngotHost){
		"by its annotation": func(h *infrav1.IngotHost) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} },
		"for a move": func(h *infrav1.IngotHost) {
			h.Annotations = map[string]string{infrav1.MovePausedAnnotation: begin.Format(time.RFC3339)}
		},
		"with its Cluster": func(h *infrav1.IngotHost) {
			conditions.Set(h, metav1.Condition{Type: infrav1.PausedCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonPaused})
		},
	} {
		paused := read()
		pause(paused)
		status := paused.DeepCopy()
		must(t, c.Update(t.Context(), paused))
		status.ResourceVersion = paused.ResourceVersion
		must(t, c.Status().Update(t.Context(), status))
		before := read()
		must(t, r.Record(t.Context(), []bootlog.Boot{bootAt(7, bootlog.BootedFromDisk)}))
		must(t, r.End(t.Context(), client.ObjectKeyFromObject(host), begin.Add(8*time.Minute), true))
		after := read()
		if after.ResourceVersion != before.ResourceVersion {
			t.Errorf("a host that is paused %s was written to", name)
		}
		after.Annotations, after.Status.Conditions = nil, nil
		status = after.DeepCopy()
		must(t, c.Update(t.Context(), after))
		status.ResourceVersion = after.ResourceVersion
		must(t, c.Status().Update(t.Context(), status))
	}
	// Two replicas and an order's end at once: none is lost.
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() {
			if err := r.Record(t.Context(), []bootlog.Boot{bootAt(10+n, bootlog.BootedFromDisk)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(read().Status.Boots); n != 5 {
		t.Errorf("%d boots, want 5", n)
	}
}

// meddled has something happen after the first read.
type meddled struct {
	client.Reader
	then func()
}

func (m *meddled) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := m.Reader.Get(ctx, key, object, options...)
	if then := m.then; then != nil {
		m.then = nil
		then()
	}
	return err
}

// A boot is written as it was seen, also where somebody else writes to the host meanwhile: the
// first one of a host, and one beside another.
func TestRecorderMeetsOthers(t *testing.T) {
	c, err := client.New(envtest.Start(t, envtest.IngotCRDs(t)), client.Options{Scheme: testscheme.Scheme(t)})
	must(t, err)
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = "52:54:00:00:00:01", "net"
	must(t, c.Create(t.Context(), host))
	key := client.ObjectKeyFromObject(host)
	record := func(boot bootlog.Boot) {
		t.Helper()
		live := &meddled{Reader: c, then: func() {
			other := &infrav1.IngotHost{}
			must(t, c.Get(t.Context(), key, other))
			base := other.DeepCopy()
			other.Labels = map[string]string{"written": strconv.Itoa(len(base.Status.Boots))}
			must(t, c.Patch(t.Context(), other, client.MergeFrom(base)))
		}}
		must(t, (&Recorder{Client: c, Live: live, Recorder: events.NewFakeRecorder(100)}).Record(t.Context(), []bootlog.Boot{boot}))
	}
	first, second := bootAt(0, bootlog.Incomplete), bootAt(5, bootlog.AgentStarted)
	first.LastFailure, first.Marks = "no file", first.Marks[:1]
	var want []infrav1.BootRecord
	for _, boot := range []bootlog.Boot{first, second} {
		want = add(want, recordOf(boot))
		record(boot)
		got := &infrav1.IngotHost{}
		must(t, c.Get(t.Context(), key, got))
		if diff := cmp.Diff(want, got.Status.Boots, cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("boots (-want +got):\n%s", diff)
		}
	}
}

// What boot servers say is believed only if one of them has sealed it, now, to the
// manager whose key is pinned.
func TestWire(t *testing.T) {
	files, err := token.NewFiles()
	must(t, err)
	keys, err := files.Keys()
	must(t, err)
	pins, err := files.Pins()
	must(t, err)
	certificate, err := files.Certificate()
	must(t, err)
	foreign, err := token.NewKeys(bytes.Repeat([]byte{9}, token.MinKeyBytes))
	must(t, err)
	clock := testclock.NewFakePassiveClock(begin)
	var got []bootlog.Boot
	var fails error
	handler := &Handler{Clock: clock, Sealed: keys.Sealed, Log: logr.Discard(), Record: func(_ context.Context, boots []bootlog.Boot) error {
		got = append(got, boots...)
		return fails
	}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle(Path, handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}}}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	dial := func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	}
	boots := []bootlog.Boot{bootAt(0, bootlog.AgentStarted), bootAt(1, bootlog.Incomplete)}
	for name, tc := range map[string]struct {
		seal func([]byte) []byte
		pins []token.Pin
		at   time.Time
		fail error
		want bool
	}{
		"sealed":            {keys.Seal, pins, begin, nil, true},
		"clocks differ":     {keys.Seal, pins, begin.Add(9 * time.Minute), nil, true},
		"long ago":          {keys.Seal, pins, begin.Add(-11 * time.Minute), nil, false},
		"in the future":     {keys.Seal, pins, begin.Add(11 * time.Minute), nil, false},
		"another's key":     {foreign.Seal, pins, begin, nil, false},
		"another's manager": {keys.Seal, []token.Pin{token.PinOf([]byte("another"))}, begin, nil, false},
		"not kept":          {keys.Seal, pins, begin, errors.New("API server away"), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, fails = nil, tc.fail
			sender := NewSender(SenderConfig{Dial: dial, Pins: tc.pins, Seal: tc.seal, Now: func() time.Time { return tc.at }})
			defer sender.Close()
			if err := sender.Send(t.Context(), boots); (err == nil) != tc.want {
				t.Errorf("sent: %v", err)
			}
			heard := tc.want || tc.fail != nil
			if diff := cmp.Diff(map[bool][]bootlog.Boot{true: boots}[heard], got); diff != "" {
				t.Errorf("heard (-want +got):\n%s", diff)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
