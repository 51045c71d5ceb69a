// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
)

// Arguments are what the boot gives the agent: on the kernel command line, or, where
// that cannot be given, by DHCP.
type Arguments struct {
	// Servers are host:port of the agent API, each as good as the others.
	Servers []string
	// Files is the base URL of the boot server; empty when not given.
	Files string
	// Pins of the manager's TLS keys.
	Pins []Pin
	// Token of the session.
	Token agentapi.Sensitive
	// MAC is the boot NIC's address, nil when not given.
	MAC net.HardwareAddr
}

var (
	// ErrArguments says that a command line does not tell the agent where to go.
	ErrArguments = errors.New("kernel command line")
	// ErrIncomplete says that neither the command line nor DHCP told the agent all.
	ErrIncomplete = errors.New("where to go was not told")
)

// ParseArguments reads the ingot.* arguments of a kernel command line
// (/proc/cmdline). Other arguments are ignored; of one given twice the last
// counts, as in the kernel. What is not given may come by DHCP: see Missing and
// Fill. No error holds a value, since one of them is secret.
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

// parseBoot reads the values that are there.
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

// Missing names what is needed and not there; empty: the agent can start.
func (a Arguments) Missing() []string {
	var names []string
	for name, there := range map[string]bool{
		agentapi.ArgServer: len(a.Servers) > 0, agentapi.ArgPin: len(a.Pins) > 0, agentapi.ArgToken: a.Token != "",
	} {
		if !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Fill takes from DHCP what the command line did not give, and nothing else: a pin
// that was built into a signed image is not replaced by one that anybody on the
// segment could send. The error wraps ErrIncomplete.
func (a Arguments) Fill(told agentapi.BootOptions) (Arguments, error) {
	found, err := parseBoot(told)
	if err != nil {
		return a, fmt.Errorf("%w: by DHCP: %w", ErrIncomplete, err)
	}
	a = a.or(found)
	if missing := a.Missing(); len(missing) > 0 {
		return a, fmt.Errorf("%w: %s", ErrIncomplete, strings.Join(missing, ", "))
	}
	return a, nil
}

// With takes from another text in the form of a command line what the command line did
// not give, and nothing else. The error wraps ErrArguments; what was there stays.
func (a Arguments) With(text string) (Arguments, error) {
	found, err := ParseArguments(text)
	if err != nil {
		return a, err
	}
	return a.or(found), nil
}

// or takes from found what is not there.
func (a Arguments) or(found Arguments) Arguments {
	if len(a.Servers) == 0 {
		a.Servers = found.Servers
	}
	if a.Files == "" {
		a.Files = found.Files
	}
	if len(a.Pins) == 0 {
		a.Pins = found.Pins
	}
	if a.Token == "" {
		a.Token = found.Token
	}
	if a.MAC == nil {
		a.MAC = found.MAC
	}
	return a
}

// splitCommandLine splits at white space outside double quotes, which it removes
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
