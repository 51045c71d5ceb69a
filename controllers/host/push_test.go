// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	"github.com/ingot-metal/ingot/lab/bmc/update"
	"github.com/ingot-metal/ingot/test/eventually"
)

// slowImage serves an image that is uploaded in several parts.
func slowImage(t *testing.T) (url, checksum string) {
	t.Helper()
	image := append(update.Image("BIOS", "9.9"), make([]byte, 1<<20)...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(image) }))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(image)
	return server.URL + "/BIOS-9.9.bin?signature=secret", "sha256:" + hex.EncodeToString(sum[:])
}

// worksEnd waits for background work, in real time.
func (m *simHost) worksEnd() {
	m.t.Helper()
	eventually.Wait{Interval: time.Millisecond}.Until(m.t, "the end of a push", eventually.Holds(func() bool {
		_, pushing := m.memory.jobs.Pushing(keyOf(m.get("h")))
		return !pushing
	}))
}

// heldPush lends connections whose pushes stop in the middle of the image until they are
// let go.
type heldPush struct {
	bmc.Conn
	half, goOn chan struct{}
}

func (c *heldPush) UpdateFirmware(ctx context.Context, update bmc.Update) (bmc.Task, error) {
	if update.Image == nil {
		return c.Conn.UpdateFirmware(ctx, update)
	}
	half := make([]byte, update.Size/2)
	if _, err := io.ReadFull(update.Image, half); err != nil {
		return bmc.Task{}, err
	}
	close(c.half)
	select {
	case <-c.goOn:
	case <-ctx.Done():
		return bmc.Task{}, errors.Join(bmc.ErrUnknownOutcome, ctx.Err())
	}
	update.Image = io.MultiReader(strings.NewReader(string(half)), update.Image)
	return c.Conn.UpdateFirmware(ctx, update)
}

// holdsPush makes the process hold its first upload.
func (m *simHost) holdsPush() (half, goOn chan struct{}) {
	m.t.Helper()
	half, goOn = make(chan struct{}), make(chan struct{})
	pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
		conn, err := redfish.Dial(ctx, target)
		return &heldPush{Conn: conn, half: half, goOn: goOn}, err
	}, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1}})
	m.t.Cleanup(func() { _ = pool.Close(context.Background()) })
	m.Reconciler.BMC = pool
	return half, goOn
}

// begins steps until half of the image is uploaded.
func (m *simHost) begins(half chan struct{}) {
	m.t.Helper()
	m.lives("pushing", func(*infrav1.IngotHost) bool {
		select {
		case <-half:
			return true
		case <-time.After(5 * time.Millisecond):
			return false
		}
	})
}

// Firmware is uploaded to a BMC that cannot download: the image is downloaded and verified once.
// During the upload the BMC gets no other calls, progress is shown, and no worker waits.
func testFirmwarePush(t *testing.T, on *testEnv) {
	m := prepared(t, on, "openbmc")
	m.lives("available", isAvailable)
	half, goOn := m.holdsPush()
	url, checksum := slowImage(t)
	m.edit("h", func(h *infrav1.IngotHost) {
		wantFirmware("BIOS", "9.9", url)(h)
		h.Spec.Firmware[0].Checksum = checksum
	})
	m.begins(half)
	m.tick()
	reads := m.lab.Reads()
	for range 10 {
		m.clock.Step(31 * time.Second)
		m.tick() // a worker that waited for the push would hang here, or cancel it: it continues only below
	}
	if n := m.lab.Reads() - reads; n != 0 {
		t.Errorf("the BMC got %d other calls during the upload", n)
	}
	told := m.want("h", infrav1.HostPreparedCondition, metav1.ConditionFalse, infrav1.ReasonUpdatingFirmware).Message
	host := m.get("h")
	if !strings.Contains(told, "is sending") || !strings.Contains(told, "50 %") || !strings.Contains(told, "sends no other request") || strings.Contains(told, "secret") {
		t.Errorf("message %q", told)
	}
	if o := host.Status.Operation; o == nil || o.Kind != infrav1.OperationUpdate || ptr.Deref(o.Percent, -1) != 50 {
		t.Errorf("operation %+v, want an update at 50 %%", o)
	}
	if u := host.Spec.Record.Preparation.Update; u == nil || u.State != infrav1.UpdateRequested || u.Delivery != infrav1.DeliveryPush {
		t.Errorf("the record says %+v while the image is pushed", u)
	}
	m.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
	close(goOn)
	m.worksEnd()
	if u := m.get("h").Spec.Record.Preparation.Update; u == nil || u.State != infrav1.UpdateAccepted || u.TaskID == "" || !u.StartTime.Time.Equal(m.clock.Now()) {
		t.Errorf("the record says %+v after the push", u)
	}
	m.lives("available again", isAvailable)
	if bios, _ := m.lab.Firmware(); bios != "9.9" || m.count("HTTPPush") != 1 || m.count("SimpleUpdate") != 0 {
		t.Errorf("version %s, actions %q", bios, m.lab.Actions())
	}
}

