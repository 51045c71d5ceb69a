// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file parses the commands that operators give by annotation, and records those that were
// carried out (I24).

const (
	// CommandLifetime is how long after its time a command may be carried out.
	CommandLifetime = time.Hour
	// CommandSkew is how far the clock of the operator may be ahead of the manager's.
	CommandSkew = 5 * time.Minute
	// commandGrace is how old a command may be when the manager starts to reconcile hosts: a
	// restart loses no command, and a command of a restored backup is older.
	commandGrace = 2 * time.Minute
)

// Values of RebootAnnotation after its time.
const (
	RebootGraceful = "Graceful"
	RebootForced   = "Forced"
)

// Limits of what may follow the time of a command, in bytes and instances. The schema of HostCommand
// limits the instances too.
const (
	maxCommandNote       = 256
	MaxApprovedInstances = 32
)

// Command is a command that an operator gave by annotating a host.
type Command struct {
	// Name of the annotation, with its prefix.
	Name string
	// Time of the command, in whole seconds.
	Time time.Time
	// Arguments follow the time: instances of approve, Graceful or Forced of reboot, or a
	// note of any other command.
	Arguments []string
}

// CommandNames lists the annotations that are commands.
func CommandNames() []string {
	return []string{
		infrav1.ApproveAnnotation, infrav1.ClearQuarantineAnnotation, infrav1.ForceReleaseAnnotation, infrav1.InspectAnnotation,
		infrav1.RebootAnnotation, infrav1.ReleaseAnnotation, infrav1.RetryBMCAnnotation, infrav1.RotateCredentialsAnnotation,
	}
}

// CommandText returns a command annotation as an operator types it into a shell.
func CommandText(name string, arguments ...string) string {
	return name + "=" + strings.Join(append([]string{"$(date -u +%FT%TZ)"}, arguments...), ",")
}

// CommandLine returns the kubectl command by which an operator gives a command to a host.
func CommandLine(host *infrav1.IngotHost, name string, arguments ...string) string {
	return fmt.Sprintf("kubectl annotate --overwrite -n %s ih %s %s", host.Namespace, host.Name, CommandText(name, arguments...))
}

// instanceID matches an instance in an approval, or the name of a damaged marker.
var instanceID = regexp.MustCompile(`^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|` + agentapi.DamagedMarker + `[0-9a-f]{16})$`)

// ParseCommand parses the value of a command annotation: its time and arguments.
func ParseCommand(name, value string) (Command, error) {
	first, rest, more := strings.Cut(value, ",")
	given, err := time.Parse(time.RFC3339, strings.TrimSpace(first))
	if err != nil {
		return Command{}, fmt.Errorf("must start with the UTC time at which the command is given, such as 2026-01-02T15:04:05Z")
	}
	// Times are stored in whole seconds: a fraction would make the stored time look older.
	c := Command{Name: name, Time: given.UTC().Truncate(time.Second)}
	if more {
		c.Arguments, err = parseArguments(name, rest)
	}
	return c, err
}

func parseArguments(name, text string) ([]string, error) {
	switch name {
	case infrav1.ApproveAnnotation:
		var instances []string
		for value := range strings.SplitSeq(strings.ToLower(text), ",") {
			if value = strings.TrimSpace(value); !instanceID.MatchString(value) {
				return nil, fmt.Errorf("%q is no instance; after the time come the instances that the condition of the host or machine names, separated by commas", Truncate(value, 64))
			}
			if !slices.Contains(instances, value) {
				instances = append(instances, value)
			}
		}
		if len(instances) > MaxApprovedInstances {
			return nil, fmt.Errorf("names %d instances; at most %d can be approved at once", len(instances), MaxApprovedInstances)
		}
		return instances, nil
	case infrav1.RebootAnnotation:
		if text != RebootGraceful && text != RebootForced {
			return nil, fmt.Errorf("%q is no way to reboot; after the time comes %s, %s or nothing", Truncate(text, 64), RebootGraceful, RebootForced)
		}
		return []string{text}, nil
	}
	if len(text) > maxCommandNote {
		return nil, fmt.Errorf("has a note of %d bytes after the time; at most %d are allowed", len(text), maxCommandNote)
	}
	return []string{text}, nil
}

// CommandDone returns the time of the annotation's last command that was carried out or refused.
// Zero: none was.
func CommandDone(host *infrav1.IngotHost, name string) time.Time {
	for _, done := range host.Spec.Commands {
		if done.Name == ShortCommandName(name) {
			return done.RequestTime.Time
		}
	}
	return time.Time{}
}

