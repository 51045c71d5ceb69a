// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/test/eventually"
)

// shop is an API server with one host, its BMC and its events.
type shop struct {
	*Preparer
	t *testing.T

	mu     sync.Mutex
	host   *infrav1.IngotHost
	woken  chan types.NamespacedName
	update func(ctx context.Context, update bmc.Update) (bmc.Task, error)
	// stop ends the manager, and returns when its works have ended.
	stop  func()
	saves int
	// refuse is the number of saves that fail with a conflict.
	refuse int
}

var errConflict = errors.New("somebody has written meanwhile")

func newShop(t *testing.T, update func(ctx context.Context, update bmc.Update) (bmc.Task, error)) *shop {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	s := &shop{t: t, update: update, woken: make(chan types.NamespacedName, 100), host: &infrav1.IngotHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h", UID: "1"},
		Spec:       infrav1.IngotHostSpec{BMC: &infrav1.BMC{Address: "redfish://bmc"}},
	}}
	s.Preparer = &Preparer{
		Live: s, BMC: s, Clock: clock.RealClock{}, Policy: lifecycle.DefaultPolicy(), Poll: time.Minute, Jobs: &Jobs{}, HTTP: reader(t, "127.0.0.0/8"),
		Timing: timing.Timing{BMCBackoffFirst: time.Second, BMCBackoffMax: time.Minute, FirmwareDownload: time.Minute, FirmwareResult: time.Minute, FirmwarePush: time.Minute},
		Save:   s.save, Wake: func(host types.NamespacedName) { s.woken <- host },
		Warn: func(*infrav1.IngotHost, string, string) {}, Stable: strings.TrimSpace,
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Jobs.Start(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(func() {
		s.stop()
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("files are left behind: %v, %v", left, err)
		}
	})
	return s
}

func (s *shop) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "ingothosts"}, "h")
	}
	into, ok := object.(*infrav1.IngotHost)
	if !ok {
		return fmt.Errorf("no %T here", object)
	}
	s.host.DeepCopyInto(into)
	return nil
}

func (s *shop) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("nobody lists")
}

func (s *shop) save(_ context.Context, next, _ *infrav1.IngotHost) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saves++; s.refuse > 0 {
		s.refuse--
		return errConflict
	}
	s.host = next.DeepCopy()
	return nil
}

func (s *shop) live() *infrav1.IngotHost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host.DeepCopy()
}

// Do implements BMC.
func (s *shop) Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	return s.DoWithin(ctx, target, time.Minute, calls)
}

// DoWithin implements BMC.
func (s *shop) DoWithin(ctx context.Context, _ bmc.Target, limit time.Duration, calls func(context.Context, bmc.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return calls(ctx, shopConn{shop: s})
}

type shopConn struct {
	bmc.Conn
	shop *shop
}

func (c shopConn) UpdateFirmware(ctx context.Context, update bmc.Update) (bmc.Task, error) {
	return c.shop.update(ctx, update)
}

// view of the host as it is.
func (s *shop) view(memory *Memory) View {
	return View{Host: s.live(), Target: bmc.Target{Address: "redfish://bmc/Systems/1"}, Seen: &lifecycle.Observation{Now: s.Clock.Now()}, Memory: memory}
}

// step begins to push the image at a URL.
func (s *shop) step(url, checksum string) lifecycle.StartUpdate {
	return lifecycle.StartUpdate{
		Component: infrav1.FirmwareComponent{Component: "BIOS", Version: "2", URL: url, Checksum: checksum},
		Ledger: lifecycle.Ledger{Record: &infrav1.HostRecord{Preparation: &infrav1.HostPreparation{Update: &infrav1.FirmwareUpdate{
			Component: "BIOS", Version: "2", State: infrav1.UpdateRequested, Delivery: infrav1.DeliveryPush, StartTime: metav1.NewTime(s.Clock.Now().Add(-time.Hour)),
		}}}},
	}
}

// reader allows the listed sources only.
func reader(t *testing.T, sources ...string) *http.Client {
	t.Helper()
	allowed, err := httpd.ParseSources(sources)
	if err != nil {
		t.Fatal(err)
	}
	return httpd.NewClient(httpd.ClientConfig{Allowed: allowed})
}

// serve is a server of one image.
func serve(t *testing.T, image []byte) (url, checksum string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(image) }))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(image)
	return server.URL + "/dir/bios-2.bin?signature=secret", "sha256:" + hex.EncodeToString(sum[:])
}

