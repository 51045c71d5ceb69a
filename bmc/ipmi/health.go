// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"cmp"
	"context"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// maxRecords bounds the sensor records that are read.
	maxRecords = 1000
	// maxLost bounds the reservations that may be lost while a repository is read.
	maxLost = 3
	// recordHeader is the length of a record's header. recordChunk is the size of one read
	// if a BMC cannot send a record at once, and recordLeast the smallest size.
	recordHeader, recordChunk, recordLeast = 5, 16, 4
	// maxSkipped bounds the records without a readable header.
	maxSkipped = 16
)

// sensorRecord is a sensor that the BMC owns.
type sensorRecord struct {
	number byte
	kind   types.SensorType
	name   string
	// event is the meaning of its states (§42.1 table 42-1): thresholds, sensor-specific
	// events, or another type.
	event types.EventReadingType
	// convert formats a reading; nil: the sensor has no numeric reading.
	convert func(raw byte) string
}

// Health implements bmc.Health with the chassis' faults (§28.2) and the sensors of the repository
// (§33, §35.14), except sensors that are off or cannot be read. The first call reads the
// repository, which takes a second or more. If its deadline ends first, the next call continues.
func (c *conn) Health(ctx context.Context) (bmc.HealthReport, error) {
	status, err := c.chassisStatus(ctx)
	if err != nil {
		return bmc.HealthReport{}, err
	}
	report := bmc.HealthReport{Components: chassisFaults(status)}
	if err := c.readRecords(ctx); err != nil {
		return bmc.HealthReport{}, err
	}
	refused := 0
	for _, record := range c.sensors.records {
		data, err := c.run(ctx, command{
			what: "read sensor", netFn: netFnSensor, code: 0x2d, data: []byte{record.number}, minLen: 2,
		})
		if err != nil {
			if ignoreCode(err) == nil {
				refused++
				continue
			}
			return bmc.HealthReport{}, err
		}
		if component, ok := record.component(data); ok {
			report.Components = append(report.Components, component)
		}
	}
	c.sensors.refused = refused > 0 && refused == len(c.sensors.records)
	report.Overall = c.overall(report.Components)
	return report, nil
}

// PollState implements bmc.Poller with only the chassis status, which has few fault bits (§28.2).
// The health is HealthOK if none of them is set and the BMC has sensors.
func (c *conn) PollState(ctx context.Context) (bmc.PollState, error) {
	status, err := c.chassisStatus(ctx)
	if err != nil {
		return bmc.PollState{Power: bmc.PowerUnknown, Health: bmc.HealthUnknown}, err
	}
	c.probeSensors(ctx)
	return bmc.PollState{Power: c.powerOf(status), Health: c.overall(chassisFaults(status))}, nil
}

// overall returns the worst state of the components. It is unknown if the BMC has no sensors
// that can be read.
func (c *conn) overall(components []bmc.ComponentHealth) bmc.HealthState {
	if len(components) == 0 && c.sensors.complete && (len(c.sensors.records) == 0 || c.sensors.refused) {
		return bmc.HealthUnknown
	}
	return worst(components)
}

// chassisFaults returns the faults in Get Chassis Status (§28.2 table 28-3).
func chassisFaults(s chassisStatus) []bmc.ComponentHealth {
	var out []bmc.ComponentHealth
	for _, f := range []struct {
		set        bool
		kind, name string
	}{
		{s.power&0x02 != 0, "PowerSupply", "power overload"},
		{s.power&0x08 != 0, "PowerSupply", "main power fault"},
		{s.power&0x10 != 0, "PowerSupply", "power control fault"},
		{s.misc&0x04 != 0, "Drive", "drive fault"},
		{s.misc&0x08 != 0, "Fan", "cooling fault"},
	} {
		if f.set {
			out = append(out, bmc.ComponentHealth{Kind: f.kind, Name: f.name, State: bmc.HealthCritical})
		}
	}
	return out
}

// rank orders the states; Unknown counts as OK.
func rank(s bmc.HealthState) int {
	switch s {
	case bmc.HealthCritical:
		return 2
	case bmc.HealthWarning:
		return 1
	}
	return 0
}

func worst(components []bmc.ComponentHealth) bmc.HealthState {
	state := bmc.HealthOK
	for _, c := range components {
		if rank(c.State) > rank(state) {
			state = c.State
		}
	}
	return state
}

