// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// The classes of Intel AMT (Intel AMT Implementation and Reference Guide, WS-Management Class
// Reference).
const (
	cim = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/"

	classPower        = cim + "CIM_AssociatedPowerManagementService"
	classPowerService = cim + "CIM_PowerManagementService"
	classComputer     = cim + "CIM_ComputerSystem"
	classBootService  = cim + "CIM_BootService"
	classBootConfig   = cim + "CIM_BootConfigSetting"
	classBootSource   = cim + "CIM_BootSourceSetting"
	classBootData     = "http://intel.com/wbem/wscim/1/amt-schema/1/AMT_BootSettingData"
)

// The used values of ReturnValue (CIM_PowerManagementService.RequestPowerStateChange,
// CIM_BootService.SetBootConfigRole).
const (
	returnedDone   = "0"
	returnedInUse  = "6"
	returnedJobRun = "4096"
)

// amt is a client of the AMT of one machine.
type amt struct{ *wsman }

func newAMTLibrary(l *link, ep endpoint) *amt {
	return &amt{&wsman{
		client: l.wire.client(), url: ep.scheme + "://" + ep.host + wsmanPath,
		username: l.target.Username, password: l.target.Password.Reveal(),
	}}
}

// power returns the power state and the states that may be requested now.
func (a *amt) power(ctx context.Context) (state int, offered []int, _ error) {
	service, err := a.instance(ctx, classPower)
	if err != nil {
		return 0, nil, err
	}
	for _, e := range service.Children {
		n, err := strconv.Atoi(e.value())
		switch {
		case e.XMLName.Local == "PowerState" && err != nil:
			return 0, nil, fmt.Errorf("%w: AMT has the power state %q", bmc.ErrProtocol, bmc.Shorten(e.value(), 40))
		case e.XMLName.Local == "PowerState":
			state = n
		case e.XMLName.Local == "AvailableRequestedPowerStates" && err == nil:
			offered = append(offered, n)
		}
	}
	if state == 0 {
		return 0, nil, fmt.Errorf("%w: AMT has no power state", bmc.ErrProtocol)
	}
	return state, offered, nil
}

// PowerStateGet implements powerReader. A sleeping machine is on: its memory holds the running
// system. A machine in transition is neither on nor off.
func (a *amt) PowerStateGet(ctx context.Context) (string, error) {
	state, _, err := a.power(ctx)
	switch {
	case err != nil:
		return "", err
	case isOnAMT(state):
		return "on", nil
	case isOffAMT(state):
		return "off", nil
	}
	return "", nil
}

// The values of CIM_AssociatedPowerManagementService.PowerState: 2 on, 3 and 4 sleep, 6 and 13 off
// (hard), 7 hibernated, 8 and 12 off (soft). Other values are transitions.
func isOnAMT(state int) bool  { return slices.Contains([]int{2, 3, 4}, state) }
func isOffAMT(state int) bool { return slices.Contains([]int{6, 7, 8, 12, 13}, state) }

// statesAMT has the values of RequestPowerStateChange.PowerState for each action, best first (CIM
// 2.3x, CIM_PowerManagementService). AMT offers the graceful ones only while its agent runs in the
// operating system.
var statesAMT = map[bmc.PowerAction][]int{
	bmc.ActionOn:              {2},
	bmc.ActionForceOff:        {8, 6},       // off soft (by the firmware), off hard
	bmc.ActionGracefulOff:     {12, 13},     // off soft and hard, graceful
	bmc.ActionForceRestart:    {5, 9, 10},   // cycle soft, cycle hard, bus reset
	bmc.ActionGracefulRestart: {14, 15, 16}, // bus reset, cycle soft and hard, graceful
}

// isSettledAMT reports whether an action has nothing to do in a power state.
func isSettledAMT(action bmc.PowerAction, state int) bool {
	switch action {
	case bmc.ActionOn:
		return state == 2
	case bmc.ActionForceOff, bmc.ActionGracefulOff:
		return isOffAMT(state)
	}
	return false
}

