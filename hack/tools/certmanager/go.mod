// Nothing here is compiled. The module pins cert-manager so that its custom
// resource definitions (deploy/crds) can be taken from the module cache,
// verified by go.sum.
module github.com/ingot-metal/ingot/hack/tools/certmanager

go 1.26.0

require github.com/cert-manager/cert-manager v1.21.2
