// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
)

// Arguments are the boot arguments of the agent, from the kernel command line or from DHCP.
type Arguments struct {
	// Servers are the replicas of the agent API, as host:port. All are equivalent.
	Servers []string
	// Files is the base URL of the boot server; empty if not given.
	Files string
	Pins  []Pin
	Token agentapi.Sensitive
	// MAC is the address of the boot NIC; nil if not given.
	MAC net.HardwareAddr
}

var (
	// ErrArguments reports a kernel command line with an invalid ingot.* argument.
	ErrArguments = errors.New("parse the kernel command line")
	// ErrIncomplete reports that command line and DHCP together lack a required argument.
	ErrIncomplete = errors.New("incomplete boot arguments")
)

// ParseArguments reads the ingot.* arguments of a kernel command line (/proc/cmdline).
// If an argument occurs twice, the last one counts, as in the kernel. DHCP may supply
// missing arguments (see Missing and Fill). No error contains a value, since the token is
// secret.
func ParseArguments(cmdline string) (Arguments, error) {
	values := map[string]string{}
	for _, word := range splitCommandLine(cmdline) {
		if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(name, "ingot.") {
			values[name] = value
		}
	}
	args, err := parseBoot(agentapi.BootOptions{
		Server: values[agentapi.ArgServer], Pin: values[agentapi.ArgPin], Files: values[agentapi.ArgFiles],
		Token: agentapi.Sensitive(values[agentapi.ArgToken]),
	})
	if err != nil {
		return Arguments{}, fmt.Errorf("%w: %w", ErrArguments, err)
	}
	if mac := values[agentapi.ArgMAC]; mac != "" {
		if args.MAC, err = net.ParseMAC(mac); err != nil || len(args.MAC) != 6 {
			return Arguments{}, fmt.Errorf("%w: %s is not a MAC address", ErrArguments, agentapi.ArgMAC)
		}
	}
	return args, nil
}

// parseBoot parses the values that are set.
func parseBoot(in agentapi.BootOptions) (Arguments, error) {
	args := Arguments{Files: strings.TrimSuffix(in.Files, "/"), Token: in.Token}
	if in.Server != "" {
		args.Servers = strings.Split(in.Server, ",")
	}
	for _, server := range args.Servers {
		if host, port, err := net.SplitHostPort(server); err != nil || host == "" || port == "" {
			return Arguments{}, fmt.Errorf("%s is not host:port", agentapi.ArgServer)
		}
	}
	if args.Files != "" {
		if u, err := url.Parse(args.Files); err != nil || u.Scheme != "http" || u.Host == "" {
			return Arguments{}, fmt.Errorf("%s is not an http URL", agentapi.ArgFiles)
		}
	}
	if in.Pin == "" {
		return args, nil
	}
	var err error
	if args.Pins, err = ParsePins(in.Pin); err != nil {
		return Arguments{}, fmt.Errorf("%s: %w", agentapi.ArgPin, err)
	}
	return args, nil
}

// Missing returns the names of the required arguments that are not set, sorted.
func (a Arguments) Missing() []string {
	var names []string
	if len(a.Pins) == 0 {
		names = append(names, agentapi.ArgPin)
	}
	if len(a.Servers) == 0 {
		names = append(names, agentapi.ArgServer)
	}
	if a.Token == "" {
		names = append(names, agentapi.ArgToken)
	}
	return names
}

// Fill adds the arguments from DHCP that the command line does not set. It overrides
// none: a pin in a signed image must not be replaced by a pin that anyone on the network
// segment can send. The error wraps ErrIncomplete.
func (a Arguments) Fill(options agentapi.BootOptions) (Arguments, error) {
	found, err := parseBoot(options)
	if err != nil {
		return a, fmt.Errorf("%w: DHCP options: %w", ErrIncomplete, err)
	}
	a = a.or(found)
	if missing := a.Missing(); len(missing) > 0 {
		return a, fmt.Errorf("%w: %s missing", ErrIncomplete, strings.Join(missing, ", "))
	}
	return a, nil
}

// With adds the arguments from a text in the form of a command line that are not set yet.
// On error, which wraps ErrArguments, it returns the arguments unchanged.
func (a Arguments) With(text string) (Arguments, error) {
	found, err := ParseArguments(text)
	if err != nil {
		return a, err
	}
	return a.or(found), nil
}

// or fills the unset arguments from found.
func (a Arguments) or(found Arguments) Arguments {
	if len(a.Servers) == 0 {
		a.Servers = found.Servers
	}
	a.Files = cmp.Or(a.Files, found.Files)
	if len(a.Pins) == 0 {
		a.Pins = found.Pins
	}
	a.Token = cmp.Or(a.Token, found.Token)
	if a.MAC == nil {
		a.MAC = found.MAC
	}
	return a
}

// splitCommandLine splits at white space outside double quotes and removes the quotes
// (Linux, lib/cmdline.c, next_arg).
func splitCommandLine(s string) []string {
	var words []string
	var word strings.Builder
	quoted := false
	flush := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	for _, r := range s {
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && (r == ' ' || r == '\t' || r == '\n' || r == 0):
			flush()
		default:
			word.WriteRune(r)
		}
	}
	flush()
	return words
}