// setPower requests the first state for the action that AMT offers.
func (a *amt) setPower(ctx context.Context, action bmc.PowerAction) error {
	state, offered, err := a.power(ctx)
	if err != nil {
		return err
	}
	for _, want := range statesAMT[action] {
		if slices.Contains(offered, want) && (action != bmc.ActionOn || state != want) {
			return a.invoke(ctx, classPowerService, "RequestPowerStateChange",
				fmt.Sprintf("<p:PowerState>%d</p:PowerState>", want)+reference("ManagedElement", classComputer, "Name", "ManagedSystem"))
		}
	}
	if isSettledAMT(action, state) {
		return nil
	}
	return unsupported("AMT is in power state %d and offers %v, but no state for %s", state, offered, action)
}

// bootDataAMT are the properties of AMT_BootSettingData that could change the next boot, with the
// required values. Read-only properties, which a Put must not contain, are empty.
var bootDataAMT = map[string]string{
	"BIOSPause": "false", "BIOSSetup": "false", "BootMediaIndex": "0", "ConfigurationDataReset": "false", "IDERBootDevice": "0",
	"ReflashBIOS": "false", "SecureErase": "false", "UseIDER": "false", "UserPasswordBypass": "false",

	"BIOSLastStatus": "", "BootguardStatus": "", "OptionsCleared": "", "SecureBootControlEnabled": "", "UEFIHTTPSBootEnabled": "",
	"UEFILocalPBABootEnabled": "", "UefiBootParametersArray": "", "WinREBootEnabled": "",
}

// setPXE makes the next boot, and only that, start from the network.
func (a *amt) setPXE(ctx context.Context) error {
	body, err := a.call(ctx, actionGet, classBootData, "")
	if err != nil {
		return err
	}
	var data strings.Builder
	for _, e := range body.first("AMT_BootSettingData").Children {
		value, listed := bootDataAMT[e.XMLName.Local]
		if !listed {
			value = e.value()
		}
		if value != "" {
			fmt.Fprintf(&data, "<g:%s>%s</g:%s>", e.XMLName.Local, escaped(value), e.XMLName.Local)
		}
	}
	if data.Len() == 0 {
		return fmt.Errorf("%w: AMT has no boot settings", bmc.ErrProtocol)
	}
	if _, err := a.call(ctx, actionPut, classBootData, fmt.Sprintf(`<g:AMT_BootSettingData xmlns:g="%s">%s</g:AMT_BootSettingData>`, classBootData, data.String())); err != nil {
		return err
	}
	const isNextSingleUse = "<p:Role>1</p:Role>"
	if err := a.invoke(ctx, classBootService, "SetBootConfigRole",
		reference("BootConfigSetting", classBootConfig, "InstanceID", "Intel(r) AMT: Boot Configuration 0")+isNextSingleUse); err != nil {
		return err
	}
	return a.invoke(ctx, classBootConfig, "ChangeBootOrder", reference("Source", classBootSource, "InstanceID", "Intel(r) AMT: Force PXE Boot"))
}

// amtConn is a connection with Intel AMT.
type amtConn struct{ *base }

func newAMT(c *base) bmc.Conn { return amtConn{c} }

// SetPower implements bmc.Power.
func (c amtConn) SetPower(ctx context.Context, action bmc.PowerAction) error {
	if statesAMT[action] == nil {
		return c.base.SetPower(ctx, action)
	}
	return callDriver(ctx, c.base, write, "set power "+string(action), func(ctx context.Context, a *amt) error { return a.setPower(ctx, action) })
}

// SetBootOverride implements bmc.BootDevice for one network boot. AMT cannot read the override, and
// neither read nor change the boot mode.
func (c amtConn) SetBootOverride(ctx context.Context, o bmc.BootOverride) error {
	const what = "set boot override"
	if o.Target != bmc.BootPXE || o.Persistent {
		return fmt.Errorf("%s: %w", what, unsupported("AMT supports only a single boot from the network"))
	}
	err := callDriver(ctx, c.base, write, what, func(ctx context.Context, a *amt) error { return a.setPXE(ctx) })
	if err == nil && o.Mode != "" {
		return fmt.Errorf("%s: %w: the next boot is from the network, but AMT cannot change the boot mode", what, bmc.ErrNotApplied)
	}
	return err
}
