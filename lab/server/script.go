// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// bootImage is the result of a script.
type bootImage struct {
	// commandLine of the kernel; it may hold a token.
	commandLine string
	initrds     []string
	// chain is the script to continue with; nil: boot.
	chain *chained
}

// chained is a script with its location.
type chained struct{ location, text string }

// interpreter runs the subset of iPXE's script language that boot scripts use: labels, goto, echo,
// iseq, isset, kernel, initrd, imgfree, sleep, boot, chain, sanboot, dhcp and exit, joined by ||
// and &&.
type interpreter struct {
	variables map[string]string
	// load fetches a file.
	load func(ctx context.Context, uri string) error
	// script fetches a script.
	script func(ctx context.Context, uri string) (*chained, error)
	// pause replaces every sleep of a script.
	pause time.Duration

	image  bootImage
	kernel string
	// done means that the script has ended with boot or chain. jump is the label of a goto.
	done bool
	jump string
}

// maxSteps bounds a script with an endless loop.
const maxSteps = 10_000

// errCommand reports a failed command, which || may handle.
var errCommand = errors.New("command failed")

// run returns the image to boot, or errExit for the next boot device.
func (in *interpreter) run(ctx context.Context, text string) (*bootImage, error) {
	lines := strings.Split(text, "\n")
	if strings.TrimSpace(lines[0]) != "#!ipxe" {
		return nil, errors.New("not an iPXE script")
	}
	for i, steps := 1, 0; i < len(lines); i++ {
		if steps++; steps > maxSteps {
			return nil, fmt.Errorf("script exceeds %d steps", maxSteps)
		}
		line := strings.TrimSpace(lines[i])
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ":") {
			continue
		}
		if err := in.line(ctx, line); err != nil {
			return nil, err
		}
		if in.done {
			return &in.image, nil
		}
		if in.jump != "" {
			at := slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) == ":"+in.jump })
			if at < 0 {
				return nil, fmt.Errorf("script has no label %q", in.jump)
			}
			i, in.jump = at, ""
		}
	}
	return nil, errExit // the end of a script is an exit
}

// line runs commands joined by || and && from left to right, like iPXE: each operator decides
// whether the next command runs. An empty command succeeds.
func (in *interpreter) line(ctx context.Context, line string) error {
	words := strings.Fields(line)
	var err error
	run := true
	for start := 0; start <= len(words); {
		end := start
		for end < len(words) && words[end] != "||" && words[end] != "&&" {
			end++
		}
		if run {
			if err = in.command(ctx, words[start:end]); err != nil && !errors.Is(err, errCommand) {
				return err
			}
			if in.done || in.jump != "" {
				return nil
			}
		}
		if end >= len(words) {
			break
		}
		run = (words[end] == "||") == (err != nil)
		start = end + 1
	}
	if err != nil {
		return fmt.Errorf("script ended at %q: %w", words[0], err)
	}
	return nil
}

func (in *interpreter) command(ctx context.Context, words []string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(words) == 0 {
		return nil
	}
	args := make([]string, 0, len(words)-1)
	for _, w := range words[1:] {
		args = append(args, in.expand(w))
	}
	switch words[0] {
	case "echo", "dhcp", "imgfree", "set":
		if words[0] == "imgfree" {
			in.kernel, in.image = "", bootImage{}
		}
		return nil
	case "goto":
		return in.gotoLabel(args)
	case "iseq":
		return check(len(args) == 2 && args[0] == args[1])
	case "isset":
		return check(len(args) == 1 && args[0] != "")
	case "sleep":
		if !sleep(ctx, in.pause) {
			return context.Cause(ctx)
		}
		return nil
	case "kernel", "initrd":
		return in.loadCommand(ctx, words[0], args)
	case "boot":
		in.done = in.kernel != ""
		return check(in.done)
	case "chain":
		return in.chainCommand(ctx, args)
	case "sanboot", "exit":
		// Both continue with the disk, the next device of the boot order.
		return errExit
	}
	return fmt.Errorf("script has the unknown command %q", words[0])
}

func (in *interpreter) gotoLabel(args []string) error {
	if len(args) != 1 {
		return errors.New("goto needs one label")
	}
	in.jump = args[0]
	return nil
}

// chainCommand is chain: [option…] uri. If the script cannot be fetched, the command fails and the
// current script continues.
func (in *interpreter) chainCommand(ctx context.Context, args []string) error {
	uri := ""
	if len(args) > 0 {
		uri = args[len(args)-1]
	}
	next, err := in.script(ctx, uri)
	if err != nil {
		return in.failure(ctx, "chain", err)
	}
	in.image.chain, in.done = next, true
	return nil
}

// failure returns the error of a failed fetch, or the end of ctx.
func (*interpreter) failure(ctx context.Context, command string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %s: %w", errCommand, command, err)
}

// loadCommand is kernel and initrd: [--name n] uri [argument…].
func (in *interpreter) loadCommand(ctx context.Context, command string, args []string) error {
	name := ""
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if args[0] == "--name" || args[0] == "-n" {
			if len(args) < 2 {
				return fmt.Errorf("%s: --name needs a name", command)
			}
			name, args = args[1], args[1:]
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return fmt.Errorf("%s: no URI", command)
	}
	if err := in.load(ctx, args[0]); err != nil {
		return in.failure(ctx, command, err)
	}
	if name == "" {
		name = path.Base(args[0])
	}
	if command == "kernel" {
		in.kernel, in.image.commandLine = name, strings.Join(args[1:], " ")
	} else {
		in.image.initrds = append(in.image.initrds, name)
	}
	return nil
}

// expand replaces ${name}.
func (in *interpreter) expand(word string) string {
	for {
		before, rest, ok := strings.Cut(word, "${")
		if !ok {
			return word
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			return word
		}
		word = before + in.variables[name] + after
	}
}

func check(ok bool) error {
	if !ok {
		return errCommand
	}
	return nil
}
