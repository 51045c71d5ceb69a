// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// maxHealthRequests of one Health call: 24 drives in 4 controllers and a
	// chassis' worth of fans fit.
	maxHealthRequests = 80
	// maxChassis and maxComponents bound what is read and told.
	maxChassis    = 4
	maxComponents = 500
)

// componentResource is whatever has a status: of a fan, a supply, a drive, a
// temperature, a memory module; in arrays of their chassis' Thermal and Power, or
// as a resource of its own.
type componentResource struct {
	ID     string         `json:"@odata.id"`
	Member string         `json:"MemberId"`
	Name   string         `json:"Name"`
	Fan    string         `json:"FanName"` // before Thermal 1.1
	Status statusResource `json:"Status"`

	Celsius number `json:"ReadingCelsius"`
	Reading number `json:"Reading"`
	Units   string `json:"ReadingUnits"`
	Watts   number `json:"LastPowerOutputWatts"`
	Speed   struct {
		Percent number `json:"Reading"`
		RPM     number `json:"SpeedRPM"`
	} `json:"SpeedPercent"`
}

type chassisResource struct {
	Thermal          link   `json:"Thermal"`
	Power            link   `json:"Power"`
	ThermalSubsystem link   `json:"ThermalSubsystem"`
	PowerSubsystem   link   `json:"PowerSubsystem"`
	LocationActive   *bool  `json:"LocationIndicatorActive"`
	IndicatorLED     string `json:"IndicatorLED"`
}

type subsystemResource struct {
	Fans          link `json:"Fans"`
	PowerSupplies link `json:"PowerSupplies"`
}

type thermalResource struct {
	Fans         []componentResource `json:"Fans"`
	Temperatures []componentResource `json:"Temperatures"`
}

type powerResource struct {
	Supplies []componentResource `json:"PowerSupplies"`
}

type storageResource struct {
	Drives []link `json:"Drives"`
}

// health collects a report.
type health struct {
	*conn
	report bmc.HealthReport
}

// Health implements bmc.Health. It makes at most maxHealthRequests requests: a
// larger machine's last drives are not told. What the BMC cannot tell of one
// component is told as unknown; a lost connection is an error.
func (c *conn) Health(ctx context.Context) (bmc.HealthReport, error) {
	c.transport.begin(ctx)
	c.transport.left = maxHealthRequests
	h := health{conn: c}
	if err := h.read(); err != nil {
		return bmc.HealthReport{}, fmt.Errorf("read health: %w", err)
	}
	return h.report, nil
}

func (h *health) read() error {
	system, err := h.readSystem()
	if err != nil {
		return err
	}
	h.report.Overall = system.Status.sum()
	for i, chassis := range system.Links.Chassis {
		if i == maxChassis {
			break
		}
		if err := optional(h.chassis(chassis.ID)); err != nil {
			return err
		}
	}
	if err := optional(h.memory(system)); err != nil {
		return err
	}
	return optional(h.drives(system.Storage.ID))
}

// chassis prefers Thermal and Power, which tell all in two answers, to their
// successors, which take one for each fan.
func (h *health) chassis(path string) error {
	var chassis chassisResource
	if err := h.get(path, &chassis); err != nil {
		return err
	}
	if chassis.Thermal.ID != "" {
		var thermal thermalResource
		if err := optional(h.get(chassis.Thermal.ID, &thermal)); err != nil {
			return err
		}
		h.add("Fan", thermal.Fans...)
		h.add("Temperature", thermal.Temperatures...)
	} else if err := optional(h.subsystem(chassis.ThermalSubsystem.ID)); err != nil {
		return err
	}
	if chassis.Power.ID == "" {
		return h.subsystem(chassis.PowerSubsystem.ID)
	}
	var power powerResource
	if err := h.get(chassis.Power.ID, &power); err != nil {
		return err
	}
	h.add("PowerSupply", power.Supplies...)
	return nil
}

func (h *health) subsystem(path string) error {
	if path == "" {
		return nil
	}
	var s subsystemResource
	if err := h.get(path, &s); err != nil {
		return err
	}
	if err := h.collection("Fan", s.Fans.ID); err != nil {
		return err
	}
	return h.collection("PowerSupply", s.PowerSupplies.ID)
}

// memory asks for each module only where the sum is not good.
func (h *health) memory(system *systemResource) error {
	if s := system.MemorySummary.Status; s != nil {
		if sum := (componentResource{Name: "Memory", Status: *s}); sum.state() == bmc.HealthOK {
			h.add("Memory", sum)
			return nil
		}
	}
	return h.collection("Memory", system.Memory.ID)
}

func (h *health) drives(storage string) error {
	if storage == "" {
		return nil
	}
	controllers, err := h.members(storage)
	if err != nil {
		return err
	}
	for _, path := range controllers {
		var controller storageResource
		if err := h.get(path, &controller); err != nil {
			if err := optional(err); err != nil {
				return err
			}
			continue
		}
		for _, drive := range controller.Drives {
			if err := h.one("Drive", drive.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *health) collection(kind, path string) error {
	if path == "" {
		return nil
	}
	members, err := h.members(path)
	if err != nil {
		return err
	}
	for _, member := range members {
		if err := h.one(kind, member); err != nil {
			return err
		}
	}
	return nil
}

// one adds a resource of its own, or that it cannot be read.
func (h *health) one(kind, path string) error {
	if h.transport.left <= 0 || path == "" {
		return nil
	}
	var c componentResource
	if err := h.get(path, &c); err != nil {
		if err := optional(err); err != nil {
			return err
		}
		c = componentResource{}
	}
	c.ID = path
	h.add(kind, c)
	return nil
}

func (h *health) add(kind string, components ...componentResource) {
	for _, c := range components {
		if c.Status.State == "Absent" || len(h.report.Components) >= maxComponents {
			continue
		}
		h.report.Components = append(h.report.Components, bmc.ComponentHealth{
			Kind: kind, Name: c.name(), State: c.state(), Reading: c.reading(),
		})
	}
}

func (c componentResource) name() string {
	for _, name := range []string{c.Name, c.Fan, path.Base(c.ID), c.Member} {
		if name = strings.TrimSpace(name); name != "" && name != "." && name != "/" {
			return shorten(name, 100)
		}
	}
	return ""
}

func (c componentResource) state() bmc.HealthState {
	if s := healthState(c.Status.Health); s != bmc.HealthUnknown {
		return s
	}
	return healthState(c.Status.Rollup)
}

func (c componentResource) reading() string {
	units := map[string]string{"": "", "Percent": " %", "RPM": " RPM"}
	switch {
	case c.Celsius != "":
		return string(c.Celsius) + " °C"
	case c.Reading != "":
		return string(c.Reading) + units[c.Units]
	case c.Speed.RPM != "":
		return string(c.Speed.RPM) + " RPM"
	case c.Speed.Percent != "":
		return string(c.Speed.Percent) + " %"
	case c.Watts != "":
		return string(c.Watts) + " W"
	}
	return ""
}

func healthState(text string) bmc.HealthState {
	switch s := bmc.HealthState(text); s {
	case bmc.HealthOK, bmc.HealthWarning, bmc.HealthCritical:
		return s
	}
	return bmc.HealthUnknown
}
