// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/eventually"
)

// Only images that a claim names are fetched.
func TestImage(t *testing.T) {
	image := infrav1.Image{URL: "http://images.example/x", Checksum: "sha256:" + strings.Repeat("1", 64)}
	for name, d := range everyWay(t, oneHost(func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
		h.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioning, Image: image}
	})...) {
		t.Run(name, func(t *testing.T) {
			if got, ok := d.Image(image.Checksum); !ok || got.URL != image.URL || got.Checksum != image.Checksum {
				t.Errorf("image = %+v, %t", got, ok)
			}
			for _, other := range []string{"", "sha256:" + strings.Repeat("2", 64)} {
				if got, ok := d.Image(other); ok {
					t.Errorf("%q is served from %s", other, got.URL)
				}
			}
		})
	}
}

// A directory that follows a cache answers by the present claims.
func TestFollowedClaims(t *testing.T) {
	image := infrav1.Image{URL: "http://images.example/x", Checksum: "sha256:" + strings.Repeat("1", 64)}
	objects := oneHost(nil)
	d, changes := following(t, objects...)
	host, _ := objects[0].(*infrav1.IngotHost)
	for _, step := range []struct {
		name  string
		claim *infrav1.HostClaim
		want  string
	}{
		{"a claim", &infrav1.HostClaim{Image: image}, image.URL},
		{"its image moves", &infrav1.HostClaim{Image: infrav1.Image{URL: "http://images.example/y", Checksum: image.Checksum}}, "http://images.example/y"},
		{"another image", &infrav1.HostClaim{Image: infrav1.Image{URL: image.URL, Checksum: "sha256:" + strings.Repeat("2", 64)}}, ""},
		{"the first again", &infrav1.HostClaim{Image: image}, image.URL},
		{"no claim", nil, ""},
	} {
		host = host.DeepCopy()
		host.Spec.Claim = step.claim
		changes["IngotHost"].Modify(host)
		eventually.Wait{Interval: time.Millisecond}.Until(t, step.name, eventually.Holds(func() bool {
			got, ok := d.Image(image.Checksum)
			return got.URL == step.want && ok == (step.want != "")
		}))
	}
}

// Files of live systems are found by their checksums.
func TestLiveFiles(t *testing.T) {
	kernel := infrav1.LiveFile{URL: "http://images.example/k", Checksum: "sha256:" + strings.Repeat("1", 64)}
	initrd := infrav1.LiveFile{URL: "http://images.example/i", Checksum: "sha256:" + strings.Repeat("2", 64)}
	for name, d := range everyWay(t, oneHost(func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
		h.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioning, Live: &infrav1.LiveSystem{Kernel: kernel, Initrd: initrd}}
	})...) {
		t.Run(name, func(t *testing.T) {
			for _, file := range []infrav1.LiveFile{kernel, initrd} {
				if got, ok := d.Image(file.Checksum); !ok || got.URL != file.URL || got.Checksum != file.Checksum {
					t.Errorf("%s: %+v, %t", file.URL, got, ok)
				}
			}
			if got, ok := d.Image("sha256:" + strings.Repeat("3", 64)); ok {
				t.Errorf("another file is served from %s", got.URL)
			}
		})
	}
}

// Machines keep the URL that they were created with. After the image has moved, hosts that are being
// installed name the new URL.
func TestImagePlaces(t *testing.T) {
	image := func(url string) infrav1.Image {
		return infrav1.Image{URL: "http://images.example/" + url, Checksum: "sha256:" + strings.Repeat("1", 64)}
	}
	host := func(state infrav1.ClaimState, url string, minute int) *infrav1.IngotHost {
		h := &infrav1.IngotHost{}
		h.Spec.Claim = &infrav1.HostClaim{State: state, Image: image(url)}
		if minute > 0 {
			h.Spec.Order = &infrav1.HostOrder{CreationTime: metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))}
		}
		return h
	}
	const working, done = infrav1.ClaimProvisioning, infrav1.ClaimProvisioned
	for _, tc := range []struct {
		name  string
		hosts []*infrav1.IngotHost
		want  []string
	}{
		{"none", nil, nil},
		{"a free host", []*infrav1.IngotHost{{}}, nil},
		{"one place", []*infrav1.IngotHost{host(done, "a", 0), host(working, "a", 1), host(done, "a", 0)}, []string{"a"}},
		{"those at work before those that are done", []*infrav1.IngotHost{host(done, "a", 0), host(working, "b", 1), host(done, "c", 9)}, []string{"b", "c", "a"}},
		{"the youngest order first", []*infrav1.IngotHost{host(working, "a", 1), host(working, "b", 3), host(working, "c", 2)}, []string{"b", "c", "a"}},
		{"a place by its youngest user", []*infrav1.IngotHost{host(working, "a", 1), host(working, "b", 2), host(working, "a", 3)}, []string{"a", "b"}},
		{"no order yet", []*infrav1.IngotHost{host(working, "b", 0), host(working, "a", 0), host(done, "c", 0)}, []string{"a", "b", "c"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			urls, _ := sourcesOf(slices.Values(tc.hosts), image("").Checksum)
			for _, url := range urls {
				got = append(got, strings.TrimPrefix(url, "http://images.example/"))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Each namespace's first URL comes before any second one.
func TestPlacesTakeTurns(t *testing.T) {
	checksum := "sha256:" + strings.Repeat("1", 64)
	host := func(namespace, url string, minute int) *infrav1.IngotHost {
		h := &infrav1.IngotHost{}
		h.Namespace = namespace
		h.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioning, Image: infrav1.Image{URL: url, Checksum: checksum}}
		h.Spec.Order = &infrav1.HostOrder{CreationTime: metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))}
		return h
	}
	urls, namespaces := sourcesOf(slices.Values([]*infrav1.IngotHost{
		host("b", "good", 1), host("a", "a1", 9), host("a", "a2", 8), host("a", "a3", 7), host("a", "good", 6),
	}), checksum)
	if diff := cmp.Diff([]string{"a1", "good", "a2", "a3"}, urls); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}
