// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/ingot-metal/ingot/bmc"
)

// Numbers of event log entries to show.
const (
	defaultEntries = 50
	maxEntries     = 1000
)

// command is a command of "manager bmc". name consists of one or two words.
type command struct {
	name             string
	arguments        string
	minArgs, maxArgs int
	help             string
	run              func(ctx context.Context, conn bmc.Conn, c *call) error
}

// commands lists the commands in the order of the help text. A longer name precedes its prefix.
func commands() []command {
	return []command{
		{"identity", "", 0, 0, "show system, serial number and firmware", identity},
		{"power", "[ACTION]", 0, 1, "show the power state, or change it: " + strings.Join(actions(), ", "), power},
		{"boot", "[TARGET [once|always] [UEFI|BIOS] [URL]]", 0, 4, "show the boot override, or set it for the next boot or for all boots: " + strings.Join(bootTargets(), ", ") + "; HTTP takes a URL", boot},
		{"identify", "[on|off]", 0, 1, "show the state of the indicator LED, or switch it", identify},
		{"eventlog clear", "", 0, 0, "clear the event log", clearLog},
		{"eventlog", "[COUNT]", 0, 1, "show the event log, newest first", eventLog},
		{"health", "", 0, 0, "show fans, power supplies, drives and sensors", health},
		{"console", "", 0, 0, "open the serial console (ipmi:// addresses); ~. at the beginning of a line closes it", console},
		{"media insert", "CD|DVD|USBStick URL", 2, 2, "insert the image at a URL into a virtual drive", insertMedia},
		{"media eject", "DRIVE", 1, 1, "eject the image from a virtual drive", ejectMedia},
		{"media", "", 0, 0, "list the virtual drives", media},
		{"settings reset", "", 0, 0, "reset all BIOS settings to factory defaults at the next boot", resetSettings},
		{"settings", "[NAME...]", 0, 100, "show BIOS settings, and their values after the next boot", settings},
		{"firmware", "", 0, 0, "list firmware versions", firmware},
	}
}

func actions() []string {
	return []string{
		string(bmc.ActionOn), string(bmc.ActionGracefulOff), string(bmc.ActionForceOff), string(bmc.ActionGracefulRestart),
		string(bmc.ActionForceRestart), string(bmc.ActionNMI),
	}
}

// find returns the command and its arguments.
func find(args []string) (command, []string, error) {
	for _, cmd := range commands() {
		words := strings.Fields(cmd.name)
		if len(args) < len(words) || !slices.Equal(args[:len(words)], words) {
			continue
		}
		rest := args[len(words):]
		if len(rest) < cmd.minArgs || len(rest) > cmd.maxArgs {
			return command{}, nil, fmt.Errorf("usage: %s", strings.TrimSpace(cmd.name+" "+cmd.arguments))
		}
		return cmd, rest, nil
	}
	return command{}, nil, fmt.Errorf("unknown command %q; --help lists the commands", args[0])
}

func usage(out io.Writer, flags *flag.FlagSet) {
	_, _ = fmt.Fprintln(out, "Usage: manager bmc [flags] COMMAND [arguments]\n\nRuns a command on one BMC. Ingot does not record it.")
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, cmd := range commands() {
		_, _ = fmt.Fprintf(table, "  %s\t%s\n", strings.TrimSpace(cmd.name+" "+cmd.arguments), cmd.help)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(out)
	flags.PrintDefaults()
}

// printable replaces the characters of a BMC's text that could control the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ' {
			return ' '
		}
		return r
	}, text)
}

