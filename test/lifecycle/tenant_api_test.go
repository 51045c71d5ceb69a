// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// fakeName is a host of the intruder without a server, the only one on its network.
const fakeName = "fake"

// mergePatch is a JSON merge patch.
func mergePatch(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }

// registers tries to have servers of others by registering a host, or by changing one.
func (i *intruder) registers() {
	i.t.Helper()
	victim := i.site.Host(i.t, victimName)
	i.works("register a host on an allowed network", func(ctx context.Context) error {
		return i.client.Create(ctx, i.host(fakeName, i.single, madeUp(1), "redfish://192.0.2.77"))
	})
	create := func(change func(*infrav1.IngotHost)) func(context.Context) error {
		return func(ctx context.Context) error {
			host := i.host("stolen", i.roomy, madeUp(2), "redfish://192.0.2.78")
			change(host)
			return i.client.Create(ctx, host)
		}
	}
	update := func(change func(*infrav1.IngotHost)) func(context.Context) error { return i.change(fakeName, change) }
	for how, by := range map[string]func(func(*infrav1.IngotHost)) func(context.Context) error{"created": create, "changed": update} {
		i.forbidden("an unregistered server's MAC address on a network that does not allow the namespace, "+how, by(func(h *infrav1.IngotHost) {
			h.Spec.NetworkRef.Name, h.Spec.BootMACAddress = i.closed(), i.site.Server(unregistered).MAC.String()
		}), "spec.networkRef.name", "does not allow namespace "+i.namespace)
		i.forbidden("another tenant's MAC address, "+how, by(func(h *infrav1.IngotHost) { h.Spec.BootMACAddress = victim.Spec.BootMACAddress }), "spec.bootMACAddress")
		i.forbidden("another tenant's BMC, "+how, by(func(h *infrav1.IngotHost) { h.Spec.BMC.Address = victim.Spec.BMC.Address }), "spec.bmc.address")
		i.forbidden("another tenant's BMC by IPMI on its port, "+how, by(func(h *infrav1.IngotHost) {
			h.Spec.BMC.Address = strings.Replace(victim.Spec.BMC.Address, "redfish://", "", 1)
		}), "spec.bmc.address")
	}
	i.forbidden("another tenant's MAC address, as if clusterctl moved the host away", create(func(h *infrav1.IngotHost) {
		h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
		h.Spec.BootMACAddress = victim.Spec.BootMACAddress
	}), "spec.bootMACAddress")
	i.forbidden("another tenant's MAC address, as of an unknown machine that waits for approval", create(func(h *infrav1.IngotHost) {
		h.Labels = map[string]string{infrav1.EnrolledLabel: ""}
		h.Spec.BootMACAddress = victim.Spec.BootMACAddress
	}), "spec.bootMACAddress")
	i.works("give the victim a second interface", func(ctx context.Context) error {
		facts := &infrav1.IngotHardware{}
		if err := i.site.Client.Get(ctx, client.ObjectKeyFromObject(victim), facts); err != nil {
			return err
		}
		base := facts.DeepCopy()
		facts.Spec.NICs = append(facts.Spec.NICs, infrav1.HardwareNIC{Name: "eth1", MAC: madeUp(90)})
		return i.asManager.Patch(ctx, facts, client.MergeFrom(base))
	})
	i.site.Await(i.t, "admission to know it", func(ctx context.Context) (string, error) {
		err := i.client.Create(ctx, i.host("tries", i.roomy, madeUp(90), "redfish://192.0.2.86"), client.DryRunAll)
		if apierrors.IsInvalid(err) {
			return "", nil
		}
		return "it does not", err
	})
	i.forbidden("a second interface of another tenant's server", create(func(h *infrav1.IngotHost) { h.Spec.BootMACAddress = madeUp(90) }), "spec.bootMACAddress")
	i.forbidden("a host with a record of an inspection", create(func(h *infrav1.IngotHost) {
		h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now()}
	}), "restore")
	i.forbidden("a claim of its own making", update(func(h *infrav1.IngotHost) {
		h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "c", InstanceID: "6b1f6cb4-1f1a-4d0e-9a35-0f2b6a3c7d11", State: infrav1.ClaimReleasing,
			Hostname: "m", Image: infrav1.Image{URL: "http://127.0.0.1/x", Checksum: i.site.Images.Checksum}}
	}), "spec.claim")
	i.forbidden("a claim under the name of the manager's field manager", func(ctx context.Context) error {
		return i.client.Patch(ctx, i.host(fakeName, i.single, madeUp(1), "redfish://192.0.2.77"),
			client.RawPatch(types.ApplyPatchType, fmt.Appendf(nil, `{"apiVersion":%q,"kind":"IngotHost","metadata":{"name":%q},"spec":{"record":{"inspectedTime":"2026-01-02T03:04:05Z"}}}`,
				infrav1.GroupVersion.String(), fakeName)), client.FieldOwner("manager"), client.ForceOwnership)
	}, "spec.record")
	i.attack("a command in another user's name", func(ctx context.Context) error {
		if err := i.change(fakeName, func(h *infrav1.IngotHost) {
			h.Annotations = map[string]string{infrav1.CommandsGivenByAnnotation: `{"inspect":"` + i.site.Namespace + `-admin"}`}
		})(ctx); err != nil {
			return nil // a refusal
		}
		host := &infrav1.IngotHost{}
		if err := i.site.Client.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: fakeName}, host); err != nil {
			return err
		}
		if text := host.Annotations[infrav1.CommandsGivenByAnnotation]; strings.Contains(text, i.site.Namespace+"-admin") {
			return fmt.Errorf("the annotation stands: %s", text)
		}
		return nil
	})
}

