// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc"
)

// SimProgram is OpenIPMI's simulator (Debian package openipmi).
const SimProgram = "ipmi_sim"

// SimConfig describes an ipmi_sim. It supports cipher suites only up to 3, stores only the device
// of the boot flags, and starts powered off.
type SimConfig struct {
	// Dir is an empty directory for its files. Required.
	Dir string
	// Username and Password of the only account, an administrator. Required.
	Username, Password string
	// System is the reported system: UUID, serial, manufacturer and model.
	System  bmc.System
	Sensors []Sensor
	// ConsoleAddress is host:port of a TCP server that is the serial line; empty: none.
	ConsoleAddress string
}

// Sim is a running ipmi_sim.
type Sim struct {
	dir     string
	address string
	process *exec.Cmd
	output  *os.File
	close   sync.Once
	ended   chan struct{}
}

// script is ipmi_sim's chassis control. It stores the power state and the boot device in files and
// logs the requests. A boot uses up the override.
const script = `#!/bin/sh
dir=$(dirname "$0")
shift
boots() { cat "$dir/boot" >>"$dir/boots"; echo default >"$dir/boot"; }
case "$1 $2" in
"get power") echo "power:$(cat "$dir/power")" ;;
"get boot") echo "boot:$(cat "$dir/boot")" ;;
"set power")
	if [ "$3" = 1 ] && [ "$(cat "$dir/power")" = 0 ]; then boots; fi
	echo "$3" >"$dir/power" ;;
"set reset") if [ "$(cat "$dir/power")" = 1 ]; then boots; fi ;;
"set shutdown") echo 0 >"$dir/power" ;;
"set boot") echo "$3" >"$dir/boot" ;;
esac
case "$1" in set) echo "$*" >>"$dir/log" ;; esac
exit 0
`

// StartSim starts an ipmi_sim on a free port of 127.0.0.1 and waits until it answers. Close stops
// it.
func StartSim(cfg SimConfig) (*Sim, error) {
	if strings.ContainsAny(cfg.Username+cfg.Password, "\"\n") {
		return nil, errors.New("start ipmi_sim: its configuration cannot contain quotes or line breaks")
	}
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("start ipmi_sim: %w", err)
	}
	guid, err := guidBytes(cfg.System.UUID)
	if err != nil {
		return nil, fmt.Errorf("start ipmi_sim: %w", err)
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("start ipmi_sim: %w", err)
	}
	s := &Sim{dir: dir, address: fmt.Sprintf("127.0.0.1:%d", port), ended: make(chan struct{})}
	for _, f := range []struct {
		name, text string
		mode       os.FileMode
	}{
		{"lan.conf", cfg.lan(s.path("control"), port, guid), 0o600},
		{"commands", cfg.commands(), 0o600},
		{"control", script, 0o700},
		{"power", "0\n", 0o600},
		{"boot", "default\n", 0o600},
	} {
		if err := os.WriteFile(s.path(f.name), []byte(f.text), f.mode); err != nil {
			return nil, fmt.Errorf("start ipmi_sim: %w", err)
		}
	}
	if err := os.Mkdir(s.path("state"), 0o700); err != nil {
		return nil, fmt.Errorf("start ipmi_sim: %w", err)
	}
	if s.output, err = os.Create(s.path("output")); err != nil {
		return nil, fmt.Errorf("start ipmi_sim: %w", err)
	}
	s.process = exec.Command(SimProgram, "-n", "-c", s.path("lan.conf"), "-f", s.path("commands"), "-s", s.path("state"))
	s.process.Stdout, s.process.Stderr = s.output, s.output
	if err := s.process.Start(); err != nil {
		_ = s.output.Close()
		return nil, fmt.Errorf("start ipmi_sim (Debian package openipmi): %w", err)
	}
	go func() {
		defer close(s.ended)
		_ = s.process.Wait()
	}()
	if err := s.await(); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// lan returns the file for option -c (ipmi_lan(5)).
