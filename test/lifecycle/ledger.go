// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// ledger is the state of all claims and intents at one moment.
type ledger struct {
	namespace string
	// hosts has the claim of each host, machines the providerID of each machine.
	hosts    map[string]*infrav1.HostClaim
	machines map[string]string
	wrong    []string
	// claims counts the claims that were ever made.
	claims int
}

// CheckClaims goes through a history and lists every breach of I1: a host that goes
// from one claim to another without having been free, a machine that two hosts
// name, a claim that its machine did not choose, a choice that changed without
// having been taken back. claims is how many claims it saw.
func CheckClaims(namespace string, versions []Version) (claims int, wrong []string) {
	l := &ledger{namespace: namespace, hosts: map[string]*infrav1.HostClaim{}, machines: map[string]string{}}
	for _, v := range versions {
		if v.Host != nil {
			l.host(v)
		} else {
			l.machine(v)
		}
	}
	return l.claims, l.wrong
}

func (l *ledger) say(v Version, format string, args ...any) {
	l.wrong = append(l.wrong, fmt.Sprintf("revision %d: ", v.Revision)+fmt.Sprintf(format, args...))
}

func (l *ledger) host(v Version) {
	name, before, now := v.Host.Name, l.hosts[v.Host.Name], v.Host.Spec.Claim
	if v.Deleted {
		now = nil
	}
	l.hosts[name] = now
	switch {
	case now == nil:
		return
	case before != nil && (before.InstanceID != now.InstanceID || before.MachineRef != now.MachineRef):
		l.say(v, "host %s went from machine %s to %s without being free", name, before.MachineRef.Name, now.MachineRef.Name)
	case before == nil:
		l.claims++
		l.born(v)
	}
	if before != nil && attemptsBack(before, now) {
		l.say(v, "host %s counts attempt %d after %d", name, now.Attempt, before.Attempt)
	}
	for other, claim := range l.hosts {
		if other != name && holdsMachine(claim) && holdsMachine(now) && claim.MachineRef == now.MachineRef {
			l.say(v, "machine %s has two hosts: %s and %s", now.MachineRef.Name, other, name)
		}
	}
}

// holdsMachine: a claim that is released and fenced is ended by the cleaning alone, and its
// machine may be elsewhere.
func holdsMachine(claim *infrav1.HostClaim) bool {
	return claim != nil && (claim.State != infrav1.ClaimReleasing || claim.FencedTime.IsZero())
}

// born checks a new claim: it is Provisioning, and its machine chose it.
func (l *ledger) born(v Version) {
	claim := v.Host.Spec.Claim
	want := infrav1.ProviderID{Namespace: l.namespace, Host: v.Host.Name, InstanceID: claim.InstanceID}.String()
	if got := l.machines[claim.MachineRef.Name]; got != want {
		l.say(v, "host %s is claimed as %s, which machine %s did not choose: it says %q", v.Host.Name, want, claim.MachineRef.Name, got)
	}
	if claim.State != infrav1.ClaimProvisioning {
		l.say(v, "host %s begins as %s", v.Host.Name, claim.State)
	}
}

func attemptsBack(before, now *infrav1.HostClaim) bool {
	return before.InstanceID == now.InstanceID && now.Attempt < before.Attempt
}

func (l *ledger) machine(v Version) {
	name, before, now := v.Machine.Name, l.machines[v.Machine.Name], v.Machine.Spec.ProviderID
	if v.Deleted {
		delete(l.machines, name)
		return
	}
	l.machines[name] = now
	if before == now {
		return
	}
	if before != "" && now != "" {
		l.say(v, "machine %s went from %s to %s at once", name, before, now)
	}
	for host, claim := range l.hosts {
		if claim != nil && claim.MachineRef.Name == name {
			l.say(v, "machine %s changed its choice from %q to %q while host %s is its own", name, before, now, host)
		}
	}
}
