// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// bootImage is what a script ended in.
type bootImage struct {
	// commandLine of the kernel; it may hold a token.
	commandLine string
	initrds     []string
	// chain is the script to go on with instead; nil: boot.
	chain *chained
}

// chained is a script, and where it came from.
type chained struct{ location, text string }

// interpreter runs the part of iPXE's script language that boot scripts use:
// labels, goto, echo, iseq, isset, kernel, initrd, imgfree, sleep, boot, chain,
// sanboot, dhcp and exit, joined by || and &&.
type interpreter struct {
	variables map[string]string
	// load fetches a file.
	load func(ctx context.Context, uri string) error
	// script fetches a script.
	script func(ctx context.Context, uri string) (*chained, error)
	// pause stands for whatever number of seconds a script sleeps.
	pause time.Duration

	image  bootImage
	kernel string
	// done: the script handed over; jump is the label that goto named.
	done bool
	jump string
}

// maxSteps bounds a script that goes round in circles with nothing to wait for.
const maxSteps = 10_000

// errCommand reports a command that failed, which || may forgive.
var errCommand = errors.New("command failed")

// run returns what to boot; errExit: nothing, the firmware goes on.
func (in *interpreter) run(ctx context.Context, text string) (*bootImage, error) {
	lines := strings.Split(text, "\n")
	if strings.TrimSpace(lines[0]) != "#!ipxe" {
		return nil, errors.New("not an iPXE script")
	}
	for i, steps := 1, 0; i < len(lines); i++ {
		if steps++; steps > maxSteps {
			return nil, fmt.Errorf("script does not end within %d steps", maxSteps)
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
			at, ok := label(lines, in.jump)
			if !ok {
				return nil, fmt.Errorf("script has no label %q", in.jump)
			}
			i, in.jump = at, ""
		}
	}
	return nil, errExit // the end of a script is as exit
}

func label(lines []string, name string) (int, bool) {
	for i, line := range lines {
		if strings.TrimSpace(line) == ":"+name {
			return i, true
		}
	}
	return 0, false
}

// line runs commands joined by || and &&: as in iPXE, from left to right, each
// operator deciding whether the next command runs. An empty command succeeds.
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

// command runs one command.
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
		return in.chainCommand(ctx, lastArgument(args))
	case "sanboot", "exit":
		// Both go on with the disk, which the boot order has next.
		return errExit
	}
	return fmt.Errorf("script has the command %q, which this firmware does not know", words[0])
}

func (in *interpreter) gotoLabel(args []string) error {
	if len(args) != 1 {
		return errors.New("goto wants one label")
	}
	in.jump = args[0]
	return nil
}

// chainCommand is chain: [option…] uri. A script that does not arrive is a failure of the
// command, and the one that runs goes on.
func (in *interpreter) chainCommand(ctx context.Context, uri string) error {
	next, err := in.script(ctx, uri)
	if err != nil {
		return in.failure(ctx, "chain", err)
	}
	in.image.chain, in.done = next, true
	return nil
}

// failure is that of a command that fetches, unless the server is switched off.
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
				return fmt.Errorf("%s: --name wants a name", command)
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

func lastArgument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[len(args)-1]
}
