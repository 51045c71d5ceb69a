// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package datacenter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/network"
)

// drive is the CD drive of a virtual server with its virtual media. Before a boot, the BMC fetches
// the inserted image over the servers' network.
type drive struct {
	// path of the drive's file.
	path  string
	stack *network.Stack
	// inserted returns the URL in the first used slot; empty: none.
	inserted func() string
}

const (
	// emptyDrive is the size of an empty drive's file.
	emptyDrive = 1 << 20
	// fetchTimeout bounds one download.
	fetchTimeout = 5 * time.Minute
)

// newDrive creates an empty drive with a network stack for the BMC.
func newDrive(sw *network.Switch, spec ServerSpec, dir string) (*drive, error) {
	d := &drive{path: filepath.Join(dir, "drive.iso"), inserted: func() string { return "" }}
	var err error
	if d.stack, err = network.NewStack(sw, network.StackConfig{Name: spec.Name + "-bmc", Address: spec.Media}); err != nil {
		return nil, err
	}
	return d, errors.Join(sparseFile(d.path, emptyDrive), os.Truncate(d.path, emptyDrive))
}

// connect makes the drive use the BMC's virtual media.
func (d *drive) connect(b *bmc.BMC) {
	d.inserted = func() string {
		for _, slot := range b.Media() {
			if slot.Inserted {
				return slot.Image
			}
		}
		return ""
	}
}

// load fetches the inserted image. A running server keeps the old one.
func (d *drive) load(ctx context.Context) (err error) {
	url := d.inserted()
	if url == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return errors.New("virtual media: the URL is not valid") // the URL holds a token
	}
	client := &http.Client{Transport: &http.Transport{DialContext: d.stack.DialContext, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return errors.New("virtual media: the image cannot be fetched")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("virtual media: status %d", answer.StatusCode)
	}
	file, err := os.Create(d.path + ".new")
	if err != nil {
		return err
	}
	n, err := io.Copy(file, answer.Body)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("virtual media: after %d bytes: %w", n, err)
	}
	return os.Rename(d.path+".new", d.path)
}

func (d *drive) close() error { return d.stack.Close() }