// The BMC's answer to a push is recorded before the push is unregistered. An unknown outcome stays as
// asked.
func TestPush(t *testing.T) {
	reads := func(err error, task string) func(context.Context, bmc.Update) (bmc.Task, error) {
		return func(_ context.Context, update bmc.Update) (bmc.Task, error) {
			image, readErr := io.ReadAll(update.Image)
			if readErr != nil || string(image) != "an image" || update.Size != 8 || update.Filename != "bios-2.bin" || update.Component != "/inventory/7" || update.URL != "" || update.Targets != nil {
				return bmc.Task{}, fmt.Errorf("pushed %q, %w of %+v", image, readErr, update)
			}
			return bmc.Task{ID: task}, err
		}
	}
	unread := func(err error) func(context.Context, bmc.Update) (bmc.Task, error) {
		return func(context.Context, bmc.Update) (bmc.Task, error) { return bmc.Task{}, err }
	}
	for _, tc := range []struct {
		name   string
		update func(context.Context, bmc.Update) (bmc.Task, error)
		refuse int
		state  infrav1.UpdateState // empty: there is no update
		task   string
		putOff string // a part of why
	}{
		{"taken", reads(nil, "/tasks/1"), 0, infrav1.UpdateAccepted, "/tasks/1", ""},
		{"taken without a task", reads(nil, ""), 0, infrav1.UpdateAccepted, "", ""},
		{"taken while others write", reads(nil, "/tasks/1"), 2, infrav1.UpdateAccepted, "/tasks/1", ""},
		{"refused", reads(bmc.ErrProtocol, ""), 0, infrav1.UpdateRejected, "", ""},
		{"no answer", reads(bmc.ErrUnknownOutcome, ""), 0, infrav1.UpdateRequested, "", ""},
		{"no answer, and nothing was read", unread(bmc.ErrUnknownOutcome), 0, "", "", bmc.ErrUnknownOutcome.Error()},
		{"busy", unread(bmc.ErrBusy), 0, "", "", bmc.ErrBusy.Error()},
		{"rests", unread(&bmc.PausedError{RetryAfter: time.Second, Err: bmc.ErrTimeout}), 0, "", "", bmc.ErrTimeout.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newShop(t, tc.update)
			url, checksum := serve(t, []byte("an image"))
			memory := &Memory{}
			step := s.step(url, checksum)
			began := step.Ledger.Record.Preparation.Update.StartTime
			s.pushes(memory, step, func() { s.refuse = tc.refuse })
			update := lifecycle.UpdateOf(s.live())
			if (update == nil) != (tc.state == "") || update != nil && (update.State != tc.state || update.TaskID != tc.task) {
				t.Errorf("the record says %+v, want %q %q", update, tc.state, tc.task)
			}
			if update != nil && update.State == infrav1.UpdateAccepted == update.StartTime.Equal(&began) {
				t.Errorf("started at %s: the time of an image that was taken begins with the end of its push, that of another does not", update.StartTime)
			}
			v := s.view(memory)
			if err := s.ObservePush(v); err != nil || v.Seen.Update.State != lifecycle.UpdateUnknown {
				t.Errorf("after the push: %v, %+v", err, v.Seen.Update)
			}
			if got := memory.update.reason; (got == "") != (tc.putOff == "") || !strings.Contains(got, tc.putOff) {
				t.Errorf("put off for %q, want %q", got, tc.putOff)
			}
		})
	}
}

