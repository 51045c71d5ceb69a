// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FileURL says of each checksum what Files does.
func TestFileURL(t *testing.T) {
	live := &LiveSystem{Kernel: LiveFile{URL: "k", Checksum: "2"}, Initrd: LiveFile{URL: "i", Checksum: "3"}}
	same := &LiveSystem{Kernel: LiveFile{URL: "k", Checksum: "2"}, Initrd: LiveFile{URL: "i", Checksum: "2"}}
	for name, claim := range map[string]HostClaim{
		"nothing":              {},
		"an image":             {Image: Image{URL: "a", Checksum: "1"}},
		"a live system":        {Live: live},
		"both":                 {Image: Image{URL: "a", Checksum: "1"}, Live: live},
		"one file, two places": {Image: Image{URL: "a", Checksum: "2"}, Live: same},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for _, checksum := range []string{"", "1", "2", "3", "4"} {
				if url, ok := claim.FileURL(checksum); ok {
					got[checksum] = url
				}
			}
			if diff := cmp.Diff(claim.Files(), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