// joins tries to get onto networks, beyond what they allow.
func (i *intruder) joins() {
	i.t.Helper()
	i.forbidden("one host more than maxHosts", func(ctx context.Context) error {
		return i.client.Create(ctx, i.host("second", i.single, madeUp(3), "redfish://192.0.2.79"))
	}, "spec.networkRef.name", "1 hosts (spec.allowedNamespaces.maxHosts)")
	i.works("register a host on the other network", func(ctx context.Context) error {
		return i.client.Create(ctx, i.host("joins", i.roomy, madeUp(4), "redfish://192.0.2.80"))
	})
	to := func(network string) func(*infrav1.IngotHost) {
		return func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = network }
	}
	moved := func(h *infrav1.IngotHost) {
		h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	}
	i.forbidden("a host of another network joins, beyond maxHosts", i.change("joins", to(i.single)), "maxHosts")
	i.forbidden("a network that does not allow the namespace, in the moment that clusterctl seems to move the host", i.change("joins", func(h *infrav1.IngotHost) {
		moved(h)
		to(i.closed())(h)
	}), "does not allow namespace")
	i.forbidden("a BMC address that is not allowed, in the moment that clusterctl seems to move the host", i.change("joins", func(h *infrav1.IngotHost) {
		moved(h)
		h.Spec.BMC.Address = "redfish://169.254.169.254"
	}), "spec.bmc.address")
	i.works("hold a host that is deleted by a finalizer", i.change("joins", func(h *infrav1.IngotHost) { h.Finalizers = append(h.Finalizers, "example.com/held") }))
	i.works("delete it", func(ctx context.Context) error { return i.client.Delete(ctx, i.host("joins", "", "", "")) })
	i.forbidden("a network that does not allow the namespace, for a host that a finalizer holds", i.change("joins", to(i.closed())), "does not allow namespace")
	i.forbidden("another tenant's MAC address, for a host that a finalizer holds", i.change("joins", func(h *infrav1.IngotHost) {
		h.Spec.BootMACAddress = i.site.Server(victimName).MAC.String()
	}), "spec.bootMACAddress")
	i.works("let it go", i.change("joins", func(h *infrav1.IngotHost) {
		h.Finalizers = slices.DeleteFunc(h.Finalizers, func(f string) bool { return f == "example.com/held" })
	}))
	i.attack("a host on a network that is created later and does not allow the namespace", func(ctx context.Context) error {
		later := i.namespace + "-later"
		if err := i.client.Create(ctx, i.host("early", later, madeUp(5), "redfish://192.0.2.81")); err != nil {
			return nil // a refusal
		}
		check(i.t, i.site.Client.Create(ctx, &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: later}, Spec: infrav1.IngotNetworkSpec{
			Subnet: "10.250.3.0/24", Range: infrav1.AddressRange{Start: "10.250.3.10", End: "10.250.3.99"}}}))
		return i.says("early", infrav1.ReasonNamespaceNotAllowed, "Ingot does not boot the host")
	})
}

