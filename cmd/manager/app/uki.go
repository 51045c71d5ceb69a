// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/media"
	"github.com/ingot-metal/ingot/pxe/uki"
)

// More files of the agent image.
const (
	agentStub = "linuxx64.efi.stub"
	// agentUnified is a unified kernel image that somebody signed; where it is missing,
	// one is made at the start.
	agentUnified = "agent.efi"
)

// unified is the agent as one UEFI program.
type unified struct {
	file pxe.File
	disc *media.Template
}

// loadUnified takes the signed image of --agent-image-dir, or makes one, and registers
// it. Without the stub there is none, and what needs it is not booted: ok is false.
func loadUnified(o *Options, pins []token.Pin, files *pxe.Files) (out unified, ok bool, err error) {
	path := filepath.Join(o.AgentImageDir, agentUnified)
	image, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := checkUnified(image, pins); err != nil {
			return unified{}, false, fmt.Errorf("%s: %w", path, err)
		}
	case errors.Is(err, fs.ErrNotExist):
		if image, err = makeUnified(o, pins); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return unified{}, false, nil
			}
			return unified{}, false, err
		}
		if path, err = keepUnified(o, image); err != nil {
			return unified{}, false, err
		}
	default:
		return unified{}, false, fmt.Errorf("--agent-image-dir: %w", err)
	}
	if out.file, err = files.Add(path); err != nil {
		return unified{}, false, err
	}
	if out.disc, err = media.New(image); err != nil {
		return unified{}, false, fmt.Errorf("%s: %w", path, err)
	}
	return out, true, nil
}

// makeUnified joins the parts in --agent-image-dir.
func makeUnified(o *Options, pins []token.Pin) ([]byte, error) {
	var parts [3][]byte
	for i, name := range []string{agentStub, agentKernel, agentInitramfs} {
		data, err := os.ReadFile(filepath.Join(o.AgentImageDir, name))
		if err != nil {
			return nil, fmt.Errorf("--agent-image-dir: %w", err)
		}
		parts[i] = data
	}
	// The kernel prints its command line unless it is quiet; here no secret is on it.
	words := append([]string{"quiet"}, o.AgentArguments...)
	words = append(words, agentapi.ArgPin+"="+joinPins(pins))
	image, err := uki.Build(uki.Parts{Stub: parts[0], Kernel: parts[1], Initrd: parts[2],
		CommandLine: strings.Join(words, " "), OSRelease: "NAME=\"Ingot agent\"\nID=ingot\n"})
	if err != nil {
		return nil, fmt.Errorf("--agent-image-dir: %w", err)
	}
	return image, nil
}

// keepUnified writes the image beside the cached ones, in one step.
func keepUnified(o *Options, image []byte) (string, error) {
	dir := filepath.Join(o.ImageCacheDir, "unified")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("--image-cache-dir: %w", err)
	}
	path := filepath.Join(dir, agentUnified)
	next := path + ".next"
	if err := os.WriteFile(next, image, 0o644); err != nil {
		return "", fmt.Errorf("--image-cache-dir: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return "", fmt.Errorf("--image-cache-dir: %w", err)
	}
	return path, nil
}

// checkUnified refuses an image that would trust another manager, or any: its command
// line is signed with it, and nothing that comes later takes the place of its pins. So
// each of them must be one of this manager's, that of its present key among them. The
// argument stands there once and as it is: of several, or between quotes, the agent might
// read another.
func checkUnified(image []byte, pins []token.Pin) error {
	line, err := uki.CommandLine(image)
	if err != nil {
		return err
	}
	const again = "; make and sign it again (docs/book/boot.md)"
	var value string
	for word := range strings.FieldsSeq(line) {
		if name, v, _ := strings.Cut(word, "="); name == agentapi.ArgPin {
			value = v
		}
	}
	built := strings.Split(value, ",")
	if len(pins) == 0 || !slices.Contains(built, string(pins[0])) {
		return fmt.Errorf("its command line has no %s with the pin of this manager's agent key%s", agentapi.ArgPin, again)
	}
	if strings.Count(line, agentapi.ArgPin) > 1 {
		return fmt.Errorf("its command line has %s more than once%s", agentapi.ArgPin, again)
	}
	for _, pin := range built {
		if !slices.Contains(pins, token.Pin(pin)) {
			return fmt.Errorf("its command line has an %s with %q, which is no pin of this manager's agent keys%s", agentapi.ArgPin, pin, again)
		}
	}
	return nil
}

func joinPins(pins []token.Pin) string {
	texts := make([]string, 0, len(pins))
	for _, pin := range pins {
		texts = append(texts, string(pin))
	}
	return strings.Join(texts, ",")
}

// PrintUnified writes the unified kernel image that this process would serve, unsigned,
// for whoever signs it. It needs --agent-key-dir.
func PrintUnified(o *Options, to io.Writer) error {
	files, err := token.ReadDir(o.AgentKeyDir)
	if err != nil {
		return fmt.Errorf("--agent-key-dir: %w", err)
	}
	pins, err := files.Pins()
	if err != nil {
		return fmt.Errorf("--agent-key-dir: %w", err)
	}
	image, err := makeUnified(o, pins)
	if err != nil {
		return err
	}
	_, err = to.Write(image)
	return err
}

// The signed boot loaders in --agent-image-dir: beside the kernel, which the same GRUB
// must find signed by the same maker.
const (
	agentShim = "shimx64.efi"
	agentGRUB = "grubx64.efi"
)

// loadSigned reads the signed boot loaders. A directory with neither is none's fault;
// one alone is of no use, and an error.
func loadSigned(dir string) (bootserver.Signed, error) {
	shim, err := os.ReadFile(filepath.Join(dir, agentShim))
	grub, errGRUB := os.ReadFile(filepath.Join(dir, agentGRUB))
	if errors.Is(err, fs.ErrNotExist) && errors.Is(errGRUB, fs.ErrNotExist) {
		return bootserver.Signed{}, nil
	}
	if err := errors.Join(err, errGRUB); err != nil {
		return bootserver.Signed{}, fmt.Errorf("--agent-image-dir: signed boot loaders: %w", err)
	}
	return bootserver.Signed{Shim: shim, GRUB: grub}, nil
}
