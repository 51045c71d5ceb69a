// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package byhand

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
	// closeTime bounds the end of the session.
	closeTime = 10 * time.Second
	// maxPassword bounds a password, in bytes; BMCs take 127 at most.
	maxPassword = 1 << 10
)

// Streams are a person's terminal.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// call is what the command line says.
type call struct {
	target  bmc.Target
	timeout time.Duration
	verb    verb
	args    []string
	// in is what follows the password, where that came the same way.
	in *bufio.Reader
	// err tells of the progress of what takes long.
	out, err io.Writer
}

// Run does what the command line says, on one session that it ends. Errors are the BMC's,
// or say what is wrong with the command line; none shows the password.
func Run(ctx context.Context, args []string, dial bmc.Dialer, s Streams) (err error) {
	c, err := parse(args, s)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	// Nobody waits in line here, so that no call is cut short for others.
	pool := bmc.NewPool(dial, bmc.PoolOptions{CallTimeout: c.timeout, Patience: bmc.PatienceOptions{Slow: -1}, Rest: bmc.RestOptions{After: -1, LockAfter: -1}})
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		err = errors.Join(err, pool.Close(end))
	}()
	return pool.Do(ctx, c.target, func(ctx context.Context, conn bmc.Conn) error { return c.verb.do(ctx, conn, c) })
}

func parse(args []string, s Streams) (*call, error) {
	c := &call{in: bufio.NewReader(s.In), out: s.Out, err: s.Err}
	flags := flag.NewFlagSet("bmc", flag.ContinueOnError)
	flags.SetOutput(s.Err)
	flags.StringVar(&c.target.Address, "address", "", "The BMC, as in spec.bmc.address of a host.")
	flags.StringVar(&c.target.Username, "username", "", "The account.")
	password := flags.String("password-file", "", "The file with its password; -: the first line of standard input.")
	ca := flags.String("ca", "", "The certificates that the BMC's is signed with, as PEM text; none: the system's.")
	flags.StringVar(&c.target.Fingerprint, "fingerprint", "", "The one certificate to trust, sha256:…, instead of a CA.")
	flags.BoolVar(&c.target.InsecureSkipVerify, "insecure-skip-verify", false, "Trust any certificate: whoever stands between can read the password.")
	flags.DurationVar(&c.timeout, "timeout", bmc.DefaultCallTimeout, "How long one call may take.")
	flags.Usage = func() { usage(s.Err, flags) }
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return nil, errors.New("no verb is given")
	}
	var err error
	if c.verb, c.args, err = find(flags.Args()); err != nil {
		return nil, err
	}
	switch {
	case c.target.Address == "":
		return nil, errors.New("--address is missing")
	case c.timeout <= 0:
		return nil, errors.New("--timeout must be positive")
	case *ca != "" && !strings.Contains(*ca, "-----BEGIN CERTIFICATE-----"):
		return nil, errors.New("--ca is the text of certificates (-----BEGIN CERTIFICATE-----), not the name of a file")
	case *ca != "" && c.target.Fingerprint != "" || c.target.InsecureSkipVerify && (*ca != "" || c.target.Fingerprint != ""):
		return nil, errors.New("give one of --ca, --fingerprint and --insecure-skip-verify")
	case c.target.Username == "":
		return nil, errors.New("--username is missing: a BMC counts a login without one as a failed one")
	case *password == "":
		return nil, errors.New("--password-file is missing: a BMC counts a login without a password as a failed one, and locks the account after some; -: the first line of standard input")
	}
	c.target.CABundle = []byte(*ca)
	if c.target.Password, err = readPassword(*password, c.in); err == nil && c.target.Password == "" {
		err = fmt.Errorf("--password-file %s: the first line is empty, and no login is tried with that; can you read the Secret?", *password)
	}
	return c, err
}

// readPassword leaves what follows the first line in the reader.
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
		return "", fmt.Errorf("the first line of standard input is longer than %d bytes, and no password", maxPassword)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxPassword+1))
	if err == nil && len(text) > maxPassword {
		err = fmt.Errorf("%s is longer than %d bytes, and no password", path, maxPassword)
	}
	return bmc.Password(strings.TrimRight(string(text), "\r\n")), err
}
