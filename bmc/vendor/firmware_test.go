// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/vendor"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/fault"
	"github.com/ingot-metal/ingot/lab/bmc/update"
	"github.com/ingot-metal/ingot/test/eventually"
)

// image returns an update of a component with a small image.
func image(component string) bmc.Update {
	return bmc.Update{Image: firmware(component, 4<<10), Size: 4 << 10, Filename: component + "_image.bin"}
}

// isUpload reports whether a request pushes an image.
func isUpload(method, path string) bool {
	return method == "POST" && (strings.Contains(path, "upload") || strings.Contains(path, "Upload") || strings.Contains(path, "update-multipart"))
}

// TestSweepSessions checks that sessions of an earlier process are ended.
func TestSweepSessions(t *testing.T) {
	r := newPersonality(t, "vendor+openbmc", bmctest.OpenBMC, nil)
	r.target.SessionLabel = bmc.SessionLabel{Owner: "ours", Process: "killed"}
	if _, err := r.driver.Dial(t.Context(), r.target); err != nil { // it is never closed
		t.Fatal(err)
	}
	r.target.SessionLabel.Process = "now"
	pool := bmc.NewPool(r.driver.Dial, bmc.PoolOptions{SessionLabel: r.target.SessionLabel})
	if err := pool.Do(t.Context(), r.target, func(ctx context.Context, c bmc.Conn) error { _, err := c.PowerState(ctx); return err }); err != nil {
		t.Error(err)
	}
	if n := r.BMC.Sessions(); n != 1 {
		t.Errorf("%d sessions, want the new one alone", n)
	}
	if err := pool.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOneSession checks that the Redfish session ends before that of bmclib begins, and is
// replaced afterwards.
func TestOneSession(t *testing.T) {
	for _, tc := range redfishDrivers {
		t.Run(tc.driver+" "+string(tc.p), func(t *testing.T) {
			r := newPersonality(t, tc.driver, tc.p, nil)
			conn := r.dial(t)
			if _, err := conn.UpdateFirmware(t.Context(), image(update.BIOS)); err != nil {
				t.Fatal(err)
			}
			if n := r.PeakSessions(); n != 1 {
				t.Errorf("%d Redfish sessions at once", n)
			}
			if n := r.BMC.Sessions(); n != 1 {
				t.Errorf("%d sessions open, want the Redfish one", n)
			}
			if _, err := conn.PowerState(t.Context()); err != nil {
				t.Errorf("after the update: %v", err)
			}
		})
	}
}

// TestUpdateFaults checks the errors of a failed push, and that no session is left.
func TestUpdateFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults fault.Faults
		want   error
	}{
		{"hangs", fault.Faults{Hang: true}, bmc.ErrUnknownOutcome},
		{"answer lost", fault.Faults{LoseReply: true}, bmc.ErrUnknownOutcome},
		{"answers 500", fault.Faults{Status: 500}, bmc.ErrUnknownOutcome},
		{"busy", fault.Faults{Status: 503}, bmc.ErrBusy},
		{"refused", fault.Faults{Status: 400}, bmc.ErrNotSupported},
	} {
		for _, d := range redfishDrivers {
			t.Run(tc.name+" "+d.driver+" "+string(d.p), func(t *testing.T) {
				r := newPersonality(t, d.driver, d.p, nil)
				pool := bmc.NewPool(r.driver.Dial, bmc.PoolOptions{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				faults := tc.faults
				faults.Match = func(method, path string) bool {
					if !isUpload(method, path) {
						return false
					}
					if faults.Hang {
						cancel() // bounds the wait
					}
					return true
				}
				r.SetFaults(faults)
				err := pool.Do(ctx, r.target, func(ctx context.Context, conn bmc.Conn) error {
					_, err := conn.UpdateFirmware(ctx, image(update.BIOS))
					return err
				})
				if !errors.Is(err, tc.want) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
				r.SetFaults()
				if err := pool.Do(t.Context(), r.target, func(ctx context.Context, conn bmc.Conn) error {
					_, err := conn.PowerState(ctx)
					return err
				}); err != nil {
					t.Errorf("after it: %v", err)
				}
				if err := pool.Close(t.Context()); err != nil {
					t.Error(err)
				}
				// An abandoned call ends later.
				eventually.Wait{Limit: longWait, Interval: time.Millisecond}.Until(t, "the end of all sessions", eventually.Holds(func() bool { return r.BMC.Sessions() == 0 }))
			})
		}
	}
}

// TestUnsupportedMachine checks the error for a machine that the driver does not support, and that
// nothing is left.
func TestUnsupportedMachine(t *testing.T) {
	for _, name := range []string{bmctest.DriverDell, bmctest.DriverSupermicro, bmctest.DriverOpenBMC} {
		t.Run(name, func(t *testing.T) {
			r := newPersonality(t, name, bmctest.AMI, nil)
			if _, err := r.dial(t).UpdateFirmware(t.Context(), image(update.BIOS)); !errors.Is(err, bmc.ErrNotSupported) {
				t.Errorf("error %v, want ErrNotSupported", err)
			}
			if got := r.Actions(); len(got) != 0 {
				t.Errorf("actions %v", got)
			}
		})
	}
	t.Run("board unknown to bmclib", func(t *testing.T) {
		r := newPersonality(t, bmctest.DriverSupermicro, bmctest.SupermicroX11, func(c *labbmc.Config) { c.Personality.WebBoard = "X11NEW" })
		if _, err := r.dial(t).UpdateFirmware(t.Context(), image(update.BIOS)); !errors.Is(err, bmc.ErrNotSupported) {
			t.Errorf("error %v, want ErrNotSupported", err)
		}
	})
}

// TestOpenBMCRequiresTarget checks the error of OpenBMC builds that require a target, which bmclib
// does not send; redfish:// can push to them.
func TestOpenBMCRequiresTarget(t *testing.T) {
	r := newPersonality(t, bmctest.DriverOpenBMC, bmctest.OpenBMC, func(c *labbmc.Config) { c.Personality.Quirks.OneTarget = true })
	if _, err := r.dial(t).UpdateFirmware(t.Context(), image(update.BIOS)); !errors.Is(err, bmc.ErrNotSupported) {
		t.Errorf("error %v, want ErrNotSupported", err)
	}
}

// TestBusyWithOtherUpdate checks that OpenBMC gets no image during another update.
func TestBusyWithOtherUpdate(t *testing.T) {
	r := newPersonality(t, bmctest.DriverOpenBMC, bmctest.OpenBMC, nil)
	conn := r.dial(t)
	if _, err := conn.UpdateFirmware(t.Context(), image(update.BIOS)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.UpdateFirmware(t.Context(), image(update.BIOS)); !errors.Is(err, bmc.ErrBusy) {
		t.Errorf("error %v, want ErrBusy", err)
	}
}

// TestForgottenTask checks that a successful task is found by its job after iDRAC forgot it.
func TestForgottenTask(t *testing.T) {
	r := newPersonality(t, bmctest.DriverDell, bmctest.IDRAC9, func(c *labbmc.Config) { c.Personality.Quirks.DropDoneTasks = true })
	conn := r.dial(t)
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
		t.Fatal(err)
	}
	task, err := conn.UpdateFirmware(t.Context(), image(update.BIOS))
	if err != nil {
		t.Fatal(err)
	}
	for task.State == bmc.TaskRunning {
		if task, err = conn.Task(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
	}
	if task.State != bmc.TaskWaitsForReset {
		t.Fatalf("task %+v, want one that waits", task)
	}
	if err := conn.SetPower(t.Context(), bmc.ActionForceRestart); err != nil {
		t.Fatal(err)
	}
	if task, err = conn.Task(t.Context(), task.ID); err != nil || task.State != bmc.TaskSucceeded || task.Percent != 100 || task.Message == "" {
		t.Errorf("task %+v, %v: want its job, done", task, err)
	}
	if n := r.PeakSessions(); n != 1 {
		t.Errorf("%d sessions at once", n)
	}
}

// TestX11 checks updates through the web interface of a Supermicro X11.
func TestX11(t *testing.T) {
	t.Run("flash mode in use", func(t *testing.T) {
		r := newPersonality(t, bmctest.DriverSupermicro, bmctest.SupermicroX11, nil)
		conn := r.dial(t)
		if _, err := conn.UpdateFirmware(t.Context(), image(update.BIOS)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.UpdateFirmware(t.Context(), image(update.BIOS)); !errors.Is(err, bmc.ErrBusy) {
			t.Errorf("a second one: %v, want ErrBusy", err)
		}
	})
	t.Run("BMC", func(t *testing.T) {
		r := newPersonality(t, bmctest.DriverSupermicro, bmctest.SupermicroX11, nil)
		conn := r.dial(t)
		u := image(update.BMC)
		u.Filename, u.Targets = "", []string{"/redfish/v1/UpdateService/FirmwareInventory/BMC"}
		task, err := conn.UpdateFirmware(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		last := -1
		for task.State == bmc.TaskRunning {
			if task, err = conn.Task(t.Context(), task.ID); err != nil {
				t.Fatal(err)
			}
			if task.Percent < last {
				t.Errorf("went back from %d to %d %%", last, task.Percent)
			}
			last = task.Percent
		}
		if task.State != bmc.TaskSucceeded || task.Percent != 100 {
			t.Errorf("task %+v", task)
		}
	})
	t.Run("image of an unknown component", func(t *testing.T) {
		r := newPersonality(t, bmctest.DriverSupermicro, bmctest.SupermicroX11, nil)
		u := image(update.BIOS)
		u.Filename = "image.bin"
		if _, err := r.dial(t).UpdateFirmware(t.Context(), u); !errors.Is(err, bmc.ErrNotSupported) {
			t.Errorf("error %v, want ErrNotSupported", err)
		}
	})
	t.Run("unknown task", func(t *testing.T) {
		r := newPersonality(t, bmctest.DriverSupermicro, bmctest.SupermicroX11, nil)
		if _, err := r.dial(t).Task(t.Context(), "bmclib:../../x"); err == nil {
			t.Error("no error")
		}
	})
}

// TestASRockRack checks updates of ASRock Rack boards.
func TestASRockRack(t *testing.T) {
	r := newPlain(t, bmctest.DriverASRockRack, nil)
	conn := r.dial(t)
	task, err := conn.UpdateFirmware(t.Context(), image(update.BMC))
	if err != nil {
		t.Fatal(err)
	}
	for task.State == bmc.TaskRunning {
		if task, err = conn.Task(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.board.Version(update.BMC); task.State != bmc.TaskSucceeded || got != newVersion {
		t.Errorf("task %+v, version %s", task, got)
	}
	for _, u := range []bmc.Update{
		{URL: "http://192.0.2.1/bios.bin"}, {Image: firmware(update.BIOS, 1<<10), Filename: "image.bin"},
	} {
		if _, err := conn.UpdateFirmware(t.Context(), u); !errors.Is(err, bmc.ErrNotSupported) {
			t.Errorf("%+v: %v, want ErrNotSupported", u, err)
		}
	}
	for _, id := range []string{"", "bmclib:BIOS", "bmclib:NIC:1", "/redfish/v1/TaskService/Tasks/1"} {
		if _, err := conn.Task(t.Context(), id); !errors.Is(err, bmc.ErrNotSupported) {
			t.Errorf("task %q: %v, want ErrNotSupported", id, err)
		}
	}
}

// TestWrongImageIsNotSent checks that an image of another size or a broken one reaches no BMC.
func TestWrongImageIsNotSent(t *testing.T) {
	for _, tc := range []struct {
		name   string
		update bmc.Update
	}{
		{"shorter", bmc.Update{Image: strings.NewReader("abc"), Size: 4}},
		{"longer", bmc.Update{Image: strings.NewReader("abcde"), Size: 4}},
		{"broken", bmc.Update{Image: io.MultiReader(strings.NewReader("ab"), broken{}), Size: 4}},
		{"both ways", bmc.Update{Image: strings.NewReader("abcd"), Size: 4, URL: "http://192.0.2.1/x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newPersonality(t, bmctest.DriverDell, bmctest.IDRAC9, nil)
			conn := r.dial(t)
			if _, err := conn.UpdateFirmware(t.Context(), tc.update); err == nil {
				t.Error("no error")
			}
			if n := len(r.Writes()); n != 1 {
				t.Errorf("%d writes, want the login alone", n)
			}
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("gone") }

// TestManyTasks checks that a BMC with very many tasks costs a bounded number of requests.
func TestManyTasks(t *testing.T) {
	r := newPersonality(t, bmctest.DriverDell, bmctest.IDRAC9, nil)
	conn := r.dial(t)
	r.SetFaults(fault.Faults{Members: 10_000, Match: func(_, path string) bool { return strings.HasPrefix(path, "/redfish/v1/TaskService") }})
	before := r.Reads()
	if _, err := conn.UpdateFirmware(t.Context(), image(update.BIOS)); !errors.Is(err, bmc.ErrProtocol) && !errors.Is(err, bmc.ErrUnknownOutcome) {
		t.Errorf("error %v", err)
	}
	if n := r.Reads() - before; n > 300 {
		t.Errorf("%d reads", n)
	}
	if n := r.Actions(); len(n) != 0 {
		t.Errorf("actions %v", n)
	}
}

// TestSecrets checks that no error shows a password that a BMC repeats.
func TestSecrets(t *testing.T) {
	for _, d := range vendor.Drivers() {
		for _, p := range bmctest.Personalities(d.Name) {
			t.Run(d.Name+" "+string(p), func(t *testing.T) {
				var target bmc.Target
				if _, ok := emulated[p]; ok {
					target = newPersonality(t, d.Name, p, nil).target
				} else {
					target = newPlain(t, d.Name, nil).target
				}
				target.Password = "another-canary"
				conn, err := d.Dial(t.Context(), target)
				if err == nil {
					_, err = conn.PowerState(t.Context())
					_ = conn.Close(t.Context())
				}
				if !errors.Is(err, bmc.ErrUnauthorized) || strings.Contains(err.Error(), "canary") {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}
