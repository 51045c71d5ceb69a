// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package media

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/test/needs"
)

func image(t *testing.T, program, file []byte) []byte {
	t.Helper()
	template, err := New(program)
	if err != nil {
		t.Fatal(err)
	}
	src, err := template.Image(file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(src)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != template.Size() || len(b)%isoSector != 0 {
		t.Fatalf("%d bytes, but Size is %d", len(b), template.Size())
	}
	return b
}

// program returns bytes that encode their position.
func program(n int) []byte {
	b := make([]byte, n)
	for i := 0; i+4 <= n; i += 4 {
		binary.LittleEndian.PutUint32(b[i:], uint32(i))
	}
	return b
}

// The image is identical on all machines. Update the digests after intended layout changes.
func TestGolden(t *testing.T) {
	for name, tc := range map[string]struct {
		program int
		file    string
		want    string
	}{
		"small":           {5000, "ingot.token=t\n", "2fd759f74481e62f3586d5a2b5aebd2933d7d5c5b5482d009689f3fd050948a5"},
		"another file":    {5000, "ingot.token=u\n", "4f946ce787e279aa87702e53927b9c4c3f99420a54ae9bb72968092273c2fa26"},
		"larger clusters": {200 << 20, "", "bda7d05dbecf801569a74d6a4b5cf64fbefacc5a71c833f2d23b0b4a51419a5f"},
	} {
		t.Run(name, func(t *testing.T) {
			sum := sha256.Sum256(image(t, program(tc.program), []byte(tc.file)))
			if got := hex.EncodeToString(sum[:]); got != tc.want {
				t.Errorf("SHA-256 %s, want %s", got, tc.want)
			}
		})
	}
}

// mtools find both files in the FAT of the El Torito catalog.
func TestFilesCanBeRead(t *testing.T) {
	needs.Program(t, "mcopy")
	for name, size := range map[string]int{"small": 100, "a kernel's size": 18<<20 + 7, "large": 150 << 20} {
		t.Run(name, func(t *testing.T) {
			want := program(size)
			disc := image(t, want, []byte("ingot.server=192.0.2.1:8843\n"))
			catalog := disc[binary.LittleEndian.Uint32(disc[bootAt*isoSector+71:])*isoSector:]
			at := int(binary.LittleEndian.Uint32(catalog[40:])) * isoSector
			if sectors := int(binary.LittleEndian.Uint16(catalog[38:])); sectors != 0 && at+sectors*512 != len(disc) {
				t.Errorf("the catalog has %d sectors at %d of %d bytes", sectors, at, len(disc))
			}
			path := filepath.Join(t.TempDir(), "esp.img")
			if err := os.WriteFile(path, disc[at:], 0o600); err != nil {
				t.Fatal(err)
			}
			read := func(name string) []byte {
				out, err := exec.Command("mtype", "-i", path, "::"+name).Output()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return out
			}
			if got := read(Program); !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes differ from %d", Program, len(got), len(want))
			}
			if got := string(read(File)); len(got) != FileSize || strings.TrimRight(got, "\n") != "ingot.server=192.0.2.1:8843" {
				t.Errorf("%s is %q", File, got)
			}
		})
	}
}

// The descriptors fulfill ECMA-119 and El Torito.
func TestVolumeDescriptors(t *testing.T) {
	disc := image(t, program(5000), nil)
	for at, want := range map[int]string{
		primaryAt * isoSector: "\x01CD001\x01", bootAt * isoSector: "\x00CD001\x01EL TORITO SPECIFICATION\x00",
		endAt * isoSector: "\xffCD001\x01", primaryAt*isoSector + 40: "INGOT ",
	} {
		if got := string(disc[at : at+len(want)]); got != want {
			t.Errorf("at %d: %q, want %q", at, got, want)
		}
	}
	if n := int(binary.LittleEndian.Uint32(disc[primaryAt*isoSector+80:])) * isoSector; n != len(disc) {
		t.Errorf("the volume descriptor has %d bytes, want %d", n, len(disc))
	}
	var sum uint16
	for i := 0; i < 32; i += 2 {
		sum += binary.LittleEndian.Uint16(disc[catalogAt*isoSector+i:])
	}
	if sum != 0 {
		t.Errorf("the catalog's words sum to %#x", sum)
	}
}

// BMCs read ranges, which must be consistent with the whole.
func TestRanges(t *testing.T) {
	template, err := New(program(9000))
	if err != nil {
		t.Fatal(err)
	}
	whole := image(t, program(9000), []byte("x"))
	src, err := template.Image([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct{ at, n int }{{0, 1}, {32768, 2048}, {template.fileAt, 10}, {len(template.head) - 3, 7}, {len(template.head) + 8990, 40}, {len(whole) - 5, 5}} {
		if _, err := src.Seek(int64(r.at), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, r.n)
		if _, err := io.ReadFull(src, got); err != nil || !bytes.Equal(got, whole[r.at:r.at+r.n]) {
			t.Errorf("%d bytes at %d differ (%v)", r.n, r.at, err)
		}
	}
}

func TestNewRejectsInvalidInput(t *testing.T) {
	if _, err := New(nil); !errors.Is(err, ErrImage) {
		t.Errorf("no program: %v", err)
	}
	if _, err := newLayout(3 << 30); !errors.Is(err, ErrImage) {
		t.Errorf("a program of 3 GiB: %v", err)
	}
	template, err := New([]byte("p"))
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Repeat("secret", FileSize)
	if _, err := template.Image([]byte(secret)); !errors.Is(err, ErrImage) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a file too long: %v", err)
	}
}

func TestOnlyTheFileDiffersBetweenHosts(t *testing.T) {
	a, b := image(t, program(5000), []byte("one")), image(t, program(5000), []byte("two"))
	template, err := New(program(5000))
	if err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if a[i] != b[i] && (i < template.fileAt || i >= template.fileAt+FileSize) {
			t.Fatalf("byte %d differs", i)
		}
	}
}
