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

// ErrConfig says that no Ignition of version 3 can be given the data.
var ErrConfig = errors.New("the Ignition configuration cannot be used")

// Where the system finds what Ingot tells it.
const (
	// MetadataFile has lines NAME=value, as EnvironmentFile= of systemd and a shell
	// read them. It holds no secret.
	MetadataFile = "/etc/ingot/metadata"
	hostnameFile = "/etc/hostname"
	scriptFile   = "/var/lib/ingot/seed.sh"
	scriptUnit   = "ingot-seed.service"
)

// Additions are what Ingot tells the system of itself.
type Additions struct {
	// Hostname of the system; empty: the data's, or the system's own.
	Hostname string
	// Metadata are the names and values of MetadataFile.
	Metadata map[string]string
	// Script runs once, as root, late in the first boot, and is then removed; it holds
	// secrets. Empty: none.
	Script string
}

func (a Additions) none() bool { return a.Hostname == "" && len(a.Metadata) == 0 && a.Script == "" }

// wrapperVersion is the oldest that all of the wrapper is in; the data keeps its own.
const wrapperVersion = "3.0.0"

// Config makes version 3 of the data of a bootstrap Secret, JSON of version 2 or 3
// (Ignition's configuration specifications), and wraps it where there is something to add.
// Any error is ErrConfig.
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
		return nil, fmt.Errorf("%w: its ignition.version is %.20q, and Ingot knows 2 and 3", ErrConfig, version)
	}
	if add.none() {
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

// versionOf reads no more than the version.
func versionOf(data []byte) (string, error) {
	var head struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		// The error of the decoder may quote the data.
		return "", fmt.Errorf("%w: it is not JSON with an ignition.version (Butane and Container Linux Configs are to be transpiled)", ErrConfig)
	}
	return head.Ignition.Version, nil
}

// add appends Ingot's own part.
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

// seedUnit runs the script, which it removes; without it it does nothing any more.
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

// dataURL is RFC 2397's.
func dataURL(b []byte) string { return "data:;base64," + base64.StdEncoding.EncodeToString(b) }
