// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ignition

import "encoding/json"

// The types hold versions 2.0 to 2.4 and 3.1. Fields that both have with the same meaning are not parsed
// (json.RawMessage). Fields of version 2 only are marked, and empty after the translation.

type config struct {
	Ignition section `json:"ignition"`
	Networkd struct {
		Units []unit `json:"units,omitempty"` // version 2
	} `json:"networkd,omitzero"`
	Passwd struct {
		Users  []user            `json:"users,omitempty"`
		Groups []json.RawMessage `json:"groups,omitempty"`
	} `json:"passwd,omitzero"`
	Storage storage `json:"storage,omitzero"`
	Systemd struct {
		Units []unit `json:"units,omitempty"`
	} `json:"systemd,omitzero"`
}

type section struct {
	Version  string          `json:"version"`
	Config   *references     `json:"config,omitempty"`
	Security json.RawMessage `json:"security,omitempty"`
	Timeouts json.RawMessage `json:"timeouts,omitempty"`
	Proxy    json.RawMessage `json:"proxy,omitempty"`
}

type references struct {
	Append  []json.RawMessage `json:"append,omitempty"` // version 2
	Replace json.RawMessage   `json:"replace,omitempty"`
	Merge   []reference       `json:"merge,omitempty"` // version 3
}

type reference struct {
	Source string `json:"source"`
}

type storage struct {
	Directories []directory       `json:"directories,omitempty"`
	Disks       []disk            `json:"disks,omitempty"`
	Files       []file            `json:"files,omitempty"`
	Filesystems []filesystem      `json:"filesystems,omitempty"`
	Links       []link            `json:"links,omitempty"`
	Raid        []json.RawMessage `json:"raid,omitempty"`
}

// node has the common fields of files, directories and links.
type node struct {
	Filesystem string          `json:"filesystem,omitempty"` // version 2
	Path       string          `json:"path"`
	User       json.RawMessage `json:"user,omitempty"`
	Group      json.RawMessage `json:"group,omitempty"`
	Overwrite  *bool           `json:"overwrite,omitempty"`
}

type directory struct {
	node
	Mode *int `json:"mode,omitempty"`
}

type link struct {
	node
	Hard   bool   `json:"hard,omitempty"`
	Target string `json:"target"`
}

type file struct {
	node
	// Append is a boolean in version 2, which appends Contents to a file, and a list of contents in
	// version 3.
	Append   json.RawMessage `json:"append,omitempty"`
	Contents *contents       `json:"contents,omitempty"`
	Mode     *int            `json:"mode,omitempty"`
}

type contents struct {
	Compression  string          `json:"compression,omitempty"`
	HTTPHeaders  json.RawMessage `json:"httpHeaders,omitempty"`
	Source       string          `json:"source"`
	Verification json.RawMessage `json:"verification,omitempty"`
}

type disk struct {
	Device     string      `json:"device"`
	Partitions []partition `json:"partitions,omitempty"`
	WipeTable  bool        `json:"wipeTable,omitempty"`
}

type partition struct {
	GUID               string  `json:"guid,omitempty"`
	Label              *string `json:"label,omitempty"`
	Number             int     `json:"number,omitempty"`
	ShouldExist        *bool   `json:"shouldExist,omitempty"`
	Size               int     `json:"size,omitempty"` // version 2, in sectors
	SizeMiB            *int    `json:"sizeMiB,omitempty"`
	Start              int     `json:"start,omitempty"` // version 2, in sectors
	StartMiB           *int    `json:"startMiB,omitempty"`
	TypeGUID           string  `json:"typeGuid,omitempty"`
	WipePartitionEntry bool    `json:"wipePartitionEntry,omitempty"`
}

type filesystem struct {
	Name  string `json:"name,omitempty"`  // version 2
	Mount *mount `json:"mount,omitempty"` // version 2
	// Path is the mount point: an existing one in version 2, the one to create in version 3.
	Path *string `json:"path,omitempty"`
	// mount3 is version 3.
	*mount3
}

type mount struct {
	Create json.RawMessage `json:"create,omitempty"`
	mount3
}

type mount3 struct {
	Device         string   `json:"device"`
	Format         string   `json:"format"`
	Label          *string  `json:"label,omitempty"`
	Options        []string `json:"options,omitempty"`
	UUID           *string  `json:"uuid,omitempty"`
	WipeFilesystem bool     `json:"wipeFilesystem,omitempty"`
}

type user struct {
	Create            json.RawMessage `json:"create,omitempty"` // version 2
	Gecos             string          `json:"gecos,omitempty"`
	Groups            []string        `json:"groups,omitempty"`
	HomeDir           string          `json:"homeDir,omitempty"`
	Name              string          `json:"name"`
	NoCreateHome      bool            `json:"noCreateHome,omitempty"`
	NoLogInit         bool            `json:"noLogInit,omitempty"`
	NoUserGroup       bool            `json:"noUserGroup,omitempty"`
	PasswordHash      *string         `json:"passwordHash,omitempty"`
	PrimaryGroup      string          `json:"primaryGroup,omitempty"`
	SSHAuthorizedKeys []string        `json:"sshAuthorizedKeys,omitempty"`
	Shell             string          `json:"shell,omitempty"`
	System            bool            `json:"system,omitempty"`
	UID               *int            `json:"uid,omitempty"`
}

type unit struct {
	Name     string   `json:"name"`
	Enable   bool     `json:"enable,omitempty"` // version 2
	Enabled  *bool    `json:"enabled,omitempty"`
	Mask     bool     `json:"mask,omitempty"`
	Contents string   `json:"contents,omitempty"`
	Dropins  []dropin `json:"dropins,omitempty"`
}

type dropin struct {
	Name     string `json:"name"`
	Contents string `json:"contents,omitempty"`
}
