// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	cloudConfigHeader = "#cloud-config"
	jinjaHeader       = "## template: jinja"
	// maxFile bounds a decompressed file, in bytes.
	maxFile = 16 << 20
)

// errNoKubeadm reports user data that does not run kubeadm.
var errNoKubeadm = errors.New("user data runs no kubeadm")

// cloudConfig is the supported part of #cloud-config.
type cloudConfig struct {
	WriteFiles []struct {
		Path     string `json:"path"`
		Content  string `json:"content"`
		Encoding string `json:"encoding"`
		Append   bool   `json:"append"`
	} `json:"write_files"`
	// RunCmd holds strings for the shell, and lists of words.
	RunCmd []any `json:"runcmd"`
}

// script is the part of the user data for kubeadm.
type script struct {
	// files by path.
	files map[string][]byte
	// command is "init" or "join", and config the path of kubeadm's configuration.
	command, config string
}

// kubeadmCommand finds kubeadm in a command line.
var kubeadmCommand = regexp.MustCompile(`\bkubeadm\s+(init|join)\s(?:.*?\s)?--config[=\s]\s*(\S+)`)

// parseUserData renders and parses user data like cloud-init. variables are those of
// instance-data.json.
func parseUserData(userData string, variables map[string]string) (*script, error) {
	rest, jinja := strings.CutPrefix(userData, jinjaHeader)
	if jinja {
		var err error
		if userData, err = renderJinja(strings.TrimLeft(rest, " \t\r\n"), variables); err != nil {
			return nil, err
		}
	}
	if !strings.HasPrefix(userData, cloudConfigHeader) {
		return nil, errNoKubeadm
	}
	config := cloudConfig{}
	if err := yaml.Unmarshal([]byte(userData), &config); err != nil {
		return nil, fmt.Errorf("cloud-config: %w", err)
	}
	s := &script{files: map[string][]byte{}}
	for _, file := range config.WriteFiles {
		content, err := decodeFile(file.Content, file.Encoding)
		if err != nil {
			return nil, fmt.Errorf("write_files: %s: %w", file.Path, err)
		}
		if file.Append {
			content = append(s.files[file.Path], content...)
		}
		s.files[file.Path] = content
	}
	for _, command := range config.RunCmd {
		if match := kubeadmCommand.FindStringSubmatch(commandLine(command)); match != nil {
			s.command, s.config = match[1], match[2]
			return s, nil
		}
	}
	return nil, errNoKubeadm
}

// commandLine returns one entry of runcmd as one line.
func commandLine(command any) string {
	words, ok := command.([]any)
	if !ok {
		return fmt.Sprint(command)
	}
	line := make([]string, len(words))
	for i, word := range words {
		line[i] = fmt.Sprint(word)
	}
	return strings.Join(line, " ")
}

// decodeFile decodes the encodings of write_files (cloud-init's cc_write_files): "gz+b64" is base64
// of gzip.
func decodeFile(content, encoding string) ([]byte, error) {
	data := []byte(content)
	for _, word := range slices.Backward(strings.Split(strings.ReplaceAll(encoding, "gzip", "gz"), "+")) {
		var err error
		switch word {
		case "", "text/plain":
		case "b64", "base64":
			data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(data)), ""))
		case "gz":
			data, err = unzip(data)
		default:
			err = fmt.Errorf("unknown encoding %q", encoding)
		}
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

func unzip(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(reader, maxFile+1))
	if err == nil && len(out) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	return out, err
}

// placeholder is a jinja expression with only a variable.
var placeholder = regexp.MustCompile(`\{\{-?\s*([A-Za-z_][\w.]*(?:\[["'][\w-]+["']\])*)\s*-?\}\}`)

// subscripts converts a["b-c"] to a.b_c.
var subscripts = strings.NewReplacer(`["`, ".", `['`, ".", `"]`, "", `']`, "", "-", "_")

// renderJinja replaces variables and rejects other jinja expressions. A missing variable has the same
// result as in cloud-init.
func renderJinja(text string, variables map[string]string) (string, error) {
	out := placeholder.ReplaceAllStringFunc(text, func(expression string) string {
		name := subscripts.Replace(placeholder.FindStringSubmatch(expression)[1])
		if value, ok := variables[name]; ok {
			return value
		}
		return "CI_MISSING_JINJA_VAR/" + name[strings.LastIndex(name, ".")+1:]
	})
	if strings.Contains(out, "{%") || strings.Contains(out, "{{") {
		return "", errors.New("user data: unsupported jinja expression")
	}
	return out, nil
}

// instanceData returns the variables that cloud-init derives from NoCloud's meta-data.
func instanceData(metaData string) (map[string]string, error) {
	meta := map[string]any{}
	if err := yaml.Unmarshal([]byte(metaData), &meta); err != nil {
		return nil, fmt.Errorf("meta-data: %w", err)
	}
	variables := map[string]string{}
	for key, value := range meta {
		// Jinja names have no hyphens, so cloud-init replaces them.
		variables["ds.meta_data."+strings.ReplaceAll(key, "-", "_")] = fmt.Sprint(value)
	}
	for standard, key := range map[string]string{"local_hostname": "local_hostname", "instance_id": "instance_id"} {
		if value, ok := variables["ds.meta_data."+key]; ok {
			variables["v1."+standard], variables[standard] = value, value
		}
	}
	return variables, nil
}
