// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccli

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// closeTimeout limits the closing of the session.
	closeTimeout = 10 * time.Second
	// maxPassword limits a password, in bytes. BMCs accept at most 127.
	maxPassword = 1 << 10
)

// Streams are the standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// call is a parsed command line.
type call struct {
	target  bmc.Target
	timeout time.Duration
	command command
	args    []string
	// in is the standard input after a password.
	in *bufio.Reader
	// err receives the progress of long operations.
	out, err io.Writer
}

// Run runs a command line in one BMC session. Errors never contain the password.
func Run(ctx context.Context, args []string, dial bmc.Dialer, s Streams) (err error) {
	c, err := parse(args, s)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	// A single client needs no limits on slow calls and failed logins.
	pool := bmc.NewPool(dial, bmc.PoolOptions{CallTimeout: c.timeout, SlowCalls: bmc.SlowCallOptions{Limit: -1}, Pause: bmc.PauseOptions{After: -1, LockAfter: -1}})
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, pool.Close(end))
	}()
	return pool.Do(ctx, c.target, func(ctx context.Context, conn bmc.Conn) error { return c.command.run(ctx, conn, c) })
}

func parse(args []string, s Streams) (*call, error) {
	c := &call{in: bufio.NewReader(s.In), out: s.Out, err: s.Err}
	flags := flag.NewFlagSet("bmc", flag.ContinueOnError)
	flags.SetOutput(s.Err)
	flags.StringVar(&c.target.Address, "address", "", "Address of the BMC, as in spec.bmc.address.")
	flags.StringVar(&c.target.Username, "username", "", "User name at the BMC.")
	password := flags.String("password-file", "", "File with the password; - reads the first line of standard input.")
	ca := flags.String("ca", "", "CA certificates as PEM text. If empty, the system's CAs are used.")
	flags.StringVar(&c.target.Fingerprint, "fingerprint", "", "Fingerprint (sha256:…) of the only trusted certificate, instead of a CA.")
	flags.BoolVar(&c.target.InsecureSkipVerify, "insecure-skip-verify", false, "Accept any certificate. An attacker between manager and BMC can then read the password.")
	flags.DurationVar(&c.timeout, "timeout", bmc.DefaultCallTimeout, "Timeout of one BMC call.")
	flags.Usage = func() { usage(s.Err, flags) }
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return nil, errors.New("no command given; --help lists the commands")
	}
	var err error
	if c.command, c.args, err = find(flags.Args()); err != nil {
		return nil, err
	}
	switch {
	case c.target.Address == "":
		return nil, errors.New("--address is required")
	case c.timeout <= 0:
		return nil, errors.New("--timeout must be positive")
	case *ca != "" && !strings.Contains(*ca, "-----BEGIN CERTIFICATE-----"):
		return nil, errors.New("--ca must be the text of certificates (-----BEGIN CERTIFICATE-----), not a file name")
	case *ca != "" && c.target.Fingerprint != "" || c.target.InsecureSkipVerify && (*ca != "" || c.target.Fingerprint != ""):
		return nil, errors.New("use only one of --ca, --fingerprint and --insecure-skip-verify")
	case c.target.Username == "":
		return nil, errors.New("--username is required: a BMC counts a login without it as failed")
	case *password == "":
		return nil, errors.New("--password-file is required (- reads the first line of standard input): a BMC counts logins without a password as failed, and may lock the account")
	}
	c.target.CABundle = []byte(*ca)
	if c.target.Password, err = readPassword(*password, c.in); err == nil && c.target.Password == "" {
		err = fmt.Errorf("--password-file %s: the first line is empty; check that you can read the Secret", *password)
	}
	return c, err
}

// readPassword reads the password from a file, or the first line from in.
func readPassword(path string, in *bufio.Reader) (bmc.Password, error) {
	switch path {
	case "-":
		var line []byte
		for len(line) <= maxPassword {
			b, err := in.ReadByte()
			if errors.Is(err, io.EOF) || b == '\n' {
				return bmc.Password(strings.TrimSuffix(string(line), "\r")), nil
			}
			if err != nil {
				return "", fmt.Errorf("read the password: %w", err)
			}
			line = append(line, b)
		}
		return "", fmt.Errorf("read the password: the first line of standard input is longer than %d bytes", maxPassword)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxPassword+1))
	if err == nil && len(text) > maxPassword {
		err = fmt.Errorf("read the password: %s is longer than %d bytes", path, maxPassword)
	}
	return bmc.Password(strings.TrimRight(string(text), "\r\n")), err
}