// pushes executes the step until its push has ended. before is called when the image was read.
func (s *shop) pushes(memory *Memory, step lifecycle.StartUpdate, before func()) {
	s.t.Helper()
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	must(s.Execute(s.t.Context(), s.view(memory), step))
	if s.saves != 0 || !strings.Contains(memory.update.reason, "to push it to the BMC") || strings.Contains(memory.update.reason, "secret") {
		s.t.Errorf("%d saves, put off for %q while the image is fetched", s.saves, memory.update.reason)
	}
	<-s.woken
	*memory = Memory{address: "redfish://bmc/Systems/1", reading: &lifecycle.FirmwareReading{IDs: map[string]string{"BIOS": "/inventory/7"}}}
	must(s.Execute(s.t.Context(), s.view(memory), step))
	s.mu.Lock()
	before()
	s.mu.Unlock()
	<-s.woken
	if _, pushing := s.Jobs.Pushing(s.view(memory).key()); pushing {
		s.t.Error("woken before the push is over")
	}
}

// A running push is visible for all systems of its BMC, and an outdated view of the host is rejected. A
// push ends with the manager, and then records nothing.
func TestPushUnderWay(t *testing.T) {
	for _, end := range []string{"cancelled", "manager"} {
		t.Run(end, func(t *testing.T) {
			half := make(chan struct{})
			s := newShop(t, func(ctx context.Context, update bmc.Update) (bmc.Task, error) {
				if _, err := io.CopyN(io.Discard, update.Image, 4); err != nil {
					return bmc.Task{}, err
				}
				close(half)
				<-ctx.Done()
				return bmc.Task{}, ctx.Err()
			})
			url, checksum := serve(t, []byte("an image"))
			memory := &Memory{}
			before := s.view(memory)
			step := s.step(url, checksum)
			if err := s.Execute(t.Context(), before, step); err != nil {
				t.Fatal(err)
			}
			<-s.woken
			if err := s.Execute(t.Context(), before, step); err != nil {
				t.Fatal(err)
			}
			<-half
			for address, want := range map[string]bool{"redfish://BMC": true, "redfish://bmc/Systems/2": true, "redfish://other": false, "ipmi://bmc": false} {
				if host, pushing := s.Jobs.PushingTo(bmc.Target{Address: address}); pushing != want || pushing && host.Name != "h" {
					t.Errorf("%s is pushed to: %t, for %s", address, pushing, host)
				}
			}
			v := s.view(memory)
			if err := s.ObservePush(v); err != nil || v.Seen.Update.State != lifecycle.UpdatePushing || v.Seen.Update.Percent != 50 {
				t.Errorf("seen as %+v, %v", v.Seen.Update, err)
			}
			if err := s.ObservePush(before); !errors.Is(err, ErrStale) {
				t.Errorf("the host as it was before: %v", err)
			}
			if end == "manager" {
				s.stop()
			} else if !s.Jobs.Cancel(v.key()) {
				t.Error("there is nothing to cancel")
			}
			<-s.woken
			if s.Jobs.Cancel(v.key()) {
				t.Error("a push that has ended can be cancelled")
			}
			if update := lifecycle.UpdateOf(s.live()); update == nil || update.State != infrav1.UpdateRequested {
				t.Errorf("the record says %+v of a push that was broken off", update)
			}
		})
	}
}