// table prints rows of cells.
func (c *call) table(rows [][]string) error {
	t := tabwriter.NewWriter(c.out, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
		if _, err := fmt.Fprintln(t, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

func (c *call) printf(format string, args ...any) error {
	_, err := fmt.Fprintln(c.out, printable(fmt.Sprintf(format, args...)))
	return err
}

func identity(ctx context.Context, conn bmc.Conn, c *call) error {
	id, err := conn.Identity(ctx)
	if err != nil {
		return err
	}
	return c.table([][]string{
		{"system", id.SystemID}, {"manufacturer", id.Manufacturer}, {"model", id.Model}, {"serial number", id.Serial}, {"UUID", id.UUID}, {"BMC firmware", id.BMCFirmware},
	})
}

func power(ctx context.Context, conn bmc.Conn, c *call) error {
	if len(c.args) == 0 {
		state, err := conn.PowerState(ctx)
		if err != nil {
			return err
		}
		return c.printf("%s", state)
	}
	i := slices.IndexFunc(actions(), func(a string) bool { return strings.EqualFold(a, c.args[0]) })
	if i < 0 {
		return fmt.Errorf("unknown power action %q; use %s", c.args[0], strings.Join(actions(), ", "))
	}
	return conn.SetPower(ctx, bmc.PowerAction(actions()[i]))
}

func bootTargets() []string {
	return []string{string(bmc.BootPXE), string(bmc.BootDisk), string(bmc.BootHTTP), string(bmc.BootCD), string(bmc.BootSetup), string(bmc.BootNone)}
}

func boot(ctx context.Context, conn bmc.Conn, c *call) error {
	if len(c.args) > 0 {
		override, err := overrideOf(c.args)
		if err != nil {
			return err
		}
		return conn.SetBootOverride(ctx, override)
	}
	override, err := conn.BootOverride(ctx)
	if err != nil {
		return err
	}
	words := []string{string(override.Target)}
	if override.Target != bmc.BootNone {
		words = append(words, map[bool]string{true: "always", false: "once"}[override.Persistent], string(override.Mode), override.HTTPBootURI)
	}
	return c.printf("%s", strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
}

// overrideOf parses the arguments of boot: a target, and the others in any order.
func overrideOf(args []string) (bmc.BootOverride, error) {
	i := slices.IndexFunc(bootTargets(), func(t string) bool { return strings.EqualFold(t, args[0]) })
	if i < 0 {
		return bmc.BootOverride{}, fmt.Errorf("unknown boot target %q; use %s", args[0], strings.Join(bootTargets(), ", "))
	}
	override := bmc.BootOverride{Target: bmc.BootTarget(bootTargets()[i])}
	for _, word := range args[1:] {
		switch lower := strings.ToLower(word); {
		case lower == "once":
			override.Persistent = false
		case lower == "always":
			override.Persistent = true
		case lower == "uefi":
			override.Mode = bmc.ModeUEFI
		case lower == "bios":
			override.Mode = bmc.ModeBIOS
		case override.Target == bmc.BootHTTP && (strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://")):
			override.HTTPBootURI = word
		default:
			return override, fmt.Errorf("unexpected %q after the boot target %s; use once or always, UEFI or BIOS, and for HTTP a URL", word, override.Target)
		}
	}
	return override, nil
}

func identify(ctx context.Context, conn bmc.Conn, c *call) error {
	if len(c.args) > 0 {
		if c.args[0] != "on" && c.args[0] != "off" {
			return fmt.Errorf("invalid state %q; use on or off", c.args[0])
		}
		return conn.SetIndicator(ctx, c.args[0] == "on")
	}
	lit, err := conn.Indicator(ctx)
	if err != nil {
		return err
	}
	return c.printf("%s", map[bool]string{true: "on", false: "off"}[lit])
}

func eventLog(ctx context.Context, conn bmc.Conn, c *call) error {
	count := defaultEntries
	if len(c.args) > 0 {
		n, err := strconv.Atoi(c.args[0])
		if err != nil || n < 1 || n > maxEntries {
			return fmt.Errorf("the count must be from 1 to %d, not %q", maxEntries, c.args[0])
		}
		count = n
	}
	entries, err := conn.EventLog(ctx, count)
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(entries))
	for _, e := range entries {
		at := "-"
		if !e.Created.IsZero() {
			at = e.Created.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{at, string(e.Severity), e.Message})
	}
	return c.table(rows)
}

func clearLog(ctx context.Context, conn bmc.Conn, _ *call) error { return conn.ClearEventLog(ctx) }

// readAll repeats a read until it is complete: slow BMCs need several calls.
func readAll[T any](ctx context.Context, c *call, read func(context.Context) (T, error)) (T, error) {
	for {
		answer, err := read(ctx)
		if !errors.Is(err, bmc.ErrUnfinished) {
			return answer, err
		}
		if _, printErr := fmt.Fprintln(c.err, err); printErr != nil {
			return answer, errors.Join(err, printErr)
		}
	}
}

func health(ctx context.Context, conn bmc.Conn, c *call) error {
	report, err := readAll(ctx, c, conn.Health)
	if err != nil {
		return err
	}
	rows := [][]string{{"overall", "", string(report.Overall), ""}}
	for _, part := range report.Components {
		rows = append(rows, []string{part.Kind, part.Name, string(part.State), part.Reading})
	}
	return c.table(rows)
}

func media(ctx context.Context, conn bmc.Conn, c *call) error {
	slots, err := conn.MediaSlots(ctx)
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(slots))
	for _, s := range slots {
		kinds := make([]string, len(s.Kinds))
		for i, kind := range s.Kinds {
			kinds[i] = string(kind)
		}
		image := "empty"
		if s.Inserted {
			image = s.Image
		}
		rows = append(rows, []string{s.ID, strings.Join(kinds, ","), image})
	}
	return c.table(rows)
}

func insertMedia(ctx context.Context, conn bmc.Conn, c *call) error {
	kind := bmc.MediaKind(c.args[0])
	if !slices.Contains([]bmc.MediaKind{bmc.MediaCD, bmc.MediaDVD, bmc.MediaUSB}, kind) {
		return fmt.Errorf("unknown drive kind %q; use CD, DVD or USBStick", c.args[0])
	}
	slot, err := conn.InsertMedia(ctx, kind, c.args[1])
	if err != nil {
		return err
	}
	return c.printf("%s", slot.ID)
}

func ejectMedia(ctx context.Context, conn bmc.Conn, c *call) error {
	return conn.EjectMedia(ctx, c.args[0])
}

func settings(ctx context.Context, conn bmc.Conn, c *call) error {
	values, err := conn.Settings(ctx)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(values))
	if len(c.args) > 0 {
		names = c.args
	}
	pending, err := conn.PendingSettings(ctx)
	if err != nil && !errors.Is(err, bmc.ErrNotSupported) {
		return err
	}
	rows := make([][]string, 0, len(names))
	for _, name := range names {
		value, known := values[name]
		if !known {
			return fmt.Errorf("unknown setting %q", name)
		}
		row := []string{name, value.String()}
		if next, is := pending[name]; is && next != value {
			row = append(row, "next boot: "+next.String())
		}
		rows = append(rows, row)
	}
	return c.table(rows)
}

func resetSettings(ctx context.Context, conn bmc.Conn, _ *call) error { return conn.ResetSettings(ctx) }

func firmware(ctx context.Context, conn bmc.Conn, c *call) error {
	items, err := readAll(ctx, c, conn.FirmwareInventory)
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(items))
	for _, item := range items {
		rows = append(rows, []string{item.Name, item.Version, item.ID})
	}
	return c.table(rows)
}
