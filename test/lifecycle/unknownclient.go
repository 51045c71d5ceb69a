// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// A Dialer is a place on the servers' network.
type Dialer interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// A UnknownClient speaks the agent API with a key of its own, from some place on the
// servers' network, with a token that it has got hold of.
type UnknownClient struct {
	client *http.Client
	server string
	token  string
	// headers of every request; may be nil.
	headers http.Header
}

// ErrNoAgentBoot says that a boot script boots no agent.
var ErrNoAgentBoot = errors.New("the boot script holds no token")

// newUnknownClient makes an unknown client with a fresh key.
func newUnknownClient(t *testing.T, from Dialer) *UnknownClient {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	s := &UnknownClient{client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: from.DialContext,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, // who does wrong does not verify
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		},
	}}}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// Steal reads the token out of a host's boot script, as anybody on the network can.
func (s *UnknownClient) Steal(ctx context.Context, bootServer, mac string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+bootServer+"/boot/"+mac+"/script.ipxe", nil)
	if err != nil {
		return err
	}
	maps.Copy(request.Header, s.headers)
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	for word := range strings.FieldsSeq(string(text)) {
		if value, ok := strings.CutPrefix(word, "ingot.token="); ok {
			s.token = value
		}
		if value, ok := strings.CutPrefix(word, "ingot.server="); ok {
			s.server = value
		}
	}
	if s.token == "" || s.server == "" {
		return ErrNoAgentBoot
	}
	return nil
}

// Call makes one call of the agent API; the reason is empty when it was accepted.
func (s *UnknownClient) Call(ctx context.Context, path string, in any) (agentapi.Reason, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+s.server+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	maps.Copy(request.Header, s.headers)
	request.Header.Set(agentapi.TokenHeader, "Bearer "+s.token)
	response, err := s.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return "", nil
	}
	var refusal agentapi.Error
	if err := json.NewDecoder(response.Body).Decode(&refusal); err != nil {
		return "", fmt.Errorf("answer %d: %w", response.StatusCode, err)
	}
	return refusal.Reason, nil
}