// exceeds tries what RBAC does not give.
func (i *intruder) exceeds() {
	i.t.Helper()
	victim := i.site.Host(i.t, victimName)
	mine := i.host(fakeName, i.single, madeUp(1), "redfish://192.0.2.77")
	label := mergePatch(`{"metadata":{"labels":{"` + infrav1.NetworksLabel + `":"` + infrav1.NetworksAllowed + `"}}}`)
	meta := metav1.ObjectMeta{Namespace: i.namespace, Name: "made-up"}
	for name, try := range map[string]func(context.Context) error{
		"label its namespace": func(ctx context.Context) error {
			return i.client.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.namespace}}, label)
		},
		"allow itself a network": func(ctx context.Context) error {
			return i.client.Patch(ctx, &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: i.closed()}}, mergePatch(`{"spec":{"allowedNamespaces":{"selector":{}}}}`))
		},
		"write the status of its host": func(ctx context.Context) error {
			return i.client.Status().Patch(ctx, mine.DeepCopy(), mergePatch(`{"status":{"phase":"Available"}}`))
		},
		"write the hardware of its host": func(ctx context.Context) error {
			return i.client.Create(ctx, &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: mine.Name}})
		},
		"read a Secret of its own namespace": func(ctx context.Context) error {
			return i.client.List(ctx, &corev1.SecretList{}, client.InNamespace(i.namespace))
		},
		"read another tenant's Secrets": func(ctx context.Context) error {
			return i.client.List(ctx, &corev1.SecretList{}, client.InNamespace(victim.Namespace))
		},
		"read another tenant's hosts": func(ctx context.Context) error {
			return i.client.List(ctx, &infrav1.IngotHostList{}, client.InNamespace(victim.Namespace))
		},
		"annotate another tenant's host": func(ctx context.Context) error { return i.client.Patch(ctx, victim.DeepCopy(), label) },
		"hold another tenant's host by a finalizer": func(ctx context.Context) error {
			return i.client.Patch(ctx, victim.DeepCopy(), mergePatch(`{"metadata":{"finalizers":["example.com/held"]}}`))
		},
		"delete another tenant's host": func(ctx context.Context) error { return i.client.Delete(ctx, victim.DeepCopy()) },
		"create a template": func(ctx context.Context) error {
			return i.client.Create(ctx, &infrav1.IngotMachineTemplate{ObjectMeta: meta, Spec: infrav1.IngotMachineTemplateSpec{}})
		},
		"create an image for all": func(ctx context.Context) error {
			return i.client.Create(ctx, &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: "made-up"}})
		},
		"create an event about another tenant's host": func(ctx context.Context) error {
			return i.client.Create(ctx, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: victim.Namespace, Name: "made-up"}})
		},
	} {
		i.forbidden(name, try)
	}
	i.attack("a host that another tenant's host owns, and whose deletion it blocks", func(ctx context.Context) error {
		owned := i.host("owned", i.roomy, madeUp(9), "redfish://192.0.2.85")
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "IngotHost", Name: victim.Name, UID: victim.UID,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
		if err := i.client.Create(ctx, owned); err != nil {
			return nil // a refusal
		}
		i.site.Await(i.t, "the host to be collected, whose owner is in no namespace of its own", func(ctx context.Context) (string, error) {
			err := i.site.Client.Get(ctx, client.ObjectKeyFromObject(owned), owned)
			if apierrors.IsNotFound(err) {
				return "", nil
			}
			return "it is there", err
		})
		if now := i.site.Host(i.t, victimName); !now.DeletionTimestamp.IsZero() || !slices.Equal(now.Finalizers, victim.Finalizers) {
			return errors.New("the other tenant's host has changed")
		}
		return nil
	})
}

