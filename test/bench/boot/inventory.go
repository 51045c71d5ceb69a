// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/test/bench"
)

const (
	namespace   = "default"
	networkName = "servers"
	// firstHost is the address of the first host, as a number in 10.77.0.0/16.
	firstHost = 128 << 8
)

// inventory returns an informer cache with so many hosts, each with its facts and
// address, as the manager has it.
func inventory(ctx context.Context, hosts int) (cache.Cache, error) {
	// The API server below knows lists and watches, not lists by watches.
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "false"); err != nil {
		return nil, err
	}
	url, err := serveAPI(hosts)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{infrav1.GroupVersion})
	mapper.Add(infrav1.GroupVersion.WithKind("IngotHost"), meta.RESTScopeNamespace)
	mapper.AddSpecific(infrav1.GroupVersion.WithKind("IngotHardware"), infrav1.GroupVersion.WithResource("ingothardwares"),
		infrav1.GroupVersion.WithResource("ingothardware"), meta.RESTScopeNamespace)
	mapper.Add(infrav1.GroupVersion.WithKind("IngotNetwork"), meta.RESTScopeRoot)
	mapper.Add(infrav1.GroupVersion.WithKind("IngotCluster"), meta.RESTScopeNamespace)
	c, err := cache.New(&rest.Config{Host: url}, cache.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	if err := index.SetupDirectory(ctx, c); err != nil {
		return nil, err
	}
	for _, object := range []client.Object{&infrav1.IngotHost{}, &infrav1.IngotHardware{}, &infrav1.IngotNetwork{}} {
		if _, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return nil, err
		}
	}
	go func() { _ = c.Start(ctx) }() // ends with ctx
	if !c.WaitForCacheSync(ctx) {
		return nil, errors.New("the cache does not fill")
	}
	return c, nil
}

// serveAPI answers lists from memory, and watches with silence.
func serveAPI(hosts int) (string, error) {
	answers := map[string][]byte{}
	for resource, list := range lists(hosts) {
		b, err := json.Marshal(list)
		if err != nil {
			return "", err
		}
		answers["/apis/"+infrav1.GroupVersion.String()+"/"+resource] = b
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, ok := answers[strings.TrimSuffix(r.URL.Path, "/")]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !ok:
			http.NotFound(w, r)
		case r.URL.Query().Get("watch") != "":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			_, _ = w.Write(b)
		}
	})}
	go func() { _ = srv.Serve(l) }() // ends with the process
	return "http://" + l.Addr().String(), nil
}

// lists are what the API server has, by resource.
func lists(count int) map[string]client.ObjectList {
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: name}
	}
	version := metav1.ListMeta{ResourceVersion: "1"}
	hosts := &infrav1.IngotHostList{TypeMeta: kind("IngotHostList"), ListMeta: version}
	hardware := &infrav1.IngotHardwareList{TypeMeta: kind("IngotHardwareList"), ListMeta: version}
	for i := range count {
		mac := bench.ClientMAC(i).String()
		object := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("rack%d-u%d", i/40, i%40), ResourceVersion: "1"}
		host := infrav1.IngotHost{TypeMeta: kind("IngotHost"), ObjectMeta: object}
		host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = mac, networkName
		hosts.Items = append(hosts.Items, host)
		facts := infrav1.IngotHardware{TypeMeta: kind("IngotHardware"), ObjectMeta: object}
		n := firstHost + i
		facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: networkName, MAC: mac, IP: fmt.Sprintf("10.77.%d.%d", n>>8, n&255)}
		hardware.Items = append(hardware.Items, facts)
	}
	network := infrav1.IngotNetwork{TypeMeta: kind("IngotNetwork"), ObjectMeta: metav1.ObjectMeta{Name: networkName, ResourceVersion: "1"}}
	network.Spec = infrav1.IngotNetworkSpec{Mode: infrav1.DHCPModeReserve, Subnet: "10.77.0.0/16", Gateway: "10.77.0.254", DNSServers: []string{"10.77.0.253"}}
	return map[string]client.ObjectList{
		"ingothosts": hosts, "ingothardwares": hardware,
		"ingotclusters": &infrav1.IngotClusterList{TypeMeta: kind("IngotClusterList"), ListMeta: version},
		"ingotnetworks": &infrav1.IngotNetworkList{TypeMeta: kind("IngotNetworkList"), ListMeta: version, Items: []infrav1.IngotNetwork{network}},
	}
}
