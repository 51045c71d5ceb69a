// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Placeholders in LiveSystem.commandLine.
const (
	// LiveDataURL is the address of the bootstrap data.
	LiveDataURL = "{dataURL}"
	// LiveSeedURL is the address, with a slash at its end, below which cloud-init's
	// NoCloud datasource finds user-data, meta-data, vendor-data and network-config.
	LiveSeedURL = "{seedURL}"
	// LivePin is the digest of the key of both addresses under HTTPS, as curl's
	// --pinnedpubkey takes it.
	LivePin = "{pin}"
)

// LiveSystem is a kernel and an initramfs that run from memory and install themselves: an
// installer, or a system that persists itself. It fetches its bootstrap data once, from an
// address that soon expires, and boots from its disk from then on.
// +kubebuilder:validation:XValidation:rule="!has(self.dataTransport) || self.dataTransport != 'HTTPS' || self.commandLine.contains('{pin}')",fieldPath=".commandLine",messageExpression="self.commandLine + ' must hold {pin} where dataTransport is HTTPS: no authority vouches for the certificate, its key is known by this digest alone; pass it to what fetches the data'"
type LiveSystem struct {
	// kernel to start: a Linux kernel of the host's architecture, as its boot loader has it.
	// A host with Secure Boot starts only one that its keys vouch for.
	// +required
	Kernel LiveFile `json:"kernel,omitempty,omitzero"`
	// initrd is the initramfs, or several in one file, as the kernel takes it. With the kernel
	// it must fit into a third of the host's memory.
	// +required
	Initrd LiveFile `json:"initrd,omitempty,omitzero"`
	// commandLine of the kernel, in which Ingot replaces {dataURL} by the address of the
	// bootstrap data, {seedURL} by the one for cloud-init's NoCloud datasource, and {pin} by
	// the digest of their key: "talos.platform=metal talos.config={dataURL}", or
	// "autoinstall ds=nocloud;s={seedURL}".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ -~]*$')",message="must be printable ASCII in one line, as a kernel's command line is"
	// +kubebuilder:validation:XValidation:rule="self.contains('{dataURL}') || self.contains('{seedURL}')",message="must hold {dataURL}, or {seedURL} for cloud-init: the system would not find its bootstrap data, and a host that nobody asks for it is never provisioned; for example talos.config={dataURL}"
	// +kubebuilder:validation:XValidation:rule="!self.replace('{dataURL}', '').replace('{seedURL}', '').replace('{pin}', '').contains('{')",message="must hold no { but those of {dataURL}, {seedURL} and {pin}"
	CommandLine string `json:"commandLine,omitempty"`
	// dataTransport is how the bootstrap data goes to the system. HTTP is what installers
	// take: whoever listens on the provisioning network sees the data. HTTPS needs a system
	// that checks the server's key against {pin}; a cluster whose bootTrust is Verified takes
	// no other.
	// +optional
	// +kubebuilder:default=HTTP
	DataTransport LiveTransport `json:"dataTransport,omitempty"`
}

// LiveFile is one file of a live system.
// +kubebuilder:validation:XValidation:rule="!self.url.contains('@') || self.url.startsWith('oci://') && !self.url.matches('^oci://[^/]*@')",fieldPath=".url",message="must not hold a user name or password (the value is not repeated here); serve the file where none is needed"
type LiveFile struct {
	// url of the file: http, https, or oci://registry/repository@sha256:… of an artefact
	// whose one layer is the file.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || self.startsWith('oci://') || (isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '')",message="must be an http, https or oci URL with a host, for example https://images.example/vmlinuz-amd64"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('oci://') || self.matches('^oci://[^/]*@') || self.matches('^oci://([a-z0-9-]+([.][a-z0-9-]+)+(:[0-9]+)?|[a-z0-9-]+:[0-9]+)(/[a-z0-9]+([._-]+[a-z0-9]+)*)+@sha256:[0-9a-f]{64}$')",message="must be oci://registry/repository@sha256: and the 64 digits of the manifest's digest, without a tag, which may name another file tomorrow; oras resolve prints the digest"
	URL string `json:"url,omitempty"`
	// checksum of the file at the URL, of an artefact the digest of its layer:
	// "sha256:<hex>" or "sha512:<hex>".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$')",message="must be sha256: and 64, or sha512: and 128 hexadecimal digits in lower case, as sha256sum prints them for the file at the URL"
	Checksum string `json:"checksum,omitempty"`
}

// LiveTransport is how bootstrap data goes to a live system.
// +kubebuilder:validation:Enum=HTTP;HTTPS
type LiveTransport string

// The transports.
const (
	// LiveHTTP: in clear.
	LiveHTTP LiveTransport = "HTTP"
	// LiveHTTPS: to a system that knows the server by the digest of its key.
	LiveHTTPS LiveTransport = "HTTPS"
)

// LiveFetch is the one fetch of the bootstrap data by a live system: the moment at which
// its claim became Provisioned.
type LiveFetch struct {
	// at is when the data was first given.
	// +required
	At metav1.Time `json:"at,omitempty,omitzero"`
	// address that asked. It alone may ask again, for as long as a reply may have been lost.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`
}

// Files of the claim that the boot servers fetch, by checksum: those of the image, or of
// the live system.
func (c *HostClaim) Files() map[string]string {
	files := map[string]string{}
	if c.Image.Checksum != "" {
		files[c.Image.Checksum] = c.Image.URL
	}
	if c.Live != nil {
		files[c.Live.Kernel.Checksum] = c.Live.Kernel.URL
		files[c.Live.Initrd.Checksum] = c.Live.Initrd.URL
	}
	return files
}

// FileURL is where the file with this checksum lies, as Files says, without a map for each of
// many claims that are asked.
func (c *HostClaim) FileURL(checksum string) (string, bool) {
	switch {
	case checksum == "":
		return "", false
	case c.Live != nil && c.Live.Initrd.Checksum == checksum:
		return c.Live.Initrd.URL, true
	case c.Live != nil && c.Live.Kernel.Checksum == checksum:
		return c.Live.Kernel.URL, true
	}
	return c.Image.URL, c.Image.Checksum == checksum
}