// component converts a sensor's answer (§35.14); false: the sensor has no reading.
func (r sensorRecord) component(data []byte) (bmc.ComponentHealth, bool) {
	const scanning, unavailable = 0x40, 0x20
	if data[1]&scanning == 0 || data[1]&unavailable != 0 {
		return bmc.ComponentHealth{}, false
	}
	out := bmc.ComponentHealth{Kind: kindOf(r.kind), Name: r.name, State: bmc.HealthOK}
	var states byte
	if len(data) > 2 {
		states = data[2]
	}
	if r.event == types.EventReadingTypeThreshold {
		// Bits of the lower and upper thresholds: 0 and 3 noncritical, 1 and 4 critical, 2 and
		// 5 nonrecoverable.
		switch {
		case states&0b110110 != 0:
			out.State = bmc.HealthCritical
		case states&0b001001 != 0:
			out.State = bmc.HealthWarning
		}
		if r.convert != nil {
			out.Reading = r.convert(data[0])
		}
		return out, true
	}
	if r.event != types.EventReadingTypeSensorSpecific {
		// Bit 0 of digital and redundancy types is the good state (Intel's CATERR).
		return out, false
	}
	critical, warning := badStates(r.kind)
	switch {
	case states&critical != 0:
		out.State = bmc.HealthCritical
	case states&warning != 0:
		out.State = bmc.HealthWarning
	}
	return out, critical|warning != 0
}

// badStates returns the bits of a sensor-specific state that mean a fault (§42.2 table 42-3).
// Types without such bits are not shown.
func badStates(kind types.SensorType) (critical, warning byte) {
	switch kind {
	case types.SensorTypeProcessor:
		return 0b0000_0111, 0b0000_1000 // IERR, thermal trip, FRB1; FRB2
	case types.SensorTypePowerSupply:
		return 0b0000_1010, 0b0000_0100 // failure, input lost; failure predicted
	case types.SensorTypeMemory:
		return 0b0000_0010, 0b0010_0001 // uncorrectable; correctable, their limit
	case types.SensorTypeDriveSlot:
		return 0b0110_0010, 0b0000_0100 // fault, in a critical or failed array; failure predicted
	}
	return 0, 0
}

// kindOf names a sensor's type as Redfish does.
func kindOf(kind types.SensorType) string {
	return cmp.Or(map[types.SensorType]string{
		types.SensorTypeTemperature: "Temperature", types.SensorTypeVoltage: "Voltage", types.SensorTypeCurrent: "Current",
		types.SensorTypeFan: "Fan", types.SensorTypeProcessor: "Processor", types.SensorTypePowerSupply: "PowerSupply",
		types.SensorTypeMemory: "Memory", types.SensorTypeDriveSlot: "Drive",
	}[kind], "Sensor")
}

// repository holds the sensor records that were read so far. If each record has to be read
// in pieces, a large server needs more requests than the rate limit allows in one call.
type repository struct {
	records []sensorRecord
	// next is the ID of the next record, and seen are the IDs before it. complete means that
	// there are no more; a loop in the chain also ends it.
	next     uint16
	seen     map[uint16]bool
	complete bool
	// probed means that a poll has read the first record.
	probed bool
	// refused means that the BMC refused every sensor reading of the last Health.
	refused bool
	// skipped counts the records without a readable header.
	skipped int
}

// probeSensors checks, once per connection, whether the BMC has sensor records at all. pyghmi's BMC
// has none, and a poll must not report HealthOK without any sensor. It ignores failures.
func (c *conn) probeSensors(ctx context.Context) {
	if c.sensors.probed || c.sensors.complete {
		return
	}
	c.sensors.probed = true
	_, _, err := c.readPiece(ctx, 0, 0, 0, 0xff)
	c.sensors.complete = isAnyCode(err) && ignoreCode(err) == nil && !wantsShorterRead(err) && !isCode(err, 0xc5)
}

