module node.invalid/kube

go 1.26.0

godebug default=go1.26

require k8s.io/kubernetes v1.36.3

require (
	github.com/spf13/cobra v1.10.2
	k8s.io/api v0.0.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
)

replace (
	k8s.io/api => k8s.io/api v0.36.3
	k8s.io/kubectl => k8s.io/kubectl v0.36.3
)
