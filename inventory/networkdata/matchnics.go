// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// ErrMisfit means that this host does not fit networkData. Another one may.
var ErrMisfit = errors.New("the network asked for does not fit the host")

// Host has the interfaces of a host.
type Host struct {
	// Key is the host's name. Addresses that it has itself count as free.
	Key types.NamespacedName
	// BootMAC is the MAC address of the boot interface.
	BootMAC string
	NICs    []infrav1.HardwareNIC
}

// Misfit is an ethernet of networkData for which a host has no interface.
type Misfit struct {
	// Ethernet is its index in ethernets; Name is its name.
	Ethernet int
	Name     string
	// Why describes the interfaces of the host.
	Why string
}

func (m Misfit) Error() string {
	return fmt.Sprintf("networkData.ethernets[%d].nic of %s: %s", m.Ethernet, m.Name, m.Why)
}

// Misfits lists every ethernet for which the host has no interface. Fit only reports the first.
func Misfits(data *infrav1.NetworkData, host Host) []Misfit {
	if data == nil {
		return nil
	}
	var out []Misfit
	c := newChoice(host)
	for i := range data.Ethernets {
		if why := c.add(data.Ethernets[i]); why != "" {
			out = append(out, Misfit{Ethernet: i, Name: data.Ethernets[i].Name, Why: why})
		}
	}
	return out
}

// Fit fails with ErrMisfit if the host lacks an interface for networkData. It ignores addresses.
// Nil data fits any host.
func Fit(data *infrav1.NetworkData, host Host) error {
	if data == nil {
		return nil
	}
	_, err := choose(data.Ethernets, host)
	return err
}

// FitHost is Fit, and also fails with ErrMisfit if an address is missing that is recorded for
// the host or that a network reserves for its interfaces. It ignores pools, whose addresses are
// only known with a machine.
func FitHost(data *infrav1.NetworkData, from Sources) error {
	if data == nil {
		return nil
	}
	chosen, err := choose(data.Ethernets, from.Host)
	if err != nil {
		return err
	}
	links := linksOf(data)
	below := interfacesBelow(links, chosen, from.Host.BootMAC)
	for i := range links {
		l := &links[i]
		for j, want := range l.config.Addresses {
			if want.Source == infrav1.AddressPool || want.Source == infrav1.AddressStatic {
				continue
			}
			if _, err := l.take(want, Place{Link: l.name, Index: j}, from, below[l.name]); err != nil {
				return fmt.Errorf("%w: %s: addresses[%d]: %w", ErrMisfit, l.name, j, err)
			}
		}
	}
	return nil
}

// choose returns the interface of each ethernet, by the ethernet's name.
func choose(ethernets []infrav1.NetworkEthernet, host Host) (map[string]infrav1.HardwareNIC, error) {
	c := newChoice(host)
	for i := range ethernets {
		if why := c.add(ethernets[i]); why != "" {
			return nil, fmt.Errorf("%w: %w", ErrMisfit, Misfit{Ethernet: i, Name: ethernets[i].Name, Why: why})
		}
	}
	return c.chosen, nil
}

// choice has the chosen interfaces of one host.
type choice struct {
	host Host
	// chosen by the name of the ethernet, and the names by MAC address.
	chosen  map[string]infrav1.HardwareNIC
	takenBy map[string]string
}

func newChoice(host Host) *choice {
	return &choice{host: host, chosen: map[string]infrav1.HardwareNIC{}, takenBy: map[string]string{}}
}

// add returns why the host has no interface for an ethernet. Empty: it has one. Two ethernets
// with the same interface are a misfit, because an interface has one name.
func (c *choice) add(ethernet infrav1.NetworkEthernet) (why string) {
	nic, err := find(ethernet.NIC, c.host)
	if err != nil {
		return err.Error()
	}
	if other, taken := c.takenBy[nic.MAC]; taken {
		return fmt.Sprintf("means %s, as %s does", describe(nic), other)
	}
	c.chosen[ethernet.Name], c.takenBy[nic.MAC] = nic, ethernet.Name
	return ""
}

