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

// newASRockRackLibrary returns the driver. It escapes name and password, which bmclib puts into a
// form unescaped. The driver keeps its session in a cookie.
func newASRockRackLibrary(l *link, ep endpoint) library {
	client := l.wire.client()
	client.Jar, _ = cookiejar.New(nil) // never fails without options
	return asrockrack.NewWithOptions(ep.host, url.QueryEscape(l.target.Username), url.QueryEscape(l.target.Password.Reveal()),
		logr.Discard(), asrockrack.WithHTTPClient(client))
}

// asrockConn is a connection with a board of ASRock Rack.
type asrockConn struct{ *base }

func newASRockRack(c *base) bmc.Conn { return asrockConn{c} }

// inventorier reads the hardware.
type inventorier interface {
	Inventory(ctx context.Context) (*common.Device, error)
}

func (c asrockConn) device(ctx context.Context, what string) (*common.Device, error) {
	return readDriver(ctx, c.base, what, func(ctx context.Context, lib inventorier) (*common.Device, error) { return lib.Inventory(ctx) })
}

// SetBootOverride implements bmc.BootDevice.
func (c asrockConn) SetBootOverride(context.Context, bmc.BootOverride) error {
	return fmt.Errorf("set boot override: %w", unsupported("driver %s cannot do that", c.spec.name))
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

// uploader pushes an image. A BIOS image is installed by the upload, a BMC image by a second call.
type uploader interface {
	FirmwareUpload(ctx context.Context, component string, file *os.File) (string, error)
	FirmwareInstallUploaded(ctx context.Context, component, uploadTaskID string) (string, error)
}

// UpdateMethods implements bmc.Firmware.
func (c asrockConn) UpdateMethods(context.Context) (bmc.UpdateMethods, error) {
	return bmc.UpdateMethods{Push: true}, nil
}

// UpdateFirmware implements bmc.Firmware. The board forgets a finished installation, so the task ID
// contains the previous version.
func (c asrockConn) UpdateFirmware(ctx context.Context, update bmc.Update) (bmc.Task, error) {
	const what = "update firmware"
	fail := func(err error) (bmc.Task, error) { return bmc.Task{}, fmt.Errorf("%s: %w", what, err) }
	component := componentOf(update)
	switch {
	case update.Image == nil || update.URL != "":
		return fail(unsupported("the board cannot fetch images; they have to be pushed"))
	case component == "":
		return fail(unsupported("neither target nor file name shows whether the image is for the BIOS or the BMC"))
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
	err = callDriver(ctx, c.base, write, what, func(ctx context.Context, lib uploader) error {
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
	d, err := c.device(ctx, "read firmware inventory")
	if err != nil {
		return "", err
	}
	if component == componentBIOS {
		return installed(d.BIOS.Common), nil
	}
	return installed(d.BMC.Common), nil
}

// Task implements bmc.Firmware. When the board reports no progress any more, a changed version shows
// that the installation succeeded.
func (c asrockConn) Task(ctx context.Context, id string) (bmc.Task, error) {
	rest, own := strings.CutPrefix(id, ownTask)
	component, before, known := strings.Cut(rest, ":")
	if !own || !known || !isComponent(component) {
		return bmc.Task{}, fmt.Errorf("read task: %w", unsupported("no task has the ID %q", bmc.Shorten(id, 60)))
	}
	l := c.link
	t, err := readDriver(ctx, c.base, "read task", func(ctx context.Context, lib follower) (bmc.Task, error) {
		state, status, err := lib.FirmwareTaskStatus(ctx, constants.FirmwareInstallStepInstallStatus, component, "", before)
		return bmc.Task{ID: id, State: stateOf(state), Percent: percentOf(status), Message: bmc.Shorten(l.clean(status), maxMessage)}, err
	})
	if err != nil {
		return bmc.Task{}, err
	}
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

type resetter interface {
	BmcReset(ctx context.Context, resetType string) (bool, error)
}

// ResetBMC implements bmc.Resetter.
func (c asrockConn) ResetBMC(ctx context.Context) error {
	return callDriver(ctx, c.base, write, "reset BMC", func(ctx context.Context, lib resetter) error {
		_, err := lib.BmcReset(ctx, "cold")
		return err
	})
}
