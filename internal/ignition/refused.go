// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
)

// checkTranslated rejects a translated configuration that is valid in version 2 but not in version 3: the system
// would stop in its initramfs. It is the last step.
func checkTranslated(c *config) error {
	for _, check := range []func(*config) error{checkDuplicates, checkPaths, checkSources} {
		if err := check(c); err != nil {
			return err
		}
	}
	return nil
}

// checkDuplicates: version 3 has one entry per object (ErrDuplicate of its validator).
func checkDuplicates(c *config) error {
	var devices, formatted []string
	for _, d := range c.Storage.Disks {
		devices = append(devices, d.Device)
	}
	for _, f := range c.Storage.Filesystems {
		if f.mount3 != nil {
			formatted = append(formatted, f.Device)
		}
	}
	groups, err := namesOf("group", c.Passwd.Groups)
	if err != nil {
		return err
	}
	arrays, err := namesOf("array", c.Storage.Raid)
	if err != nil {
		return err
	}
	for _, list := range []struct {
		kind string
		keys []string
	}{
		{"disk", devices}, {"file system of device", formatted}, {"group", groups}, {"array", arrays},
	} {
		if err := checkUnique(list.kind, list.keys); err != nil {
			return err
		}
	}
	return nil
}

// checkUnique rejects duplicate keys.
func checkUnique(kind string, keys []string) error {
	seen := map[string]bool{}
	for _, key := range keys {
		if seen[key] {
			return fmt.Errorf("%s %q has two entries", kind, key)
		}
		seen[key] = true
	}
	return nil
}

// namesOf reads the names of entries that are not translated.
func namesOf(kind string, entries []json.RawMessage) (names []string, _ error) {
	for i, raw := range entries {
		var entry struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(raw, &entry); err != nil { // the error may quote the data
			return nil, fmt.Errorf("%s %d has no name", kind, i)
		}
		names = append(names, entry.Name)
	}
	return names, nil
}

// checkPaths: a path is one file, directory or link, and no path leads through a link.
func checkPaths(c *config) error {
	var all, through, directories []string
	for _, f := range c.Storage.Files {
		if ptr.Deref(f.Overwrite, false) && f.Contents == nil {
			return fmt.Errorf("%s has append and overwrite", f.Path)
		}
		all = append(all, f.Path)
	}
	for _, d := range c.Storage.Directories {
		all, directories = append(all, d.Path), append(directories, d.Path)
	}
	for _, l := range c.Storage.Links {
		all, through = append(all, l.Path), append(through, l.Path+"/")
	}
	if err := checkUnique("path", all); err != nil {
		return err
	}
	for _, p := range all {
		if at := slices.IndexFunc(through, func(link string) bool { return strings.HasPrefix(p, link) }); at >= 0 {
			return fmt.Errorf("%s leads through the link %s", p, strings.TrimSuffix(through[at], "/"))
		}
	}
	for _, l := range c.Storage.Links {
		target := path.Clean(l.Target)
		if !path.IsAbs(target) {
			target = path.Join(l.Path, l.Target) // as in Ignition's validator
		}
		if l.Hard && slices.Contains(directories, target) {
			return fmt.Errorf("%s is a hard link to a directory", l.Path)
		}
	}
	return nil
}

// checkSources: only version 2 has the scheme "oem", which names a file of the image.
func checkSources(c *config) error {
	for _, f := range c.Storage.Files {
		var list []*contents
		if f.Append != nil {
			if err := json.Unmarshal(f.Append, &list); err != nil {
				return fmt.Errorf("%s: append: %w", f.Path, err)
			}
		}
		for _, from := range append(list, f.Contents) {
			if from == nil {
				continue
			}
			address, err := url.Parse(from.Source) // whose error quotes it
			if err != nil {
				return fmt.Errorf("%s: its source is not a URL", f.Path)
			}
			if !slices.Contains([]string{"http", "https", "tftp", "s3", "data"}, address.Scheme) {
				return fmt.Errorf("%s: its source has the unsupported scheme %.20q", f.Path, address.Scheme)
			}
		}
	}
	return nil
}