func tempFile(t *testing.T) *os.File {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// The disk space of images and of their copies is bounded.
func TestRoom(t *testing.T) {
	const mebi = 1 << 20
	w := &Jobs{images: map[imageKey]*image{}}
	keep := func(name string, size int64) *image {
		t.Helper()
		file := tempFile(t)
		i := &image{at: time.Now(), waiting: map[types.NamespacedName]bool{}}
		if err := w.reserve(i, size); err != nil {
			_ = file.Close()
			return nil
		}
		i.file, i.size = file, size
		w.images[imageKey{name, "", true}] = i
		w.scheduleDrop(imageKey{name, "", true}, i, time.Hour)
		return i
	}
	a := imageKey{"a", "", true}
	if keep("a", 400*mebi) == nil || keep("b", 400*mebi) == nil {
		t.Fatal("there is no room for two images")
	}
	first, why := w.acquireImage(a, "1")
	if first == nil {
		t.Fatal(why)
	}
	if again, why := w.acquireImage(a, "2"); again == nil {
		t.Errorf("no second push of an image: %s", why)
	}
	if more, why := w.acquireImage(a, "3"); more != nil || !strings.Contains(why, "use the disk space") {
		t.Errorf("a third push beside another image: %q", why)
	}
	if keep("too large beside a", 600*mebi) != nil {
		t.Error("room is given that there is not")
	}
	if w.images[imageKey{"b", "", true}] != nil {
		t.Error("an image without a push takes the room of one that is wanted")
	}
	w.releaseImage(a, first, "1", time.Hour)
	w.releaseImage(a, first, "2", time.Nanosecond)
	eventually.Wait{Interval: time.Millisecond}.Until(t, "the room to be given back", func(context.Context) (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.diskUsed == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d bytes stay taken", w.diskUsed), nil
	})
	if keep("the largest", maxKept) == nil || w.diskUsed > MaxDisk {
		t.Errorf("the largest image finds no room, or %d bytes are taken", w.diskUsed)
	}
}

func TestFetch(t *testing.T) {
	content := []byte("an image")
	good, checksum := serve(t, content)
	claims := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/huge":
			w.Header().Set("Content-Length", fmt.Sprint(int64(maxKept+1)))
		case "/cut":
			w.Header().Set("Content-Length", "100")
		case "/unknown":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush() // the length is not known
		case "/empty":
			return
		case "/away":
			http.Redirect(w, r, "http://169.254.169.254/latest?signature=secret", http.StatusFound)
			return
		case "/gone":
			http.NotFound(w, r)
			return
		case "/down":
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		_, _ = w.Write(content)
	}))
	defer claims.Close()
	for _, tc := range []struct {
		name string
		key  imageKey
		wait bool   // errNoImage
		says string // empty: no error
	}{
		{"as meant", imageKey{good, checksum, true}, false, ""},
		{"without a checksum", imageKey{good, "", true}, false, ""},
		{"read only", imageKey{good, checksum, false}, false, ""},
		{"of a length not told", imageKey{claims.URL + "/unknown", "", true}, false, ""},
		{"another", imageKey{good, "sha256:" + strings.Repeat("0", 64), true}, false, "its checksum is sha256:"},
		{"too large", imageKey{claims.URL + "/huge", "", true}, false, "larger than 1024 MiB"},
		{"empty", imageKey{claims.URL + "/empty", "", true}, false, "empty"},
		{"not there", imageKey{claims.URL + "/gone", "", true}, false, "404"},
		{"cut short", imageKey{claims.URL + "/cut", "", true}, true, "unexpected EOF"},
		{"a server that fails", imageKey{claims.URL + "/down", "", true}, true, "502"},
		{"no server", imageKey{"http://127.0.0.1:1/x?signature=secret", "", true}, true, "127.0.0.1:1"},
		{"no URL", imageKey{"http://%zz", "", true}, false, "invalid URL"},
		{"not allowed", imageKey{"http://169.254.169.254/latest?signature=secret", "", true}, false, "--image-sources of the manager"},
		{"a redirect that is not allowed", imageKey{claims.URL + "/away", "", true}, false, "--image-sources of the manager"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newShop(t, nil)
			v := s.view(&Memory{})
			if done, err := s.checkImage(v, tc.key); done || err != nil {
				t.Fatalf("done at once: %v", err)
			}
			if host := <-s.woken; host != v.key() {
				t.Errorf("woke %s", host)
			}
			done, err := s.checkImage(v, tc.key)
			if !done || (err == nil) != (tc.says == "") || errors.Is(err, errNoImage) != tc.wait {
				t.Fatalf("done %t: %v", done, err)
			}
			if err != nil && (!strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%v, want %q", err, tc.says)
			}
			s.Jobs.mu.Lock()
			defer s.Jobs.mu.Unlock()
			want := int64(0)
			if tc.key.keep && err == nil {
				want = 2 * int64(len("an image"))
			}
			if s.Jobs.diskUsed != want {
				t.Errorf("%d bytes are accepted, want %d", s.Jobs.diskUsed, want)
			}
		})
	}
}

func TestFileName(t *testing.T) {
	for url, want := range map[string]string{
		"http://a/b/BIOS_1.9.EXE?x=y/z": "BIOS_1.9.EXE", "http://a": "", "http://a/": "", "http://a/b/": "b", "http://a/with%20space": "with space", "%": "",
	} {
		if got := fileName(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
