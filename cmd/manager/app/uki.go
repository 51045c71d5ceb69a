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

// Optional files in --agent-image-dir.
const (
	agentStub = "linuxx64.efi.stub"
	// agentUKI is a signed unified kernel image. Without it the manager builds an unsigned one.
	agentUKI = "agent.efi"
)

// agentProgram is the agent as a unified kernel image (UKI), and on a CD image.
type agentProgram struct {
	file pxe.File
	disc *media.Template
}

// loadUKI loads the signed UKI of --agent-image-dir, or builds one, and registers it. ok is false
// without the stub: hosts then cannot boot by HTTP or virtual media.
func loadUKI(o *Options, pins []token.Pin, files *pxe.Files) (out agentProgram, ok bool, err error) {
	path := filepath.Join(o.AgentImageDir, agentUKI)
	image, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := checkUKI(image, pins); err != nil {
			return agentProgram{}, false, fmt.Errorf("check %s: %w", path, err)
		}
	case errors.Is(err, fs.ErrNotExist):
		if image, err = buildUKI(o, pins); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return agentProgram{}, false, nil
			}
			return agentProgram{}, false, err
		}
		if path, err = storeUKI(o, image); err != nil {
			return agentProgram{}, false, err
		}
	default:
		return agentProgram{}, false, fmt.Errorf("--agent-image-dir: %w", err)
	}
	if out.file, err = files.Add(path); err != nil {
		return agentProgram{}, false, err
	}
	if out.disc, err = media.New(image); err != nil {
		return agentProgram{}, false, fmt.Errorf("build the CD image of %s: %w", path, err)
	}
	return out, true, nil
}

// buildUKI builds the UKI from the files in --agent-image-dir.
func buildUKI(o *Options, pins []token.Pin) ([]byte, error) {
	var parts [3][]byte
	for i, name := range []string{agentStub, agentKernel, agentInitramfs} {
		data, err := os.ReadFile(filepath.Join(o.AgentImageDir, name))
		if err != nil {
			return nil, fmt.Errorf("--agent-image-dir: %w", err)
		}
		parts[i] = data
	}
	arguments := slices.Concat([]string{"quiet"}, o.AgentArguments, []string{agentapi.ArgPin + "=" + joinPins(pins)})
	image, err := uki.Build(uki.Parts{Stub: parts[0], Kernel: parts[1], Initrd: parts[2],
		CommandLine: strings.Join(arguments, " "), OSRelease: "NAME=\"Ingot agent\"\nID=ingot\n"})
	if err != nil {
		return nil, fmt.Errorf("--agent-image-dir: %w", err)
	}
	return image, nil
}

// storeUKI writes the image atomically into the image cache directory.
func storeUKI(o *Options, image []byte) (string, error) {
	dir := filepath.Join(o.ImageCacheDir, "unified")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("--image-cache-dir: %w", err)
	}
	path := filepath.Join(dir, agentUKI)
	next := path + ".next"
	if err := os.WriteFile(next, image, 0o644); err != nil {
		return "", fmt.Errorf("--image-cache-dir: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return "", fmt.Errorf("--image-cache-dir: %w", err)
	}
	return path, nil
}

// checkUKI rejects an image that trusts another manager, because nothing can override the pins of a
// signed command line. All its pins must be this manager's, and include the pin of the current key.
// The argument must occur once and unquoted, because the agent could otherwise read another value.
func checkUKI(image []byte, pins []token.Pin) error {
	line, err := uki.CommandLine(image)
	if err != nil {
		return err
	}
	const remedy = "; build and sign it again (docs/book/tasks/secure-boot.md)"
	var value string
	for word := range strings.FieldsSeq(line) {
		if name, v, _ := strings.Cut(word, "="); name == agentapi.ArgPin {
			value = v
		}
	}
	built := strings.Split(value, ",")
	if len(pins) == 0 || !slices.Contains(built, string(pins[0])) {
		return fmt.Errorf("the command line has no %s with the pin of this manager's agent key%s", agentapi.ArgPin, remedy)
	}
	if strings.Count(line, agentapi.ArgPin) > 1 {
		return fmt.Errorf("the command line contains %s more than once%s", agentapi.ArgPin, remedy)
	}
	for _, pin := range built {
		if !slices.Contains(pins, token.Pin(pin)) {
			return fmt.Errorf("the command line has an %s with %q, which is not a pin of this manager's agent keys%s", agentapi.ArgPin, pin, remedy)
		}
	}
	return nil
}

func joinPins(pins []token.Pin) string {
	var texts []string
	for _, pin := range pins {
		texts = append(texts, string(pin))
	}
	return strings.Join(texts, ",")
}

// PrintUnified writes the unsigned UKI of this process, for signing. It needs --agent-key-dir.
func PrintUnified(o *Options, to io.Writer) error {
	files, err := token.ReadDir(o.AgentKeyDir)
	if err != nil {
		return fmt.Errorf("--agent-key-dir: %w", err)
	}
	pins, err := files.Pins()
	if err != nil {
		return fmt.Errorf("--agent-key-dir: %w", err)
	}
	image, err := buildUKI(o, pins)
	if err != nil {
		return err
	}
	_, err = to.Write(image)
	return err
}

// The signed boot loaders in --agent-image-dir. GRUB requires a kernel signed by the same vendor.
const (
	agentShim = "shimx64.efi"
	agentGRUB = "grubx64.efi"
)

// loadSigned reads the signed boot loaders. Both may be missing, but not only one of them.
func loadSigned(dir string) (bootserver.Signed, error) {
	shim, err := os.ReadFile(filepath.Join(dir, agentShim))
	grub, errGRUB := os.ReadFile(filepath.Join(dir, agentGRUB))
	if errors.Is(err, fs.ErrNotExist) && errors.Is(errGRUB, fs.ErrNotExist) {
		return bootserver.Signed{}, nil
	}
	if err := errors.Join(err, errGRUB); err != nil {
		return bootserver.Signed{}, fmt.Errorf("--agent-image-dir: read the signed boot loaders: %w", err)
	}
	return bootserver.Signed{Shim: shim, GRUB: grub}, nil
}