// deletesSecrets names Secrets of its namespace that are others', and deletes the host.
func (i *intruder) deletesSecrets() {
	i.t.Helper()
	foreign := i.secret("database", "of an application")
	check(i.t, i.site.Client.Create(i.t.Context(), foreign))
	i.attack("delete a Secret that it may not delete, by naming it as credentials and deleting the host", func(ctx context.Context) error {
		host := i.host("names-a-secret", i.roomy, madeUp(6), "redfish://192.0.2.82")
		host.Spec.BMC.CredentialsRef.Name = foreign.Name
		i.works("create the host", func(ctx context.Context) error { return i.client.Create(ctx, host.DeepCopy()) })
		i.site.Await(i.t, "the Secret is held", func(ctx context.Context) (string, error) {
			err := i.site.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)
			if len(foreign.Finalizers) == 0 {
				return "it has no finalizer", err
			}
			return "", err
		})
		if len(foreign.OwnerReferences) > 0 {
			return fmt.Errorf("the Secret is owned by %v", foreign.OwnerReferences)
		}
		i.works("delete the host", func(ctx context.Context) error { return client.IgnoreNotFound(i.client.Delete(ctx, host)) })
		i.site.Await(i.t, "the host is gone, and the Secret is held no more", func(ctx context.Context) (string, error) {
			if err := i.site.Client.Get(ctx, client.ObjectKeyFromObject(host), host); !apierrors.IsNotFound(err) {
				return "the host is there", err
			}
			err := i.site.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)
			if len(foreign.Finalizers) > 0 {
				return "the Secret has finalizers", err
			}
			return "", err
		})
		if !foreign.DeletionTimestamp.IsZero() {
			return errors.New("the Secret is being deleted")
		}
		return nil
	})
}

// oversizes tries names and sizes that Ingot's own objects, labels and messages cannot hold.
func (i *intruder) oversizes() {
	i.t.Helper()
	create := func(change func(*infrav1.IngotHost)) func(context.Context) error {
		return func(ctx context.Context) error {
			host := i.host("large", i.roomy, madeUp(7), "redfish://192.0.2.83")
			change(host)
			return i.client.Create(ctx, host)
		}
	}
	many := map[string]string{}
	for n := range 5000 {
		many[fmt.Sprintf("Setting%d", n)] = strings.Repeat("x", 200)
	}
	i.forbidden("5,000 BIOS settings", create(func(h *infrav1.IngotHost) { h.Spec.BIOS = &infrav1.BIOSConfiguration{Settings: many} }), "spec.bios.settings")
	i.forbidden("a BIOS setting of 1 MiB", create(func(h *infrav1.IngotHost) {
		h.Spec.BIOS = &infrav1.BIOSConfiguration{Settings: map[string]string{"A": strings.Repeat("x", 1<<20)}}
	}), "spec.bios.settings")
	i.forbidden("a BMC address of 64 KiB", create(func(h *infrav1.IngotHost) { h.Spec.BMC.Address = "redfish://" + strings.Repeat("a", 64<<10) }), "spec.bmc.address")
	i.forbidden("1,000 firmware images", create(func(h *infrav1.IngotHost) {
		for n := range 1000 {
			h.Spec.Firmware = append(h.Spec.Firmware, infrav1.FirmwareComponent{Component: fmt.Sprint("c", n), Version: "1", URL: "http://a/b"})
		}
	}), "spec.firmware")
	i.forbidden("a network name that is a path", create(func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = "../" + i.closed() }), "spec.networkRef.name")
	i.forbidden("credentials of another namespace", create(func(h *infrav1.IngotHost) {
		h.Spec.BMC.CredentialsRef.Name = "others/" + victimName + secretSuffix
	}), "spec.bmc.credentialsRef.name")
	i.attack("a host with a name of 253 characters", func(ctx context.Context) error {
		host := i.host(strings.Repeat("n", 253), i.roomy, madeUp(8), "redfish://192.0.2.84")
		if err := i.client.Create(ctx, host); err != nil {
			return nil // a refusal
		}
		if err := i.says(host.Name, "BMC"); err != nil { // its BMC does not answer, as any of a made-up host
			return err
		}
		i.works("delete it", func(ctx context.Context) error { return client.IgnoreNotFound(i.client.Delete(ctx, host)) })
		return nil
	})
}
