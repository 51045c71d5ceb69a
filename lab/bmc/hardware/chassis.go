// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

const (
	fans     = 2
	supplies = 2
	rpm      = 4200
	watts    = 180
	celsius  = 24
)

func (s *Service) readChassis(path, tail string) (resource.Object, bool) {
	kind := s.cfg.Personality.Sensors
	switch {
	case tail == "Thermal" && kind != personality.NewSensors:
		return s.thermal(path), true
	case tail == "Power" && kind != personality.NewSensors:
		return s.power(path), true
	case kind == personality.OldSensors:
		return nil, false
	}
	if strings.HasPrefix(tail, "ThermalSubsystem") {
		return s.thermalSubsystem(path, tail)
	}
	if strings.HasPrefix(tail, "PowerSubsystem") {
		return s.powerSubsystem(path, tail)
	}
	return s.sensors(path, tail)
}

func (s *Service) thermal(path string) resource.Object {
	o := resource.New(path, "Thermal.v1_7_1", "Thermal")
	list := make([]resource.Object, fans)
	for i := range list {
		name := fmt.Sprint("Fan ", i+1)
		list[i] = resource.Object{
			"@odata.id": fmt.Sprintf("%s#/Fans/%d", path, i), "MemberId": fmt.Sprint(i), "Name": name,
			"Reading": rpm, "ReadingUnits": "RPM", "Status": resource.Health(s.healthOf(name)),
		}
	}
	o["Fans"] = list
	o["Temperatures"] = []resource.Object{
		{"@odata.id": path + "#/Temperatures/0", "MemberId": "0", "Name": "Inlet", "ReadingCelsius": celsius, "PhysicalContext": "Intake", "Status": resource.Health(s.healthOf("Inlet"))},
		// Empty sockets: real BMCs list them, and they are healthy.
		{"@odata.id": path + "#/Temperatures/1", "MemberId": "1", "Name": "CPU 2", "ReadingCelsius": nil, "Status": resource.Object{"State": "Absent", "Health": nil}},
	}
	return o
}

func (s *Service) power(path string) resource.Object {
	o := resource.New(path, "Power.v1_7_2", "Power")
	list := make([]resource.Object, supplies)
	for i := range list {
		name := fmt.Sprint("PSU ", i+1)
		list[i] = resource.Object{
			"@odata.id": fmt.Sprintf("%s#/PowerSupplies/%d", path, i), "MemberId": fmt.Sprint(i), "Name": name,
			"PowerInputWatts": watts, "Status": resource.Health(s.healthOf(name)),
		}
	}
	o["PowerSupplies"] = list
	o["PowerControl"] = []resource.Object{{"@odata.id": path + "#/PowerControl/0", "MemberId": "0", "Name": "System", "PowerConsumedWatts": watts}}
	return o
}

func (s *Service) thermalSubsystem(path, tail string) (resource.Object, bool) {
	switch tail {
	case "ThermalSubsystem":
		o := resource.New(path, "ThermalSubsystem.v1_3_0", "Thermal Subsystem")
		o["Fans"], o["ThermalMetrics"] = resource.Ref(path+"/Fans"), resource.Ref(path+"/ThermalMetrics")
		o["Status"] = resource.Health("OK")
		return o, true
	case "ThermalSubsystem/Fans":
		return resource.Collection(path, "Fan", numbered(path, fans)), true
	case "ThermalSubsystem/ThermalMetrics":
		o := resource.New(path, "ThermalMetrics.v1_3_0", "Thermal Metrics")
		inlet := resource.Object{"Reading": celsius, "DataSourceUri": s.chassis + "/Sensors/Inlet"}
		o["TemperatureSummaryCelsius"] = resource.Object{"Intake": inlet}
		if !s.cfg.Personality.Quirks.SummaryOnly {
			o["TemperatureReadingsCelsius"] = []resource.Object{{"Reading": celsius, "DeviceName": "Inlet", "DataSourceUri": s.chassis + "/Sensors/Inlet"}}
		}
		return o, true
	}
	i, ok := number(tail, "ThermalSubsystem/Fans/", fans)
	if !ok {
		return nil, false
	}
	name := fmt.Sprint("Fan ", i+1)
	o := resource.New(path, "Fan.v1_5_0", name)
	o["SpeedPercent"], o["Status"] = resource.Object{"Reading": 35, "SpeedRPM": rpm}, resource.Health(s.healthOf(name))
	return o, true
}

func (s *Service) powerSubsystem(path, tail string) (resource.Object, bool) {
	switch tail {
	case "PowerSubsystem":
		o := resource.New(path, "PowerSubsystem.v1_1_1", "Power Subsystem")
		o["PowerSupplies"], o["Status"] = resource.Ref(path+"/PowerSupplies"), resource.Health("OK")
		return o, true
	case "PowerSubsystem/PowerSupplies":
		return resource.Collection(path, "PowerSupply", numbered(path, supplies)), true
	}
	i, ok := number(tail, "PowerSubsystem/PowerSupplies/", supplies)
	if !ok {
		return nil, false
	}
	name := fmt.Sprint("PSU ", i+1)
	o := resource.New(path, "PowerSupply.v1_5_2", name)
	o["PowerCapacityWatts"], o["Status"] = 800, resource.Health(s.healthOf(name))
	return o, true
}

func (s *Service) sensors(path, tail string) (resource.Object, bool) {
	switch tail {
	case "Sensors":
		return resource.Collection(path, "Sensor", []string{path + "/Inlet", path + "/Fan1", path + "/TotalPower"}), true
	case "Sensors/Inlet":
		return s.sensor(path, "Inlet", "Temperature", "Cel", celsius), true
	case "Sensors/Fan1":
		return s.sensor(path, "Fan 1", "Rotational", "{rev}/min", rpm), true
	case "Sensors/TotalPower":
		return s.sensor(path, "Total Power", "Power", "W", watts), true
	}
	return nil, false
}

func (s *Service) sensor(path, name, kind, units string, reading int) resource.Object {
	o := resource.New(path, "Sensor.v1_8_1", name)
	o["ReadingType"], o["ReadingUnits"], o["Reading"], o["Status"] = kind, units, reading, resource.Health(s.healthOf(name))
	return o
}
