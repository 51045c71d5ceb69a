// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package links lists the interfaces of a network namespace with their names, hardware
// addresses and subnets. The list is some seconds old at most. DHCP and router advertisements
// use it to find out on which network a packet arrived.
//
// It must not know its users.
//
//	known, err := links.Open()
//	link := known.Get(index)
package links