func (cfg SimConfig) lan(control string, port int, guid [16]byte) string {
	console := ""
	if host, p, err := net.SplitHostPort(cfg.ConsoleAddress); err == nil {
		console = fmt.Sprintf("sol \"tcp:%s:%s\" 115200\n", host, p)
	}
	return fmt.Sprintf(`name "lab"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 %d
  priv_limit admin
  allowed_auths_callback none md2 md5 straight
  allowed_auths_user none md2 md5 straight
  allowed_auths_operator none md2 md5 straight
  allowed_auths_admin none md2 md5 straight
  guid %x
endlan
chassis_control "%s 0x20"
%suser 1 false "" "" user 10 none
user 2 true "%s" "%s" admin 10 none md2 md5 straight
`, port, guid, control, console, cfg.Username, cfg.Password)
}

// commands returns the file for option -f (ipmi_sim_cmd(5)).
func (cfg SimConfig) commands() string {
	var b strings.Builder
	b.WriteString("mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 1 2 0x9f 0x1291 0xf02\n")
	b.WriteString("sel_enable 0x20 1000 0x0a\n")
	for i, s := range cfg.Sensors {
		fmt.Fprintf(&b, "sensor_add 0x20 0 %d %d 1\n", s.Number, s.Type)
		fmt.Fprintf(&b, "sensor_set_threshold 0x20 0 %d readable 111111 0xff 0xff 0xff 0 0 0\n", s.Number)
		none := strings.Repeat(" 000000000000000", 4)
		fmt.Fprintf(&b, "sensor_set_event_support 0x20 0 %d enable scanning per-state%s\n", s.Number, none)
		fmt.Fprintf(&b, "sensor_set_value 0x20 0 %d %d 0\n", s.Number, s.Value)
		for bit := range 6 {
			if s.States>>bit&1 != 0 {
				fmt.Fprintf(&b, "sensor_set_bit 0x20 0 %d %d 1 0\n", s.Number, bit)
			}
		}
		fmt.Fprintf(&b, "main_sdr_add 0x20%s\n", spaced(s.record(uint16(i+1))))
	}
	image := fruImage(cfg.System)
	fmt.Fprintf(&b, "mc_add_fru_data 0x20 0 %d data%s\n", len(image), spaced(image))
	b.WriteString("mc_enable 0x20\n")
	return b.String()
}

func spaced(p []byte) string {
	var b strings.Builder
	for _, x := range p {
		fmt.Fprintf(&b, " 0x%02x", x)
	}
	return b.String()
}

// await waits at most ten seconds until the BMC answers an RMCP presence ping (ASF 2.0 §3.2.4.2).
func (s *Sim) await() error {
	conn, err := net.Dial("udp", s.address)
	if err != nil {
		return fmt.Errorf("start ipmi_sim: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ping := []byte{6, 0, 0xff, 6, 0, 0, 0x11, 0xbe, 0x80, 0, 0, 0}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		_, _ = conn.Write(ping)
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 64)); err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("start ipmi_sim: the process has ended: %s", s.read("output"))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("start ipmi_sim: no answer: %s", s.read("output"))
}

func freePort() (int, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	port := conn.LocalAddr().(*net.UDPAddr).Port
	return port, conn.Close()
}

// Address returns ipmi://127.0.0.1:port.
func (s *Sim) Address() string { return "ipmi://" + s.address }

func (s *Sim) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Sim) read(name string) string {
	data, _ := os.ReadFile(s.path(name)) // does not exist before the first action
	return string(data)
}

// Powered reports whether the server is on.
func (s *Sim) Powered() bool { return strings.TrimSpace(s.read("power")) == "1" }

// Boots returns the source of each boot so far, as ipmi_sim names it: "pxe", "default" and so on.
func (s *Sim) Boots() []string { return strings.Fields(s.read("boots")) }

// Log returns the BMC's actions on the server, one call of the script per line: "set power 1".
func (s *Sim) Log() []string {
	return strings.FieldsFunc(s.read("log"), func(r rune) bool { return r == '\n' })
}

// Close ends the process.
func (s *Sim) Close() error {
	s.close.Do(func() {
		_ = s.process.Process.Kill()
		<-s.ended
		_ = s.output.Close()
	})
	return nil
}
