// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// tree contains the files of Debian packages by absolute path, and the targets of symbolic links.
type tree struct {
	files map[string][]byte
	links map[string]string
}

func newTree() tree { return tree{files: map[string][]byte{}, links: map[string]string{}} }

// readTree reads the files and links of a tar archive.
func readTree(archive io.Reader) (tree, error) {
	t := newTree()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		name := path.Join("/", header.Name)
		switch header.Typeflag {
		case tar.TypeSymlink:
			t.links[name] = header.Linkname
		case tar.TypeLink:
			t.files[name] = t.files[path.Join("/", header.Linkname)]
		case tar.TypeReg:
			if t.files[name], err = io.ReadAll(r); err != nil {
				return t, fmt.Errorf("read %s: %w", name, err)
			}
		}
	}
}

// libraryDirs are the directories of Debian's dynamic linker on amd64.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/lib", "/usr/lib"}

// closure returns the part of a tree that programs and libraries need to run: the files
// themselves, the dynamic linker, all libraries, and the links to them.
func closure(from tree, names ...string) (tree, error) {
	part, todo := newTree(), slices.Clone(names)
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if target, ok := from.links[name]; ok {
			if _, done := part.links[name]; !done {
				part.links[name] = target
				todo = append(todo, resolve(name, target))
			}
			continue
		}
		if _, done := part.files[name]; done {
			continue
		}
		content, ok := from.files[name]
		if !ok {
			return part, fmt.Errorf("no file %s in the packages", name)
		}
		part.files[name] = content
		needed, err := needs(content)
		if err != nil {
			return part, fmt.Errorf("read %s: %w", name, err)
		}
		for _, library := range needed {
			found, err := from.find(library)
			if err != nil {
				return part, fmt.Errorf("%s needs %s: %w", name, library, err)
			}
			todo = append(todo, found)
		}
	}
	return part, nil
}

func resolve(link, target string) string {
	if path.IsAbs(target) {
		return path.Clean(target)
	}
	return path.Join(path.Dir(link), target)
}

// needs returns the dynamic linker and the libraries of an ELF file, or nil for another file.
func needs(content []byte) ([]string, error) {
	if !bytes.HasPrefix(content, []byte(elf.ELFMAG)) {
		return nil, nil
	}
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	if section := f.Section(".interp"); section != nil {
		interpreter, err := section.Data()
		if err != nil {
			return nil, err
		}
		needed = append(needed, strings.TrimRight(string(interpreter), "\x00"))
	}
	return needed, nil
}

// find returns a library by name or path.
func (t tree) find(library string) (string, error) {
	candidates := []string{library}
	if !path.IsAbs(library) {
		candidates = nil
		for _, dir := range libraryDirs {
			candidates = append(candidates, path.Join(dir, library))
		}
	}
	for _, name := range candidates {
		if _, ok := t.files[name]; ok {
			return name, nil
		}
		if _, ok := t.links[name]; ok {
			return name, nil
		}
	}
	return "", errors.New("it is in none of the packages")
}

// below returns the sorted files and links in a directory whose names have a suffix.
func (t tree) below(dir, suffix string) []string {
	var found []string
	for _, name := range slices.AppendSeq(slices.Collect(maps.Keys(t.files)), maps.Keys(t.links)) {
		if path.Dir(name) == dir && strings.HasSuffix(name, suffix) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}