// An upload that a pause or a deletion cancels does not continue, and clusterctl waits for its end.
// It is repeated only once it is certain that the BMC did not accept the image.
func testFirmwarePushPaused(t *testing.T, on *testEnv) {
	m := prepared(t, on, "openbmc")
	m.lives("available", isAvailable)
	half, _ := m.holdsPush()
	url, checksum := slowImage(t)
	m.edit("h", func(h *infrav1.IngotHost) {
		wantFirmware("BIOS", "9.9", url)(h)
		h.Spec.Firmware[0].Checksum = checksum
	})
	m.begins(half)
	m.edit("h", func(h *infrav1.IngotHost) {
		h.Annotations = map[string]string{infrav1.MovePausedAnnotation: m.clock.Now().Format(time.RFC3339), clusterctlv1.BlockMoveAnnotation: ""}
	})
	m.lives("let go", func(h *infrav1.IngotHost) bool {
		_, blocked := h.Annotations[clusterctlv1.BlockMoveAnnotation]
		if _, pushing := m.memory.jobs.Pushing(keyOf(h)); pushing && !blocked {
			t.Error("the move continues during an upload")
		}
		return !blocked
	})
	paused := m.get("h")
	if u := paused.Spec.Record.Preparation.Update; u == nil || u.State != infrav1.UpdateRequested || m.lab.PushedBytes() != 0 {
		t.Errorf("a push that was broken off left %+v, and %d bytes", u, m.lab.PushedBytes())
	}
	m.restart(0) // another cluster's manager
	m.edit("h", func(h *infrav1.IngotHost) { delete(h.Annotations, infrav1.MovePausedAnnotation) })
	cut := m.lives("known to be cut off", func(h *infrav1.IngotHost) bool {
		return h.Spec.Record.Preparation.Update != nil && h.Spec.Record.Preparation.Update.State == infrav1.UpdateInterrupted
	})
	if told := conditions.Get(cut, infrav1.HostPreparedCondition).Message; !strings.Contains(told, "BIOS") || m.count("HTTPPush") != 0 {
		t.Errorf("message %q, actions %q", told, m.lab.Actions())
	}
	since := m.clock.Now()
	m.lives("available again", isAvailable, func(h *infrav1.IngotHost) {
		if m.asked("/UpdateService/update") > 0 && m.clock.Since(since) < m.Policy.UpdateSilence {
			t.Error("pushed again before anybody could know what became of the first")
		}
	})
	if bios, _ := m.lab.Firmware(); bios != "9.9" || m.count("HTTPPush") != 1 {
		t.Errorf("version %s, actions %q", bios, m.lab.Actions())
	}
}

