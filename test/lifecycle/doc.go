// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle puts the whole line through what must not hurt it: a manager that
// is killed at any write, two managers at once with stale caches, a status that is
// lost, an unknown client with somebody else's token. Everything is the real thing (etcd,
// API server, Ingot's manager as a process, the agent's code) but for the servers,
// which are simulated, and the controllers of Cluster API, whose objects the tests
// make by hand. The package decides nothing of what Ingot does and never talks to
// a host but through Ingot.
//
// Proxies in front of the API server and each BMC kill the manager before or after a write. Kill
// points in the manager's code would show what the code marks, not what is on the wire.
//
//	plane := lifecycle.NewPlane(t)
//	site := plane.NewSite(t, lifecycle.SiteOptions{Servers: []string{"a", "b"}})
//	manager := site.StartManager(t, lifecycle.ManagerOptions{Name: "m"})
//	site.Register(t, "a")
//	site.Await(t, "a to be free", site.Free("a"))
//	for _, wrong := range site.History.Check() { t.Error(wrong) }
package lifecycle
