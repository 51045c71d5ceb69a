// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
)

// translatedVersion is the oldest version 3 with all features of version 2.4 (HTTP headers, proxies).
const translatedVersion = "3.1.0"

// translate translates versions 2.0 to 2.4 to 3.1. Version 2 applies several entries for one object in
// order, as "additionalConfig" of a KubeadmConfig creates them; version 3 has one entry.
func translate(data []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields() // nothing may be lost
	c := &config{}
	if err := decoder.Decode(c); err != nil {
		return nil, fmt.Errorf("%w: version 2: %w", ErrConfig, withoutValue(err))
	}
	for _, step := range []func(*config) error{
		translateHead, translateFilesystems, translateDisks, translateFiles, translateLinks, translateUsers, translateUnits, checkTranslated,
	} {
		if err := step(c); err != nil {
			return nil, fmt.Errorf("%w: %w; write the configuration in version 3", ErrConfig, err)
		}
	}
	return json.Marshal(c)
}

// withoutValue returns the decoder's error without values of the configuration. The error about an unknown
// field contains its name only.
func withoutValue(err error) error {
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		return fmt.Errorf("%s is not of type %s", wrong.Field, wrong.Type)
	}
	return err
}

func translateHead(c *config) error {
	if refs := c.Ignition.Config; refs != nil {
		if len(refs.Append) > 0 || !isEmpty(refs.Replace) {
			return fmt.Errorf("ignition.config names other configurations, which cannot be translated")
		}
		if len(refs.Merge) > 0 {
			return fmt.Errorf("ignition.config.merge does not exist in version 2")
		}
	}
	c.Ignition.Version, c.Ignition.Config = translatedVersion, nil
	return nil
}

// isEmpty reports whether a value is missing, null or an empty object.
func isEmpty(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", "{}"}, string(bytes.TrimSpace(raw)))
}

func translateFilesystems(c *config) error {
	for i := range c.Storage.Filesystems {
		f := &c.Storage.Filesystems[i]
		switch {
		case f.mount3 != nil || f.Mount == nil:
			return fmt.Errorf("file system %q has no mount", f.Name)
		case f.Path != nil:
			return fmt.Errorf("file system %q has mount and path", f.Name)
		case !isEmpty(f.Mount.Create):
			return fmt.Errorf("file system %q has mount.create", f.Name)
		}
		f.mount3, f.Name, f.Mount = &f.Mount.mount3, "", nil
	}
	return nil
}

func translateDisks(c *config) error {
	for i := range c.Storage.Disks {
		d := &c.Storage.Disks[i]
		taken := map[int]bool{}
		for _, p := range d.Partitions {
			if p.Number != 0 && taken[p.Number] {
				return fmt.Errorf("disk %s: partition number %d has two entries", d.Device, p.Number)
			}
			taken[p.Number] = true
		}
		for j := range d.Partitions {
			p := &d.Partitions[j]
			if p.Size != 0 || p.Start != 0 {
				return fmt.Errorf("disk %s: partition %d has size or start in sectors instead of sizeMiB and startMiB", d.Device, j)
			}
			if p.Number != 0 {
				continue
			}
			// Both versions use the next free number; version 3 finds the partition by its label.
			number := 1
			for taken[number] {
				number++
			}
			taken[number] = true
			if p.Label != nil {
				continue
			}
			if !d.WipeTable {
				return fmt.Errorf("disk %s: partition %d has neither number nor label", d.Device, j)
			}
			p.Number = number
		}
	}
	return nil
}

// toRoot removes the file system of a node: paths of version 3 are those of the system, without "//", "."
// or "..".
func toRoot(n *node) error {
	if n.Filesystem != "root" {
		return fmt.Errorf("%s is on file system %q, not on root", n.Path, n.Filesystem)
	}
	if !path.IsAbs(n.Path) {
		return fmt.Errorf("%s is not an absolute path", n.Path)
	}
	n.Filesystem, n.Path = "", path.Clean(n.Path)
	return nil
}

