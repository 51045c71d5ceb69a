// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// maxHealthRequests of one Health call: enough for 24 drives in 4 controllers and the
	// fans of a chassis.
	maxHealthRequests = 80
	// maxChassis and maxComponents bound a report.
	maxChassis    = 4
	maxComponents = 500
)

// componentResource is anything with a status: a fan, power supply, drive, temperature or memory
// module, in an array of the chassis' Thermal or Power or as its own resource.
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
	NetworkAdapters  link   `json:"NetworkAdapters"`
	LocationActive   *bool  `json:"LocationIndicatorActive"`
	IndicatorLED     string `json:"IndicatorLED"`
}

type subsystemResource struct {
	Fans          link `json:"Fans"`
	PowerSupplies link `json:"PowerSupplies"`
	Metrics       link `json:"ThermalMetrics"`
}

// metricsResource has the temperatures of a chassis (DSP2046, ThermalMetrics). Some BMCs have only
// the summary, by side of the chassis.
type metricsResource struct {
	Temperatures []excerptResource `json:"TemperatureReadingsCelsius"`
	Summary      map[string]any    `json:"TemperatureSummaryCelsius"`
}

// excerptResource is a reading without health; the sensor has the health.
type excerptResource struct {
	Reading number `json:"Reading"`
	Device  string `json:"DeviceName"`
	Source  string `json:"DataSourceUri"`
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
	// temperatures whose sensors are read last, with one request each.
	temperatures []excerptResource
}

// Health implements bmc.Health. It makes at most maxHealthRequests requests: the last drives of a
// larger machine are missing. A component that the BMC cannot read is unknown; a lost connection
// is an error. A slow read resumes, see resumable.
func (c *conn) Health(ctx context.Context) (_ bmc.HealthReport, err error) {
	c.begin(ctx)
	defer wrap(&err, "read health")
	c.transport.left = maxHealthRequests
	h := health{conn: c}
	if err = c.resumable(bmc.CallHealth, h.read); err != nil {
		return bmc.HealthReport{}, err
	}
	return h.report, nil
}

// ignoreUnreadable is ignoreUnsupported for parts of a report: it also drops 5xx answers, so that one part does not
// hide the others.
func ignoreUnreadable(err error) error {
	if brokeDown(err) {
		return nil
	}
	return ignoreUnsupported(err)
}

func (h *health) read() error {
	system, err := h.readSystem()
	if err != nil {
		return err
	}
	h.report.Overall = system.Status.overall()
	for _, chassis := range system.Links.Chassis[:min(len(system.Links.Chassis), maxChassis)] {
		if err := ignoreUnreadable(h.chassis(chassis.ID)); err != nil {
			return err
		}
	}
	if err := ignoreUnreadable(h.memory(system)); err != nil {
		return err
	}
	if err := ignoreUnreadable(h.drives(system.Storage.ID)); err != nil {
		return err
	}
	return h.sensors()
}

// chassis prefers Thermal and Power, which need two requests, to their successors, which need one
// for each fan.
func (h *health) chassis(path string) error {
	var chassis chassisResource
	if err := h.get(path, &chassis); err != nil {
		return err
	}
	if chassis.Thermal.ID != "" {
		var thermal thermalResource
		if err := ignoreUnreadable(h.get(chassis.Thermal.ID, &thermal)); err != nil {
			return err
		}
		h.add("Fan", thermal.Fans...)
		h.add("Temperature", thermal.Temperatures...)
	} else if err := ignoreUnreadable(h.subsystem(chassis.ThermalSubsystem.ID)); err != nil {
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
	if err := h.collection("PowerSupply", s.PowerSupplies.ID); err != nil || s.Metrics.ID == "" {
		return err
	}
	var m metricsResource
	if err := ignoreUnreadable(h.get(s.Metrics.ID, &m)); err != nil {
		return err
	}
	h.temperatures = append(h.temperatures, m.excerpts()...)
	return nil
}

// excerpts returns the list of temperatures or, without one, those of the summary, sorted.
func (m metricsResource) excerpts() []excerptResource {
	if len(m.Temperatures) > 0 {
		return m.Temperatures
	}
	var out []excerptResource
	for _, side := range slices.Sorted(maps.Keys(m.Summary)) {
		text, err := json.Marshal(m.Summary[side])
		var e excerptResource
		if err == nil && json.Unmarshal(text, &e) == nil && (e.Reading != "" || e.Source != "") {
			e.Device = cmp.Or(e.Device, side)
			out = append(out, e)
		}
	}
	return out
}

// sensors reads the health of each temperature. A temperature whose sensor cannot be read, or for
// which no request is left, is added without health.
func (h *health) sensors() error {
	for _, t := range h.temperatures {
		if t.Source != "" && h.transport.left > 0 {
			var c componentResource
			err := h.get(t.Source, &c)
			if err == nil {
				c.ID = t.Source
				h.add("Temperature", c)
				continue
			}
			if err := ignoreUnreadable(err); err != nil {
				return err
			}
		}
		if t.Reading != "" {
			h.add("Temperature", componentResource{ID: t.Source, Name: t.Device, Celsius: t.Reading})
		}
	}
	return nil
}

// memory reads the modules only if the summary is not OK.
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
			if err := ignoreUnreadable(err); err != nil {
				return err
			}
			continue
		}
		for _, drive := range controller.Drives {
			if err := h.addResource("Drive", drive.ID); err != nil {
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
		if err := h.addResource(kind, member); err != nil {
			return err
		}
	}
	return nil
}

// addResource adds a component with its own resource; it is unknown if it cannot be read.
func (h *health) addResource(kind, path string) error {
	if h.transport.left <= 0 || path == "" {
		return nil
	}
	var c componentResource
	if err := ignoreUnreadable(h.get(path, &c)); err != nil {
		return err
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
			return bmc.Shorten(name, 100)
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
	units := map[string]string{"": "", "Percent": " %", "RPM": " RPM", "Cel": " °C", "%": " %", "{rev}/min": " RPM"}
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
