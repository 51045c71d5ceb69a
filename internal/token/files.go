// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files of a key directory, and the keys of a Secret. The manager has all of them. A boot server
// needs FileHMAC and FilePins only, and so holds no private key.
const (
	// FileHMAC and FileHMACOld hold the token keys as raw bytes. The old one is optional.
	FileHMAC    = "token.key"
	FileHMACOld = "token-old.key"
	// FileTLSKey is the private key (PEM, PKCS #8, ECDSA) of the agent API.
	FileTLSKey = "agent-tls.key"
	// FilePins holds the pins of the current and, on a second line, the next key.
	FilePins = "agent-tls.pins"
)

// Files holds the content of key files by name. Its String method hides the content.
type Files map[string][]byte

// String returns "***".
func (Files) String() string { return "***" }

// GoString returns "***".
func (Files) GoString() string { return "***" }

// ErrIncomplete means that a required file is missing.
var ErrIncomplete = errors.New("key file is missing")

func (f Files) need(name string) ([]byte, error) {
	data, ok := f[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, ErrIncomplete)
	}
	return data, nil
}

// Keys returns the token keys, the current one first.
func (f Files) Keys() (Keys, error) {
	current, err := f.need(FileHMAC)
	if err != nil {
		return Keys{}, err
	}
	keys := [][]byte{current}
	if old, ok := f[FileHMACOld]; ok {
		keys = append(keys, old)
	}
	return NewKeys(keys...)
}

// Pins returns the pins of the agent API's current key and, if there is one, the next key.
func (f Files) Pins() ([]Pin, error) {
	raw, err := f.need(FilePins)
	if err != nil {
		return nil, err
	}
	var pins []Pin
	for line := range strings.FieldsSeq(string(raw)) {
		pins = append(pins, Pin(line))
	}
	if len(pins) == 0 || len(pins) > 2 {
		return nil, fmt.Errorf("read %s: %d pins found, 1 or 2 required", FilePins, len(pins))
	}
	if _, err := Curl(pins); err != nil {
		return nil, err
	}
	return pins, nil
}

// Certificate returns a certificate for the private key of the agent API. Agents check the key only
// (I15), so that the certificate's name and dates do not matter and it is not stored.
func (f Files) Certificate() (tls.Certificate, error) {
	raw, err := f.need(FileTLSKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return tls.Certificate{}, fmt.Errorf("read %s: no PEM block", FileTLSKey)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read %s: %w", FileTLSKey, err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return tls.Certificate{}, fmt.Errorf("read %s: not an ECDSA key", FileTLSKey)
	}
	return selfSigned(ec)
}

// Check returns an error unless the manager can use the files: all required files are valid, and
// agents that have the pins accept the key.
func (f Files) Check() error {
	_, keysErr := f.Keys()
	pins, pinsErr := f.Pins()
	certificate, keyErr := f.Certificate()
	if err := errors.Join(keysErr, pinsErr, keyErr); err != nil {
		return err
	}
	if pin := PinOf(certificate.Leaf.RawSubjectPublicKeyInfo); !slices.Contains(pins, pin) {
		return fmt.Errorf("check %s: it lacks %s, the pin of %s; agents would reject the agent API", FilePins, pin, FileTLSKey)
	}
	return nil
}

// NewFiles generates keys.
func NewFiles() (Files, error) {
	hmacKey := make([]byte, MinKeyBytes)
	if _, err := rand.Read(hmacKey); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	var tlsKey bytes.Buffer
	if err := pem.Encode(&tlsKey, &pem.Block{Type: "PRIVATE KEY", Bytes: der}); err != nil {
		return nil, err
	}
	return Files{FileHMAC: hmacKey, FilePins: []byte(PinOf(spki) + "\n"), FileTLSKey: tlsKey.Bytes()}, nil
}

// ReadDir reads the key files of a directory. It returns ErrIncomplete if there is none.
func ReadDir(dir string) (Files, error) {
	files := Files{}
	for _, name := range []string{FileHMAC, FileHMACOld, FileTLSKey, FilePins} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case err == nil:
			files[name] = data
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("read key directory: %w", err)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read key directory %s: %w", dir, ErrIncomplete)
	}
	return files, nil
}

// Generate writes new keys to a directory that has none, for the demo and for tests.
func Generate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create key directory: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, FileTLSKey)); err == nil {
		return nil
	}
	files, err := NewFiles()
	if err != nil {
		return err
	}
	// The TLS key is written last: it marks the directory as complete.
	for _, name := range []string{FileHMAC, FilePins, FileTLSKey} {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o600); err != nil {
			return fmt.Errorf("write key directory: %w", err)
		}
	}
	return nil
}
