// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/bmc"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestGUID(t *testing.T) {
	const uuid = "9f3b8a52-0c1d-4e6f-8a7b-112233445566"
	for _, tc := range []struct{ name, raw, want string }{
		{"SMBIOS", "528a3b9f1d0c6f4e8a7b112233445566", uuid},
		{"RFC 4122", "9f3b8a520c1d4e6f8a7b112233445566", uuid},
		{"IPMI, reversed", "6655443322117b8a6f4e1d0c528a3b9f", uuid},
		{"no version, like SMBIOS", "00112233445566778899aabbccddeeff", "33221100-5544-7766-8899-aabbccddeeff"},
		{"zeroes", "00000000000000000000000000000000", ""},
		{"ones", "ffffffffffffffffffffffffffffffff", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := parseGUID([16]byte(unhex(t, tc.raw))); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestTexts(t *testing.T) {
	for _, tc := range []struct {
		name string
		kind byte
		raw  []byte
		want string
	}{
		{"binary", 0, []byte{1, 2}, ""},
		{"BCD plus", 1, []byte{0x12, 0x3b, 0x4c}, "123-4."},
		{"six bits", 2, []byte{0x29, 0xdc, 0xa6}, "IPMI"}, // the example of §13
		{"Latin 1", 3, []byte("Ser 1\x00\xff\n "), "Ser 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := text(tc.kind, tc.raw); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestFRU shows the precedence of the areas.
func TestFRU(t *testing.T) {
	chassis, board, product := []string{"part", "C1"}, []string{"BoardCo", "BX", "B1"}, []string{"Co", "X1", "", "", "P1"}
	for _, tc := range []struct {
		name string
		fru  fru
		want [3]string
	}{
		{"all", fru{chassis, board, product}, [3]string{"P1", "Co", "X1"}},
		{"no product", fru{chassis: chassis, board: board}, [3]string{"C1", "BoardCo", "BX"}},
		{"board only", fru{board: board}, [3]string{"B1", "BoardCo", "BX"}},
		{"none", fru{}, [3]string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, [3]string{tc.fru.serial(), tc.fru.manufacturer(), tc.fru.model()}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSuites(t *testing.T) {
	// The list of ipmi_sim and one vendor suite.
	list := unhex(t, "c0000040"+"80c001014080"+"c002014180"+"c003014181"+"c1117f00020304"+"c011034481")
	if diff := cmp.Diff([]int{0, 1, 2, 3, 17}, parseSuites(list)); diff != "" {
		t.Errorf("suites (-want +got):\n%s", diff)
	}
}

// TestAnswerOutsideOfSessions parses the answer to Get Channel Cipher Suites in the form of
// IPMI v1.5, and in that of v2.0 from pyghmi's server (serversession.py, send_cipher_suites).
func TestAnswerOutsideOfSessions(t *testing.T) {
	const message = "811c6320085400" + "01c003014181" + "fd"
	for name, packet := range map[string]string{
		"v1.5": "0600ff07" + "00" + "00000000" + "00000000" + "0e" + message,
		"v2.0": "0600ff07" + "0600" + "00000000" + "00000000" + "0e00" + message,
	} {
		got, err := parse15(unhex(t, packet))
		want := answer{netFn: netFnApp | 1, command: 0x54, sequence: 2, data: unhex(t, "01c003014181")}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestMessage packs Chassis Control, power on (IPMI v2.0 §13.8, §28.3).
func TestMessage(t *testing.T) {
	if got := hex.EncodeToString(message(netFnChassis, 0x02, 5, []byte{controlOn})); got != "2000e08114020168" {
		t.Errorf("message %s", got)
	}
}

func TestBootFlags(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags flags
		want  bmc.BootOverride
		err   error
	}{
		{"not valid", flags{0x60, 0x04}, bmc.BootOverride{Target: bmc.BootNone}, nil},
		{"PXE once, UEFI", flags{0xa0, 0x04}, bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.ModeUEFI}, nil},
		{"disk persistently, BIOS", flags{0xc0, 0x08}, bmc.BootOverride{Target: bmc.BootDisk, Mode: bmc.ModeBIOS, Persistent: true}, nil},
		{"remote CD", flags{0xa0, 0x20}, bmc.BootOverride{Target: bmc.BootCD, Mode: bmc.ModeUEFI}, nil},
		{"none, persistent", flags{0xe0, 0x00}, bmc.BootOverride{Target: bmc.BootNone, Mode: bmc.ModeUEFI}, nil},
		{"diagnostics", flags{0x80, 0x10}, bmc.BootOverride{Target: bmc.BootNone, Mode: bmc.ModeBIOS}, bmc.ErrProtocol},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.flags.override()
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.err) {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestSensorStates(t *testing.T) {
	fan := sensorRecord{kind: types.SensorTypeFan, name: "F", event: types.EventReadingTypeThreshold}
	supply := sensorRecord{kind: types.SensorTypePowerSupply, name: "P", event: types.EventReadingTypeSensorSpecific}
	for _, tc := range []struct {
		name   string
		record sensorRecord
		data   []byte
		want   bmc.HealthState
		ok     bool
	}{
		{"OK", fan, []byte{9, 0xc0, 0xc0}, bmc.HealthOK, true},
		{"noncritical", fan, []byte{9, 0xc0, 0x08}, bmc.HealthWarning, true},
		{"critical", fan, []byte{9, 0xc0, 0x13}, bmc.HealthCritical, true},
		{"not scanned", fan, []byte{9, 0x80, 0x13}, "", false},
		{"unavailable", fan, []byte{9, 0xe0, 0x13}, "", false},
		{"supply present", supply, []byte{0, 0xc0, 0x01, 0x80}, bmc.HealthOK, true},
		{"supply failed", supply, []byte{0, 0xc0, 0x03, 0x80}, bmc.HealthCritical, true},
		{"supply failure predicted", supply, []byte{0, 0xc0, 0x05, 0x80}, bmc.HealthWarning, true},
		{"type without fault bits", sensorRecord{kind: 0x1f, event: types.EventReadingTypeSensorSpecific}, []byte{0, 0xc0, 1}, bmc.HealthOK, false},
		{"digital state", sensorRecord{kind: types.SensorTypeProcessor, event: types.EventReadingTypeState}, []byte{0, 0xc0, 1}, "", false},
		{"redundant memory", sensorRecord{kind: types.SensorTypeMemory, event: 0x0b}, []byte{0, 0xc0, 1}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := tc.record.component(tc.data)
			if ok != tc.ok || (ok && got.State != tc.want) {
				t.Errorf("%+v %v, want %s %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestLogEntry(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		want      bmc.LogEntry
	}{
		{"fan below its critical limit", "010002000000602000040402015200" + "00", bmc.LogEntry{
			ID: "1", Severity: bmc.HealthCritical, Created: time.Unix(0x60000000, 0).UTC(),
			Message: "Fan sensor 2: Lower Critical - going low",
		}},
		{"before the clock was set", "0200" + "02" + "10000000" + "2000" + "04" + "04" + "02" + "01" + "520000", bmc.LogEntry{
			ID: "2", Severity: bmc.HealthCritical, Message: "Fan sensor 2: Lower Critical - going low",
		}},
		{"OEM record", "0300" + "e1" + "00112233445566778899aabbcc", bmc.LogEntry{
			ID: "3", Severity: bmc.HealthOK, Message: "record e100112233445566778899aabbcc",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, parseEntry(unhex(t, tc.raw))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
