// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrConfig means that the data cannot become a version 3 configuration.
var ErrConfig = errors.New("the Ignition configuration cannot be used")

// Paths on the installed system.
const (
	// MetadataFile has lines NAME=value for EnvironmentFile= of systemd or a shell. It holds no secret.
	MetadataFile = "/etc/ingot/metadata"
	hostnameFile = "/etc/hostname"
	scriptFile   = "/var/lib/ingot/seed.sh"
	scriptUnit   = "ingot-seed.service"
)

// Additions are Ingot's additions to a configuration.
type Additions struct {
	// Hostname is the host name; empty: that of the data, or the system's default.
	Hostname string
	// Metadata is the content of MetadataFile.
	Metadata map[string]string
	// Script runs once as root, late in the first boot, and is then removed. It holds secrets.
	// Empty: there is no script.
	Script string
}

func (a Additions) isEmpty() bool { return a.Hostname == "" && len(a.Metadata) == 0 && a.Script == "" }

// wrapperVersion is the oldest version that supports the wrapper. The data keeps its own version.
const wrapperVersion = "3.0.0"

// Config returns a version 3 configuration from the data of a bootstrap Secret, JSON of version 2 or 3 of
// Ignition's specification. It adds a wrapper if there are additions. Its errors are ErrConfig.
func Config(data []byte, add Additions) ([]byte, error) {
	version, err := versionOf(data)
	if err != nil {
		return nil, err
	}
	switch major, _, _ := strings.Cut(version, "."); major {
	case "3":
	case "2":
		if data, err = translate(data); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: ignition.version %.20q is not supported, only 2 and 3 are", ErrConfig, version)
	}
	if add.isEmpty() {
		return data, nil
	}
	out := config{Ignition: section{Version: wrapperVersion}}
	out.Ignition.Config = &references{Merge: []reference{{Source: dataURL(data)}}}
	out.add(add)
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return b, nil
}

// versionOf returns ignition.version.
func versionOf(data []byte) (string, error) {
	var head struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		// The decoder's error may quote the data.
		return "", fmt.Errorf("%w: it is not JSON with an ignition.version (transpile Butane and Container Linux Configs)", ErrConfig)
	}
	return head.Ignition.Version, nil
}

// add appends the additions.
func (c *config) add(a Additions) {
	if a.Hostname != "" {
		c.Storage.Files = append(c.Storage.Files, newFile(hostnameFile, 0o644, a.Hostname+"\n"))
	}
	if len(a.Metadata) > 0 {
		var lines strings.Builder
		for _, name := range slices.Sorted(maps.Keys(a.Metadata)) {
			fmt.Fprintf(&lines, "%s=%s\n", name, a.Metadata[name])
		}
		c.Storage.Files = append(c.Storage.Files, newFile(MetadataFile, 0o644, lines.String()))
	}
	if a.Script != "" {
		enabled := true
		c.Storage.Files = append(c.Storage.Files, newFile(scriptFile, 0o600, a.Script))
		c.Systemd.Units = append(c.Systemd.Units, unit{Name: scriptUnit, Enabled: &enabled, Contents: seedUnit})
	}
}

// seedUnit runs and removes the script. Without the script it does nothing.
const seedUnit = `[Unit]
Description=Set up the report of the first boot to Ingot
ConditionPathExists=` + scriptFile + `

[Service]
Type=oneshot
ExecStart=/bin/sh ` + scriptFile + `
ExecStartPost=/bin/rm -f ` + scriptFile + `

[Install]
WantedBy=multi-user.target
`

func newFile(path string, mode int, content string) file {
	overwrite := true
	return file{
		node: node{Path: path, Overwrite: &overwrite}, Mode: &mode,
		Contents: &contents{Source: dataURL([]byte(content))},
	}
}

// dataURL returns a data URL (RFC 2397).
func dataURL(b []byte) string { return "data:;base64," + base64.StdEncoding.EncodeToString(b) }