// readRecords reads the remaining sensor records (§33.12).
func (c *conn) readRecords(ctx context.Context) error {
	s := &c.sensors
	if s.seen == nil {
		s.seen = map[uint16]bool{}
	}
	for lost := 0; !s.complete; {
		raw, next, err := c.readRecord(ctx, s.next)
		if isCode(err, 0xc5) && lost < maxLost { // another client reserved the repository
			lost++
			continue
		}
		if err != nil {
			if ignored := ignoreCode(err); ignored != nil {
				return ignored
			}
			// The ID of the next record is unknown; on most BMCs it is one more.
			if s.skipped++; !wantsShorterRead(err) || s.skipped > maxSkipped {
				s.complete = true
				break
			}
			next = s.next + 1
		}
		if r, ok := parseRecord(raw); ok {
			s.records = append(s.records, r)
		}
		s.seen[s.next] = true
		s.complete = next == 0xffff || s.seen[next] || len(s.seen) >= maxRecords
		s.next = next
	}
	return nil
}

// readRecord reads one record, at once or in pieces, and the ID of the next one. If the BMC
// refuses the pieces too, it returns only the header, which is no sensor.
func (c *conn) readRecord(ctx context.Context, id uint16) (raw []byte, next uint16, _ error) {
	raw, next, err := c.readPiece(ctx, 0, id, 0, 0xff)
	if !wantsShorterRead(err) {
		return raw, next, err
	}
	data, err := c.run(ctx, command{what: "reserve sensor records", netFn: netFnStorage, code: 0x22, minLen: 2})
	if err != nil {
		return nil, 0, err
	}
	reservation := binary.LittleEndian.Uint16(data)
	if raw, next, err = c.readPiece(ctx, reservation, id, 0, recordHeader); err != nil || len(raw) < recordHeader {
		return nil, next, err
	}
	chunk := recordChunk
	for length := recordHeader + int(raw[4]); len(raw) < length; {
		piece, _, err := c.readPiece(ctx, reservation, id, len(raw), min(chunk, length-len(raw)))
		switch {
		case wantsShorterRead(err) && chunk > recordLeast:
			chunk /= 2
			continue
		case wantsShorterRead(err):
			return raw[:recordHeader], next, nil
		case err != nil:
			return nil, 0, err
		}
		if len(piece) == 0 {
			break
		}
		raw = append(raw, piece...)
	}
	return raw, next, nil
}

func (c *conn) readPiece(ctx context.Context, reservation, id uint16, offset, count int) ([]byte, uint16, error) {
	ask := binary.LittleEndian.AppendUint16(nil, reservation)
	ask = binary.LittleEndian.AppendUint16(ask, id)
	data, err := c.run(ctx, command{
		what: "read sensor record", netFn: netFnStorage, code: 0x23, data: append(ask, byte(offset), byte(count)), minLen: 2,
	})
	if err != nil {
		return nil, 0, err
	}
	return append([]byte(nil), data[2:]...), binary.LittleEndian.Uint16(data), nil
}

// parseRecord parses the record of a sensor that the BMC owns (§43.1, §43.2). It returns
// false for other and invalid records.
func parseRecord(raw []byte) (_ sensorRecord, ok bool) {
	defer func() { // go-ipmi panics on wrong lengths
		if recover() != nil {
			ok = false
		}
	}()
	const owner = 5 // offset in all sensor records
	if len(raw) <= owner || raw[owner] != addressBMC {
		return sensorRecord{}, false
	}
	sdr, err := types.ParseSDR(raw, 0)
	if err != nil {
		return sensorRecord{}, false
	}
	switch {
	case sdr.Full != nil:
		full := sdr.Full
		r := sensorRecord{
			number: byte(full.SensorNumber), kind: full.SensorType, name: cleanName(full.IDStringBytes),
			event: full.SensorEventReadingType,
		}
		if full.HasAnalogReading() {
			unit := full.SensorUnit.BaseUnit.String()
			r.convert = func(raw byte) string {
				return strings.TrimSpace(strconv.FormatFloat(full.ConvertReading(raw), 'g', 4, 64) + " " + unit)
			}
		}
		return r, true
	case sdr.Compact != nil:
		compact := sdr.Compact
		return sensorRecord{
			number: byte(compact.SensorNumber), kind: compact.SensorType, name: cleanName(compact.IDStringBytes),
			event: compact.SensorEventReadingType,
		}, true
	}
	return sensorRecord{}, false
}

func cleanName(raw []byte) string { return text(3, raw) }