func testFirmwarePushFails(t *testing.T, on *testEnv) {
	good, checksum := slowImage(t)
	other := images(t)
	toaster := sha256.Sum256(update.Image("Toaster", "9.9"))
	for name, tc := range map[string]struct {
		url, checksum string
		says          string
		pushes        int
	}{
		"no image":        {other + "/nothing", checksum, "404", 0},
		"not this file":   {other + "/BIOS-8.8", checksum, "its checksum is", 0},
		"no image of any": {other + "/Toaster-9.9", "sha256:" + hex.EncodeToString(toaster[:]), "refused", 3},
	} {
		t.Run(name, func(t *testing.T) {
			m := prepared(t, on, "openbmc", wantFirmware("BIOS", "9.9", tc.url), func(h *infrav1.IngotHost) { h.Spec.Firmware[0].Checksum = tc.checksum })
			m.lives("given up", func(h *infrav1.IngotHost) bool {
				m.worksEnd()
				return isReason(infrav1.ReasonFirmwareUpdateFailed)(h) && h.Spec.Record.Preparation.Outcome == infrav1.PreparationFailed
			})
			told := m.want("h", infrav1.HostPreparedCondition, metav1.ConditionFalse, infrav1.ReasonFirmwareUpdateFailed).Message
			if !strings.Contains(told, tc.says) || m.asked("/UpdateService/update") != tc.pushes {
				t.Errorf("%d pushes, want %d; message %q, want %q", m.asked("/UpdateService/update"), tc.pushes, told, tc.says)
			}
			m.edit("h", func(h *infrav1.IngotHost) { h.Spec.Firmware[0].URL, h.Spec.Firmware[0].Checksum = good, checksum })
			m.lives("available", isAvailable, func(*infrav1.IngotHost) { m.worksEnd() })
		})
	}
}

// A manager that crashes before or after any write uploads the image once and reaches the right
// version.
func testFirmwarePushKilled(t *testing.T, on *testEnv) {
	url, checksum := slowImage(t)
	deaths, every := 0, deathsApart()
	for at := 1; ; at += every {
		m := prepared(t, on, "openbmc")
		m.lives("available", isAvailable)
		m.edit("h", func(h *infrav1.IngotHost) {
			wantFirmware("BIOS", "9.9", url)(h)
			h.Spec.Firmware[0].Checksum = checksum
		})
		died := m.livesUntilDeath(at)
		m.worksEnd() // requests in flight may have reached the BMC
		m.restart(0)
		m.lives("available", isAvailable, func(*infrav1.IngotHost) { m.worksEnd() })
		if bios, _ := m.lab.Firmware(); bios != "9.9" || m.count("HTTPPush") != 1 || m.count("SimpleUpdate") != 0 {
			t.Fatalf("after a death at write %d: version %s, actions %q", at, bios, m.lab.Actions())
		}
		m.clear()
		_ = m.lab.Close()
		if !died {
			break
		}
		deaths++
	}
	if deaths*every < 30 {
		t.Errorf("only %d deaths: a push has more writes than that", deaths)
	}
	t.Logf("%d deaths", deaths)
}

func testFirmwareOfTheBMCNeedsItsReset(t *testing.T, on *testEnv) {
	m := prepared(t, on, "standard", wantFirmware("BMC", "7.7", images(t)+"/BMC-7.7"))
	m.lives("restarted", func(*infrav1.IngotHost) bool { return restarts(m) > 0 })
	deadline := time.Now().Add(time.Minute) // the emulated BMC is gone for a real second
	for time.Now().Before(deadline) && !isAvailable(m.get("h")) {
		m.tick()
		m.agent()
		m.clock.Step(31 * time.Second)
		time.Sleep(10 * time.Millisecond)
	}
	if _, version := m.lab.Firmware(); version != "7.7" || !isAvailable(m.get("h")) || restarts(m) != 1 {
		t.Errorf("version %s, available %t, actions %q", version, isAvailable(m.get("h")), m.lab.Actions())
	}
}

// restarts counts the resets of the BMC.
func restarts(m *simHost) (n int) {
	for _, w := range m.lab.Writes() {
		if strings.HasSuffix(w.Path, "Manager.Reset") {
			n++
		}
	}
	return n
}
