// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
)

// Arguments are what the boot gives the agent on the kernel command line.
type Arguments struct {
	// Server is host:port of the agent API.
	Server string
	// Files is the base URL of the boot server; empty when not given.
	Files string
	// Pins of the manager's TLS keys.
	Pins []Pin
	// Token of the session.
	Token agentapi.Sensitive
	// MAC is the boot NIC's address, nil when not given.
	MAC net.HardwareAddr
}

// ErrArguments says that a command line does not tell the agent where to go.
var ErrArguments = errors.New("kernel command line")

// ParseArguments reads the ingot.* arguments of a kernel command line
// (/proc/cmdline). Other arguments are ignored; of one given twice the last
// counts, as in the kernel. No error holds a value, since one of them is secret.
func ParseArguments(cmdline string) (Arguments, error) {
	values := map[string]string{}
	for _, word := range splitCommandLine(cmdline) {
		if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(name, "ingot.") {
			values[name] = value
		}
	}
	args := Arguments{
		Server: values[agentapi.ArgServer],
		Files:  strings.TrimSuffix(values[agentapi.ArgFiles], "/"),
		Token:  agentapi.Sensitive(values[agentapi.ArgToken]),
	}
	if host, port, err := net.SplitHostPort(args.Server); err != nil || host == "" || port == "" {
		return Arguments{}, fmt.Errorf("%w: %s is not host:port", ErrArguments, agentapi.ArgServer)
	}
	if args.Token == "" {
		return Arguments{}, fmt.Errorf("%w: %s is missing", ErrArguments, agentapi.ArgToken)
	}
	if args.Files != "" {
		if u, err := url.Parse(args.Files); err != nil || u.Scheme != "http" || u.Host == "" {
			return Arguments{}, fmt.Errorf("%w: %s is not an http URL", ErrArguments, agentapi.ArgFiles)
		}
	}
	var err error
	if args.Pins, err = ParsePins(values[agentapi.ArgPin]); err != nil {
		return Arguments{}, fmt.Errorf("%w: %s: %w", ErrArguments, agentapi.ArgPin, err)
	}
	if mac := values[agentapi.ArgMAC]; mac != "" {
		if args.MAC, err = net.ParseMAC(mac); err != nil || len(args.MAC) != 6 {
			return Arguments{}, fmt.Errorf("%w: %s is not a MAC address", ErrArguments, agentapi.ArgMAC)
		}
	}
	return args, nil
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
