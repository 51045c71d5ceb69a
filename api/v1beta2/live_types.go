// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Placeholders in LiveSystem.commandLine.
const (
	// LiveDataURL stands for the URL of the bootstrap data.
	LiveDataURL = "{dataURL}"
	// LiveSeedURL stands for the base URL of cloud-init's NoCloud data source, with a trailing
	// slash. Below it are user-data, meta-data, vendor-data and network-config.
	LiveSeedURL = "{seedURL}"
	// LivePin stands for the digest of the server's public key, in the format of curl's option
	// --pinnedpubkey. It applies to both URLs with HTTPS.
	LivePin = "{pin}"
)

// LiveSystem is a kernel and an initramfs that run from memory and install themselves, for example
// an installer. The system fetches its bootstrap data once, from a URL that expires. From then on,
// the host boots from its disk.
// +kubebuilder:validation:XValidation:rule="!has(self.dataTransport) || self.dataTransport != 'HTTPS' || self.commandLine.contains('{pin}')",fieldPath=".commandLine",messageExpression="self.commandLine + ' must contain {pin} if dataTransport is HTTPS, because no CA signs the certificate; pass it to the program that fetches the data'"
type LiveSystem struct {
	// kernel is the Linux kernel to boot. It must match the host's architecture. With Secure Boot,
	// a key that is enrolled on the host must have signed it.
	// +required
	Kernel LiveFile `json:"kernel,omitempty,omitzero"`
	// initrd is the initramfs. One file can contain several concatenated archives. Kernel and
	// initramfs together must fit into one third of the host's memory.
	// +required
	Initrd LiveFile `json:"initrd,omitempty,omitzero"`
	// commandLine is the kernel command line. Ingot replaces {dataURL} with the URL of the
	// bootstrap data and {seedURL} with the base URL for cloud-init's NoCloud data source. Ingot
	// replaces {pin} with the digest of the server's public key. Examples are "talos.platform=metal
	// talos.config={dataURL}" and "autoinstall ds=nocloud;s={seedURL}".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ -~]*$')",message="must be printable ASCII in one line, as a kernel's command line is"
	// +kubebuilder:validation:XValidation:rule="self.contains('{dataURL}') || self.contains('{seedURL}')",message="must contain {dataURL}, or {seedURL} for cloud-init, so that the system can fetch its bootstrap data; for example talos.config={dataURL}"
	// +kubebuilder:validation:XValidation:rule="!self.replace('{dataURL}', '').replace('{seedURL}', '').replace('{pin}', '').contains('{')",message="must not contain { except in {dataURL}, {seedURL} and {pin}"
	CommandLine string `json:"commandLine,omitempty"`
	// dataTransport is the protocol of the URLs, either HTTP or HTTPS. With HTTP, every client on
	// the provisioning network can read the bootstrap data. HTTPS requires a system that verifies
	// the server's key with {pin}. Clusters with bootTrust Verified require HTTPS. The default is
	// HTTP.
	// +optional
	// +kubebuilder:default=HTTP
	DataTransport LiveTransport `json:"dataTransport,omitempty"`
}

// LiveFile is one file of a live system.
// +kubebuilder:validation:XValidation:rule="!self.url.contains('@') || self.url.startsWith('oci://') && !self.url.matches('^oci://[^/]*@')",fieldPath=".url",message="must not contain a user name or password (the value is not repeated here); serve the file without credentials"
type LiveFile struct {
	// url is the URL of the file: http, https, or oci://registry/repository@sha256:… for an OCI
	// artifact. The single layer of the artifact must be the file.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || self.startsWith('oci://') || (isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '')",message="must be an http, https or oci URL with a host, for example https://images.example/vmlinuz-amd64"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('oci://') || self.matches('^oci://[^/]*@') || self.matches('^oci://([a-z0-9-]+([.][a-z0-9-]+)+(:[0-9]+)?|[a-z0-9-]+:[0-9]+)(/[a-z0-9]+([._-]+[a-z0-9]+)*)+@sha256:[0-9a-f]{64}$')",message="must be oci://registry/repository@sha256: and the 64 digits of the manifest's digest, without a tag, because tags can change; the command oras resolve prints the digest"
	URL string `json:"url,omitempty"`
	// checksum is the checksum of the file: "sha256:<hex>" or "sha512:<hex>". For an OCI artifact,
	// it is the digest of the layer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$')",message="must be sha256: and 64, or sha512: and 128 hexadecimal digits in lower case, as sha256sum prints them for the file at the URL"
	Checksum string `json:"checksum,omitempty"`
}

// LiveTransport is the protocol over which a live system fetches its bootstrap data.
// +kubebuilder:validation:Enum=HTTP;HTTPS
type LiveTransport string

// The protocols over which a live system can fetch its bootstrap data.
const (
	// LiveHTTP is unencrypted.
	LiveHTTP LiveTransport = "HTTP"
	// LiveHTTPS is encrypted. The system verifies the server by the digest of its public key.
	LiveHTTPS LiveTransport = "HTTPS"
)

// LiveFetch records the fetch of the bootstrap data by a live system. The fetch makes the claim
// Provisioned.
type LiveFetch struct {
	// fetchTime is the time of the first fetch.
	// +required
	FetchTime metav1.Time `json:"fetchTime,omitempty,omitzero"`
	// address is the IP address of the client. Only this client can fetch the data again, within a
	// short time, in case the first response was lost.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`
}

// Files returns the URLs of the files that the boot servers fetch for the claim, by checksum. They
// are the image, or the kernel and initrd of the live system.
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

// FileURL returns the URL of the file with this checksum. It returns the same result as Files, but
// allocates no map.
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
