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

// ImageOptions selects the servers from which OS images are fetched.
type ImageOptions struct {
	// Sources contains entries for httpd.ParseSources.
	Sources []string
	// CAFile contains CA certificates for image servers, in addition to the system's.
	CAFile string
}

func (o *ImageOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Sources, "image-sources", o.Sources, "Allowed sources of OS images and firmware images, separated by commas: hosts (images.example.com, *.example.com), URL prefixes (https://images.example.com/os/) and networks (10.20.0.0/16). Listed hosts may have private addresses; loopback and link-local addresses must be listed as networks. If empty, all public addresses are allowed and private ones are not.")
	fs.StringVar(&o.CAFile, "image-ca-file", o.CAFile, "PEM file with CA certificates for image servers, in addition to the system's.")
}

// client returns an HTTP client for the allowed sources. It uses the proxies of the environment
// (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).
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
		return nil, fmt.Errorf("read the system's CA certificates: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--image-ca-file: %s contains no PEM certificate", o.CAFile)
	}
	return httpd.NewClient(httpd.ClientConfig{Allowed: allowed, RootCAs: roots}), nil
}