func translateFiles(c *config) error {
	var out []file
	for _, f := range c.Storage.Files {
		if err := toRoot(&f.node); err != nil {
			return err
		}
		if f.Contents == nil {
			f.Contents = &contents{}
		}
		if f.Contents.Source == "" { // an empty file
			f.Contents.Source = "data:,"
		}
		appends := string(f.Append) == "true"
		f.Append = nil
		at := slices.IndexFunc(out, func(o file) bool { return o.Path == f.Path })
		switch {
		case appends && at < 0:
			out = append(out, file{node: f.node, Mode: f.Mode})
			at = len(out) - 1
			fallthrough
		case appends:
			if err := appendTo(&out[at], f); err != nil {
				return err
			}
		default:
			if f.Overwrite == nil { // the default of version 2
				f.Overwrite = new(true)
			}
			if at >= 0 {
				out = slices.Delete(out, at, at+1)
			}
			out = append(out, f)
		}
	}
	c.Storage.Files = out
	return nil
}

// appendTo appends the contents of f to a file.
func appendTo(to *file, f file) error {
	var list []*contents
	if to.Append != nil {
		if err := json.Unmarshal(to.Append, &list); err != nil {
			return fmt.Errorf("%s: append: %w", f.Path, err)
		}
	}
	raw, err := json.Marshal(append(list, f.Contents))
	if f.Mode != nil {
		to.Mode = f.Mode
	}
	to.Append = raw
	return err
}

// translateLinks translates directories and links.
func translateLinks(c *config) error {
	for i := range c.Storage.Directories {
		if err := toRoot(&c.Storage.Directories[i].node); err != nil {
			return err
		}
	}
	for i := range c.Storage.Links {
		if err := toRoot(&c.Storage.Links[i].node); err != nil {
			return err
		}
	}
	return nil
}

func translateUsers(c *config) error {
	var out []user
	for _, u := range c.Passwd.Users {
		if !isEmpty(u.Create) {
			return fmt.Errorf("user %q has create", u.Name)
		}
		u.Create = nil
		u.Groups, u.SSHAuthorizedKeys = unique(u.Groups), unique(u.SSHAuthorizedKeys)
		if slices.ContainsFunc(out, func(o user) bool { return o.Name == u.Name }) {
			return fmt.Errorf("user %q has two entries", u.Name)
		}
		out = append(out, u)
	}
	c.Passwd.Users = out
	return nil
}

// unique removes duplicates, which version 2 allows.
func unique(list []string) (out []string) {
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func translateUnits(c *config) error {
	var out []unit
	for _, u := range c.Systemd.Units {
		if u.Enable {
			u.Enabled, u.Enable = new(true), false
		}
		at := slices.IndexFunc(out, func(o unit) bool { return o.Name == u.Name })
		if at < 0 {
			at, out = len(out), append(out, unit{Name: u.Name})
		}
		out[at].merge(u)
	}
	c.Systemd.Units = out
	const dir = "/etc/systemd/network"
	for _, u := range c.Networkd.Units {
		if u.Contents != "" {
			c.Storage.Files = append(c.Storage.Files, newFile(path.Join(dir, path.Base(u.Name)), 0o644, u.Contents))
		}
		for _, d := range u.Dropins {
			c.Storage.Files = append(c.Storage.Files, newFile(path.Join(dir, path.Base(u.Name)+".d", path.Base(d.Name)), 0o644, d.Contents))
		}
	}
	c.Networkd.Units = nil
	return nil
}

// merge merges a later entry for the unit, which wins.
func (u *unit) merge(later unit) {
	if later.Contents != "" {
		u.Contents = later.Contents
	}
	if later.Enabled != nil {
		u.Enabled = later.Enabled
	}
	u.Mask = u.Mask || later.Mask
	for _, d := range later.Dropins {
		u.Dropins = slices.DeleteFunc(u.Dropins, func(o dropin) bool { return o.Name == d.Name })
		u.Dropins = append(u.Dropins, d)
	}
}