// find returns the interface that the selector selects.
func find(want infrav1.NICSelector, host Host) (infrav1.HardwareNIC, error) {
	var left []infrav1.HardwareNIC
	for _, nic := range host.NICs {
		if matches(want, nic, host.BootMAC) {
			left = append(left, nic)
		}
	}
	slices.SortFunc(left, func(a, b infrav1.HardwareNIC) int {
		return cmp.Or(comparePCI(a.PCI, b.PCI), strings.Compare(a.Name, b.Name), strings.Compare(a.MAC, b.MAC))
	})
	switch {
	case want.Position != nil && int(*want.Position) > len(left):
		return infrav1.HardwareNIC{}, fmt.Errorf("position %d of %s that %s", *want.Position, count(len(left)), asked(want))
	case want.Position != nil:
		return left[*want.Position-1], nil
	case len(left) == 1:
		return left[0], nil
	case len(left) == 0:
		return infrav1.HardwareNIC{}, fmt.Errorf("none of %s %s", count(len(host.NICs)), asked(want))
	}
	return infrav1.HardwareNIC{}, fmt.Errorf("%s %s, and no position says which", count(len(left)), asked(want))
}

func matches(want infrav1.NICSelector, nic infrav1.HardwareNIC, bootMAC string) bool {
	switch {
	case want.BootNIC == infrav1.BootNICOnly && nic.MAC != bootMAC,
		want.BootNIC == infrav1.BootNICNever && nic.MAC == bootMAC,
		want.MAC != "" && want.MAC != nic.MAC,
		want.Name != "" && want.Name != nic.Name,
		want.PCI != "" && !matchesPCI(want.PCI, nic.PCI),
		want.Driver != "" && want.Driver != nic.Driver,
		want.MinSpeedMbps != nil && nic.SpeedMbps < *want.MinSpeedMbps:
		return false
	}
	return true
}

// matchesPCI compares bus addresses. A trailing * matches any suffix.
func matchesPCI(want, have string) bool {
	if begin, ok := strings.CutSuffix(want, "*"); ok {
		return have != "" && strings.HasPrefix(have, begin)
	}
	return want == have
}

// comparePCI orders bus addresses as the bus does. They are hexadecimal digits of fixed width,
// except for a longer domain (0000:3b:00.0, 10000:01:00.0).
func comparePCI(a, b string) int {
	domain := func(s string) int { return strings.Index(s, ":") }
	return cmp.Or(cmp.Compare(domain(a), domain(b)), strings.Compare(a, b))
}

// asked describes a selector without its position.
func asked(want infrav1.NICSelector) string {
	var words []string
	say := func(set bool, format string, args ...any) {
		if set {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	say(want.BootNIC == infrav1.BootNICOnly, "boot the host")
	say(want.BootNIC == infrav1.BootNICNever, "do not boot the host")
	say(want.MAC != "", "have MAC address %s", want.MAC)
	say(want.Name != "", "are named %s", want.Name)
	say(want.PCI != "", "have bus address %s", want.PCI)
	say(want.Driver != "", "have driver %s", want.Driver)
	if want.MinSpeedMbps != nil {
		say(true, "had a link of %d Mbit/s or more when inspected", *want.MinSpeedMbps)
	}
	if len(words) == 0 {
		return "it has"
	}
	return strings.Join(words, " and ")
}

func count(n int) string {
	if n == 1 {
		return "1 interface"
	}
	return fmt.Sprintf("%d interfaces", n)
}

func describe(nic infrav1.HardwareNIC) string {
	return fmt.Sprintf("interface %s (%s, %s)", nic.MAC, cmp.Or(nic.Name, "no name"), cmp.Or(nic.PCI, "no bus address"))
}
