// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/pflag"

	"github.com/ingot-metal/ingot/pxe/httpd"
)

// ImageOptions say where the boot server fetches OS images from.
type ImageOptions struct {
	// Sources are entries as httpd.ParseSources reads them.
	Sources []string
	// CAFile holds certificates that image servers may have beside those that the
	// system trusts.
	CAFile string
}

func (o *ImageOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Sources, "image-sources", o.Sources, "Where OS images, and images of firmware that Ingot reads, may be fetched from: hosts (images.example.com, *.example.com), URLs above them (https://images.example.com/os/), networks (10.20.0.0/16). Hosts that are named may have private addresses; loopback and link-local ones must be named as networks. Empty: every public address, and no private one.")
	fs.StringVar(&o.CAFile, "image-ca-file", o.CAFile, "File with PEM certificates of authorities that image servers may be verified by, beside the system's.")
}

// client fetches images from where the operator allows. It uses the proxies of the
// environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).
func (o *ImageOptions) client() (*http.Client, error) {
	allowed, err := httpd.ParseSources(o.Sources)
	if err != nil {
		return nil, fmt.Errorf("--image-sources: %w", err)
	}
	if o.CAFile == "" {
		return httpd.NewClient(httpd.ClientConfig{Allowed: allowed}), nil
	}
	pem, err := os.ReadFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--image-ca-file: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("certificates of the system: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--image-ca-file: %s holds no PEM certificate", o.CAFile)
	}
	return httpd.NewClient(httpd.ClientConfig{Allowed: allowed, RootCAs: roots}), nil
}