// PendingCommand returns the command of an annotation, unless it or a later one was carried out. It
// reports false for an invalid value.
func PendingCommand(host *infrav1.IngotHost, name string) (Command, bool) {
	value, found := host.Annotations[name]
	if !found {
		return Command{}, false
	}
	c, err := ParseCommand(name, value)
	return c, err == nil && c.Time.After(CommandDone(host, name))
}

// IsInFuture reports whether the command's time is in the future by more than CommandSkew.
func (c Command) IsInFuture(now time.Time) bool { return c.Time.After(now.Add(CommandSkew)) }

// IsExpired reports whether the command is older than CommandLifetime.
func (c Command) IsExpired(now time.Time) bool { return !now.Before(c.Time.Add(CommandLifetime)) }

// RefusedBecause returns why the command's time prevents it. Empty: it does not. since is when the manager
// started to reconcile hosts. Zero: not known.
func (c Command) RefusedBecause(now, since time.Time) string {
	switch {
	case c.IsInFuture(now):
		return "its time " + FormatTime(c.Time) + " lies in the future"
	case c.IsExpired(now):
		return "it expired an hour after " + FormatTime(c.Time)
	case !since.IsZero() && c.Time.Before(since.Add(-commandGrace)):
		return "its time " + FormatTime(c.Time) + " is before the start of the manager"
	}
	return ""
}

// ShortCommandName returns the name of a command in spec.commands.
func ShortCommandName(name string) string { return strings.TrimPrefix(name, infrav1.AnnotationPrefix) }

// TakeCommand removes a command annotation from the host and records its command as carried out. It
// records nothing for an invalid value.
func TakeCommand(host *infrav1.IngotHost, name string) {
	if c, pending := PendingCommand(host, name); pending {
		RememberCommand(&host.Spec.Commands, host, c)
	}
	delete(host.Annotations, name)
}

// RememberCommand adds the command to the list of those that were carried out.
func RememberCommand(commands *[]infrav1.HostCommand, host *infrav1.IngotHost, c Command) {
	done := infrav1.HostCommand{Name: ShortCommandName(c.Name), RequestTime: metav1.Time{Time: c.Time}, User: CommandUser(host, c.Name)}
	for i := range *commands {
		if (*commands)[i].Name == done.Name {
			done.InstanceIDs = (*commands)[i].InstanceIDs
			(*commands)[i] = done
			return
		}
	}
	*commands = append(*commands, done)
}

// NewCommands lists the commands that were carried out or refused between two versions of a
// host.
func NewCommands(before, after *infrav1.IngotHost) []infrav1.HostCommand {
	var out []infrav1.HostCommand
	for _, c := range after.Spec.Commands {
		if c.RequestTime.After(CommandDone(before, infrav1.AnnotationPrefix+c.Name)) {
			out = append(out, c)
		}
	}
	return out
}

// givenBy is the user who gave a command. Another value is another command.
type givenBy struct {
	Value string `json:"value"`
	User  string `json:"user"`
}

// maxUser is the limit of the schema for user names. No command is as long as maxCommandValue.
const (
	maxUser         = 256
	maxCommandValue = 2048
)

// CommandUser returns the user who set the present value of a command annotation, as recorded by
// Ingot's webhook. Empty: not known.
func CommandUser(host *infrav1.IngotHost, name string) string {
	if given := commandGivers(host)[ShortCommandName(name)]; given.Value == host.Annotations[name] {
		return Truncate(given.User, maxUser)
	}
	return ""
}

func commandGivers(host *infrav1.IngotHost) map[string]givenBy {
	var givers map[string]givenBy
	if json.Unmarshal([]byte(host.Annotations[infrav1.CommandsGivenByAnnotation]), &givers) != nil {
		return nil // only Ingot's webhook writes it
	}
	return givers
}

// RecordCommandUsers records the user of each command in an annotation of after: user if the value
// changed since before, else the recorded one. before is nil for a new host.
func RecordCommandUsers(before, after *infrav1.IngotHost, user string) {
	givers := map[string]givenBy{}
	for _, name := range CommandNames() {
		value, found := after.Annotations[name]
		if !found {
			continue
		}
		given := givenBy{Value: value, User: user}
		if before != nil {
			if was, stood := before.Annotations[name]; stood && was == value {
				given = commandGivers(before)[ShortCommandName(name)]
			}
		}
		if given.User != "" && len(value) <= maxCommandValue {
			givers[ShortCommandName(name)] = given
		}
	}
	delete(after.Annotations, infrav1.CommandsGivenByAnnotation)
	if len(givers) == 0 {
		return
	}
	text, err := json.Marshal(givers)
	if err != nil {
		return // strings always marshal
	}
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, infrav1.CommandsGivenByAnnotation, string(text))
}
