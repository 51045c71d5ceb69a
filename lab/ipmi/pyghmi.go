// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// PyghmiModule is the directory of pyghmi (Debian package python3-pyghmi).
const PyghmiModule = "/usr/lib/python3/dist-packages/pyghmi"

//go:embed pyghmi.py
var pyghmiScript string

// Pyghmi is a BMC process with pyghmi's server, as in VirtualBMC. It always answers Open Session
// with the algorithms of cipher suite 3, and lists the cipher suites in a packet of the form of IPMI
// v2.0. It supports power, boot device and few other commands. Of the boot flags it stores only the
// device, until it is changed.
type Pyghmi struct {
	address, log string
	process      *exec.Cmd
	close        sync.Once
	ended        chan struct{}
}

// StartPyghmi starts a BMC on a free port of 127.0.0.1, with its log in dir. Close stops it.
func StartPyghmi(dir, username, password string) (*Pyghmi, error) {
	if strings.ContainsAny(username+password, "\n") {
		return nil, errors.New("start pyghmi: a line break in the credentials")
	}
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("start pyghmi: %w", err)
	}
	p := &Pyghmi{address: fmt.Sprintf("ipmi://127.0.0.1:%d", port), log: filepath.Join(dir, "log"), ended: make(chan struct{})}
	p.process = exec.Command("/usr/bin/python3", "-c", pyghmiScript, strconv.Itoa(port), p.log)
	p.process.Stdin = strings.NewReader(username + "\n" + password + "\n")
	var output strings.Builder
	p.process.Stderr = &output
	out, err := p.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start pyghmi: %w", err)
	}
	if err := p.process.Start(); err != nil {
		return nil, fmt.Errorf("start pyghmi: %w", err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	go func() {
		defer close(p.ended)
		_, _ = io.Copy(io.Discard, lines)
		_ = p.process.Wait()
	}()
	if err != nil || first != "ready\n" {
		_ = p.Close()
		return nil, fmt.Errorf("start pyghmi (Debian package python3-pyghmi): %w: %s", err, output.String())
	}
	return p, nil
}

// Address returns ipmi://127.0.0.1:port.
func (p *Pyghmi) Address() string { return p.address }

// Log returns the BMC's actions on the server: "power on", "boot network", and "boots network" for
// each start.
func (p *Pyghmi) Log() []string {
	text, _ := os.ReadFile(p.log) // does not exist before the first action
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// Close ends the process.
func (p *Pyghmi) Close() error {
	p.close.Do(func() {
		_ = p.process.Process.Kill()
		<-p.ended
	})
	return nil
}
