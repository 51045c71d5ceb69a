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

// drive is a virtual server's CD drive with the part of its BMC that fills it: before a
// boot the BMC fetches what was inserted, over the servers' network, and shows it.
type drive struct {
	// path of the file that the server has for its drive.
	path  string
	stack *network.Stack
	// inserted is the URL in the first slot that is taken; empty: none.
	inserted func() string
}

const (
	// emptyDrive is the size of what nobody boots from.
	emptyDrive = 1 << 20
	// fetchTimeout bounds one download.
	fetchTimeout = 5 * time.Minute
)

// newDrive makes an empty one, whose BMC has an address of its own.
func newDrive(sw *network.Switch, spec ServerSpec, dir string) (*drive, error) {
	d := &drive{path: filepath.Join(dir, "drive.iso"), inserted: func() string { return "" }}
	var err error
	if d.stack, err = network.NewStack(sw, network.StackConfig{Name: spec.Name + "-bmc", Address: spec.Media}); err != nil {
		return nil, err
	}
	return d, errors.Join(sparseFile(d.path, emptyDrive), os.Truncate(d.path, emptyDrive))
}

// slots has the drive show what is in the BMC's slots.
func (d *drive) slots(b *bmc.BMC) {
	d.inserted = func() string {
		for _, slot := range b.Media() {
			if slot.Inserted {
				return slot.Image
			}
		}
		return ""
	}
}

// load fetches what is inserted. A running server keeps what it has.
func (d *drive) load(ctx context.Context) (err error) {
	url := d.inserted()
	if url == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return errors.New("virtual media: the URL cannot be read") // it carries a ticket
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
	fresh, err := os.Create(d.path + ".new")
	if err != nil {
		return err
	}
	n, err := io.Copy(fresh, answer.Body)
	if err = errors.Join(err, fresh.Close()); err != nil {
		return fmt.Errorf("virtual media: after %d bytes: %w", n, err)
	}
	return os.Rename(d.path+".new", d.path)
}

func (d *drive) close() error { return d.stack.Close() }
