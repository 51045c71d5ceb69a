// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/image"
)

// writeAs writes an image that is declared with a format.
func writeAs(t *testing.T, dev block.Device, src *agenttest.Images, disk string, opts image.Options) (image.Result, error) {
	t.Helper()
	img, err := image.Open(t.Context(), request(src.Start(t)), image.Format{Checksum: src.Checksum(), Disk: disk})
	if err != nil {
		return image.Result{}, err
	}
	defer img.Close()
	opts.Reserved = reserved
	return img.Write(t.Context(), dev, opts)
}

func TestWriteQcow2(t *testing.T) {
	const size = 12 * mib
	raw := rawImage(9*mib + 512)
	for _, c := range []struct {
		name   string
		layout agenttest.Qcow2
		server *agenttest.Images
		around string
		err    error
	}{
		{name: "plain clusters"},
		{name: "compressed clusters", layout: agenttest.Qcow2{Deflate: true}},
		{name: "small clusters", layout: agenttest.Qcow2{Deflate: true, ClusterBits: 12}},
		{name: "large clusters", layout: agenttest.Qcow2{ClusterBits: 21}},
		{name: "tables behind clusters", layout: agenttest.Qcow2{Deflate: true, TablesLast: true}},
		{name: "while it is being fetched", server: &agenttest.Images{Busy: 2}},
		{name: "interrupted", layout: agenttest.Qcow2{TablesLast: true}, server: &agenttest.Images{CutAt: []int{100_000, 2, 100, 70_000}}},
		{name: "no ranges", server: &agenttest.Images{NoRange: true}},
		{name: "no ranges, tables behind clusters", layout: agenttest.Qcow2{TablesLast: true}, server: &agenttest.Images{NoRange: true}, err: image.ErrFormat},
		{name: "gzip around it", around: "gzip"},
		{name: "zstd around it", layout: agenttest.Qcow2{ClusterBits: 12, Deflate: true}, around: "zstd"},
		{name: "xz around it", around: "xz"},
		{name: "zstd around it, tables behind clusters", layout: agenttest.Qcow2{TablesLast: true}, around: "zstd", err: image.ErrFormat},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := c.server
			if server == nil {
				server = &agenttest.Images{}
			}
			server.Content = compress(t, c.around, c.layout.Image(t, raw))
			dev, path := oldDisk(t, size)
			var last int64
			result, err := writeAs(t, dev, server, image.Qcow2, image.Options{OnWrite: func(n int64, percent int) {
				if n < last || percent < 0 || percent > 100 {
					t.Errorf("progress from %d to %d bytes, %d %%", last, n, percent)
				}
				last = n
			}})
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			want := image.Result{Bytes: int64(len(raw)), SourceBytes: int64(len(server.Content))}
			if diff := cmp.Diff(want, result); diff != "" || last != result.Bytes {
				t.Error(last, diff)
			}
			compare(t, path, wanted(raw, size))
		})
	}
}

func TestQcow2Refused(t *testing.T) {
	raw := rawImage(3 * mib)
	good := agenttest.Qcow2{Deflate: true}.Image(t, raw)
	damaged := bytes.Clone(good)
	copy(damaged[len(good)-300_000:], bytes.Repeat([]byte{0xff}, 300_000))
	for _, c := range []struct {
		name, disk string
		content    []byte
		disksize   int64
		err        error
		message    string
	}{
		{"declared as raw", image.Raw, good, 12 * mib, image.ErrFormat, "set the image's format to qcow2"},
		{"declared as raw, compressed", image.Raw, compress(t, "zstd", good), 12 * mib, image.ErrFormat, "set the image's format to qcow2"},
		{"raw, declared as qcow2", image.Qcow2, raw, 12 * mib, image.ErrFormat, "header"},
		{"raw and compressed, declared as qcow2", image.Qcow2, compress(t, "gzip", raw), 12 * mib, image.ErrFormat, "header"},
		{"larger than the disk", image.Qcow2, good, 2*mib + 4096, image.ErrTooLarge, "3145728"},
		{"larger than the disk, compressed", image.Qcow2, compress(t, "zstd", good), 2*mib + 4096, image.ErrTooLarge, "3145728"},
		{"damaged clusters", image.Qcow2, damaged, 12 * mib, image.ErrFormat, "of the disk"},
		{"another format", "vmdk", good, 12 * mib, image.ErrFormat, "vmdk"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev, path := oldDisk(t, c.disksize)
			_, err := writeAs(t, dev, &agenttest.Images{Content: c.content}, c.disk, image.Options{})
			if !errors.Is(err, c.err) || !strings.Contains(fmt.Sprint(err), c.message) {
				t.Errorf("error %v, want %v with %q", err, c.err, c.message)
			}
			notBootable(t, path, raw)
		})
	}
}

func TestQcow2WrongChecksum(t *testing.T) {
	raw := rawImage(4 * mib)
	server := &agenttest.Images{Content: agenttest.Qcow2{}.Image(t, raw)}
	url := server.Start(t)
	sum := (&agenttest.Images{Content: raw}).Checksum()
	img, err := image.Open(t.Context(), request(url), image.Format{Checksum: sum, Disk: image.Qcow2})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	dev, path := oldDisk(t, 12*mib)
	if _, err := img.Write(t.Context(), dev, image.Options{Reserved: reserved}); !errors.Is(err, image.ErrChecksum) {
		t.Errorf("error %v", err)
	}
	notBootable(t, path, raw)
}

func TestXZBounds(t *testing.T) {
	good := compress(t, "xz", rawImage(2*mib+4096))
	change := func(at int, value byte) []byte {
		b := bytes.Clone(good)
		b[at] = value
		return b
	}
	for _, c := range []struct {
		name    string
		content []byte
		message string
	}{
		{"4 GiB of memory", change(16, 40), "MiB of memory"},
		{"another filter", change(14, 0x04), "in place of LZMA2"},
		{"two filters", change(13, 0x01), "filters"},
		{"cut in its header", good[:13], "header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := image.Open(t.Context(), request((&agenttest.Images{Content: c.content}).Start(t)),
				image.Format{Checksum: (&agenttest.Images{Content: c.content}).Checksum()})
			if !errors.Is(err, image.ErrFormat) || !strings.Contains(fmt.Sprint(err), c.message) {
				t.Errorf("error %v, want %q", err, c.message)
			}
		})
	}
}
