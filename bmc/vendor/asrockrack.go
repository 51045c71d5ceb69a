// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"fmt"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"

	"github.com/bmc-toolbox/bmclib/v2/constants"
	"github.com/bmc-toolbox/bmclib/v2/providers/asrockrack"
	"github.com/bmc-toolbox/common"
	"github.com/go-logr/logr"

	"github.com/ingot-metal/ingot/bmc"
)

// newASRockRackLibrary escapes name and password: the library puts them into a form
// as they are. It keeps its session in a cookie.
func newASRockRackLibrary(l *link, ep endpoint) library {
	client := l.wire.client()
	client.Jar, _ = cookiejar.New(nil) // never fails without options
	return asrockrack.NewWithOptions(ep.host, url.QueryEscape(l.target.Username), url.QueryEscape(l.target.Password.Reveal()),
		logr.Discard(), asrockrack.WithHTTPClient(client))
}

func wordsASRockRack() map[bmc.PowerAction]string {
	return map[bmc.PowerAction]string{
		bmc.ActionOn: "on", bmc.ActionForceOff: "off", bmc.ActionGracefulOff: "soft", bmc.ActionForceRestart: "reset",
	}
}

// asrockConn is a board of ASRock Rack.
type asrockConn struct{ *base }

func newASRockRack(c *base) bmc.Conn { return asrockConn{c} }

// inventorier is what the library tells of a machine.
type inventorier interface {
	Inventory(ctx context.Context) (*common.Device, error)
}

// device reads what the library can find out.
func (c asrockConn) device(ctx context.Context, what string) (*common.Device, error) {
	answer := make(chan *common.Device, 1) // the call may outlive this one
	err := on(ctx, c.base, read, what, func(ctx context.Context, lib inventorier) error {
		d, err := lib.Inventory(ctx)
		answer <- d
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}

// SetBootOverride implements bmc.BootDevice.
func (c asrockConn) SetBootOverride(context.Context, bmc.BootOverride) error {
	return fmt.Errorf("set boot override: %w", refused("the driver %s has no such call", c.maker.name))
}

// Identity implements bmc.Inventorier.
func (c asrockConn) Identity(ctx context.Context) (bmc.Identity, error) {
	d, err := c.device(ctx, "read identity")
	if err != nil {
		return bmc.Identity{}, err
	}
	return identityOf(d), nil
}

// Inventory implements bmc.Inventorier. The board lists no network interfaces.
func (c asrockConn) Inventory(ctx context.Context) (bmc.Inventory, error) {
	d, err := c.device(ctx, "read inventory")
	if err != nil {
		return bmc.Inventory{}, err
	}
	return bmc.Inventory{Identity: identityOf(d)}, nil
}

func identityOf(d *common.Device) bmc.Identity {
	return bmc.Identity{
		Serial: strings.TrimSpace(d.Serial), Manufacturer: strings.TrimSpace(d.Vendor), Model: strings.TrimSpace(d.Model),
		BMCFirmware: installed(d.BMC.Common),
	}
}

func installed(c common.Common) string {
	if c.Firmware == nil {
		return ""
	}
	return strings.TrimSpace(c.Firmware.Installed)
}

// FirmwareInventory implements bmc.Firmware.
func (c asrockConn) FirmwareInventory(ctx context.Context) ([]bmc.FirmwareItem, error) {
	d, err := c.device(ctx, "read firmware inventory")
	if err != nil {
		return nil, err
	}
	return []bmc.FirmwareItem{
		{ID: componentBIOS, Name: componentBIOS, Version: installed(d.BIOS.Common), Updateable: true},
		{ID: componentBMC, Name: componentBMC, Version: installed(d.BMC.Common), Updateable: true},
	}, nil
}

// uploader is the library's way. An image of the BIOS is installed with the upload;
// one of the BMC by an order of its own.
type uploader interface {
	FirmwareUpload(ctx context.Context, component string, file *os.File) (string, error)
	FirmwareInstallUploaded(ctx context.Context, component, uploadTaskID string) (string, error)
}

// UpdateWays implements bmc.Firmware.
func (c asrockConn) UpdateWays(context.Context) (bmc.UpdateWays, error) {
	return bmc.UpdateWays{Push: true}, nil
}

// UpdateFirmware implements bmc.Firmware. The board forgets an installation when it
// has ended: the task names the version that was there before.
func (c asrockConn) UpdateFirmware(ctx context.Context, update bmc.Update) (bmc.Task, error) {
	const what = "update firmware"
	fail := func(err error) (bmc.Task, error) { return bmc.Task{}, fmt.Errorf("%s: %w", what, err) }
	component := componentOf(update)
	switch {
	case update.Image == nil || update.URL != "":
		return fail(refused("the board fetches no images: they have to be pushed"))
	case component == "":
		return fail(refused("neither target nor file name says whether the image is of the BIOS or of the BMC"))
	}
	file, err := spool(ctx, update)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", bmc.ErrUnsent, err))
	}
	defer func() { _ = file.Close() }()
	before, err := c.version(ctx, component)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", bmc.ErrUnsent, err))
	}
	err = on(ctx, c.base, write, what, func(ctx context.Context, lib uploader) error {
		if _, err := lib.FirmwareUpload(ctx, component, file); err != nil || component == componentBIOS {
			return err
		}
		_, err := lib.FirmwareInstallUploaded(ctx, component, "")
		return err
	})
	if err != nil {
		return bmc.Task{}, err
	}
	return bmc.Task{ID: ownTask + component + ":" + before, State: bmc.TaskRunning, Percent: -1}, nil
}

func (c asrockConn) version(ctx context.Context, component string) (string, error) {
	items, err := c.FirmwareInventory(ctx)
	if err != nil {
		return "", err
	}
	for _, i := range items {
		if i.ID == component {
			return i.Version, nil
		}
	}
	return "", refused("no component %s", component)
}

// Task implements bmc.Firmware. Once the board tells no progress, another version
// than before is the proof.
func (c asrockConn) Task(ctx context.Context, id string) (bmc.Task, error) {
	rest, own := strings.CutPrefix(id, ownTask)
	component, before, known := strings.Cut(rest, ":")
	if !own || !known || !isComponent(component) {
		return bmc.Task{}, fmt.Errorf("read task: %w", refused("no task has the ID %q", bmc.Shorten(id, 60)))
	}
	answer := make(chan bmc.Task, 1) // the call may outlive this one
	l := c.link
	err := on(ctx, c.base, read, "read task", func(ctx context.Context, lib follower) error {
		state, status, err := lib.FirmwareTaskStatus(ctx, constants.FirmwareInstallStepInstallStatus, component, "", before)
		answer <- bmc.Task{ID: id, State: stateOf(state), Percent: percentOf(status), Message: bmc.Shorten(l.clean(status), maxMessage)}
		return err
	})
	if err != nil {
		return bmc.Task{}, err
	}
	t := <-answer
	if t.State != bmc.TaskRunning || t.Message != "" {
		return t, nil
	}
	now, err := c.version(ctx, component)
	if err != nil {
		return bmc.Task{}, err
	}
	if now != "" && now != before {
		t.State, t.Percent = bmc.TaskSucceeded, 100
	}
	return t, nil
}

// resetter restarts the BMC.
type resetter interface {
	BmcReset(ctx context.Context, resetType string) (bool, error)
}

// ResetBMC implements bmc.Resetter.
func (c asrockConn) ResetBMC(ctx context.Context) error {
	return on(ctx, c.base, write, "reset BMC", func(ctx context.Context, lib resetter) error {
		_, err := lib.BmcReset(ctx, "cold")
		return err
	})
}
