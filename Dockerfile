# syntax=docker/dockerfile:1
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Ingot's image for those who have a container engine:
#
#   docker build --build-arg VERSION=v0.1.0 --tag ghcr.io/ingot-metal/ingot:v0.1.0 .
#
# Its layout is that of the archive which make release writes without one
# (hack/release/image.go): the manager, the agent's kernel and initramfs, iPXE's
# loaders, shim and GRUB, certificates, licences. amd64 only, like the agent.
FROM --platform=linux/amd64 golang:1.26-bookworm AS build
ARG VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
COPY api/go.mod api/go.sum api/
RUN go mod download
COPY . .
ENV CGO_ENABLED=0 GOOS=linux GOARCH=amd64 INGOT_CACHE=/cache INGOT_VERSION=${VERSION}
# One step: of package lists in a layer of their own a builder's cache would keep old ones, by
# which apt fetches an old kernel, or none.
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates dpkg ipxe && go run ./hack/images agent
RUN go run ./hack/release/build -version "${VERSION}" -root /image

FROM scratch
COPY --from=build /image /
ENV PATH=/ SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/manager"]
