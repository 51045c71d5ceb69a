// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/firmware"
	"github.com/ingot-metal/ingot/internal/rotation"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// The backoff of a BMC that fails (I13), with up to half of it as jitter.
const (
	backoffFirst  = 5 * time.Second
	backoffCap    = 5 * time.Minute
	backoffJitter = 0.5
)

// contact is what is remembered of a BMC between reconciles. It may be lost: the
// BMC is then asked again.
type contact struct {
	uid     types.UID
	address string
	// listed: the BMC was asked for its NICs; macs are nil where it cannot tell.
	listed bool
	macs   []string
	// sought is the boot MAC address that was last looked for among them, by asking the
	// BMC, at soughtAt.
	sought   string
	soughtAt time.Time
	// identity of the server that the BMC manages, as it tells it.
	identity inventory.SystemIdentity
	// session of the pool's by which identity was read; 0: the BMC's are not told apart.
	session uint64
	// unsure: it was away since, and may be another server's now.
	unsure bool

	// key names the spec and credentials that failures were counted under: a
	// correction changes it, and is tried at once.
	key     string
	problem lifecycle.BMCProblem
	message string
	// delay is 0 while nothing has failed; retryAt is when the next try is due;
	// failures is how many tries in a row have failed, since since.
	delay    time.Duration
	retryAt  time.Time
	failures int
	since    time.Time

	// orders to switch the server that had no effect yet, and since when those to boot an
	// agent are taken; both go with the key too.
	orders  orders
	booting booting
	// asking the system to shut down, refused so far.
	asking asking
	// ejections is how often in a row the BMC did not empty its virtual drive.
	ejections int
	// off is since when it says off of a host whose live system was started.
	off    off
	health health
	// offProof is what supports its word that the host is off.
	offProof lifecycle.OffProof
	rotation rotation.Memory
	firmware firmware.Memory
}

// keyFor is a digest of all that decides whether a BMC can be talked to: spec.bmc, the
// version of the credentials and the CA that it names, and that a person asks for a try.
// The ledger is not among it: that a machine claims a host makes its BMC no better.
func keyFor(host *infrav1.IngotHost, version string) string {
	text, err := json.Marshal(host.Spec.BMC)
	if err != nil { // it came as JSON
		text = []byte(err.Error())
	}
	retry := host.Annotations[infrav1.RetryBMCAnnotation]
	if _, err := inventory.ParseCommand(infrav1.RetryBMCAnnotation, retry); err != nil {
		retry = "" // no command (I24)
	}
	sum := sha256.Sum256(append(text, version+"\x00"+retry...))
	return hex.EncodeToString(sum[:])
}

// under returns the contact with the failures of another key forgotten.
func (c contact) under(key string) contact {
	if c.key == key {
		return c
	}
	c.firmware.Anew()
	return contact{
		uid: c.uid, address: c.address, listed: c.listed, macs: c.macs, identity: c.identity, session: c.session, unsure: c.unsure,
		key: key, health: c.health, firmware: c.firmware,
	}
}

// failed counts a failure and says when to try again.
func (c contact) failed(problem lifecycle.BMCProblem, message string, now time.Time, w Waits) contact {
	c.problem, c.message, c.failures = problem, stable(message), c.failures+1
	c.delay = min(max(2*c.delay, w.BackoffFirst), w.BackoffCap)
	c.retryAt = now.Add(min(wait.Jitter(c.delay, backoffJitter), w.BackoffCap))
	return c
}

// asked is how long a BMC asks to be left alone, in the text of an error.
var asked = regexp.MustCompile(`: asks to wait [0-9.hmsµn]+`)

// stable removes from an error's text the port that a connection happened to be
// made from ("10.0.0.1:40312->10.0.0.9:443"), and for how long the BMC asks to wait this
// time: the same failure reads the same each time, and costs no write.
func stable(text string) string {
	text = asked.ReplaceAllString(text, "")
	words := strings.Split(text, " ")
	for i, word := range words {
		if _, to, ok := strings.Cut(word, "->"); ok {
			words[i] = to
		}
	}
	return strings.Join(words, " ")
}

// answered forgets all failures, but for those of orders: the next order decides
// whether they are over.
func (c contact) answered() contact {
	c.problem, c.message, c.retryAt = lifecycle.BMCOK, "", time.Time{}
	if !c.orders.pending() {
		c.delay = 0
	}
	if c.orders.problem == lifecycle.BMCOK {
		c.failures, c.since = 0, time.Time{}
	}
	return c
}

// contacts keeps a contact per host, until the host is gone. The zero value is
// empty and ready.
type contacts struct {
	mu sync.Mutex
	m  map[types.NamespacedName]contact
}

// of returns what is known of the host's BMC; nothing for a host that was deleted
// and registered anew under its name.
func (c *contacts) of(host *infrav1.IngotHost) contact {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.m[keyOf(host)]
	if known.uid != host.UID {
		return contact{uid: host.UID}
	}
	return known
}

func (c *contacts) keep(host *infrav1.IngotHost, known contact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[types.NamespacedName]contact{}
	}
	c.m[keyOf(host)] = known
}

// change what is known of a host, if anything is.
func (c *contacts) change(host types.NamespacedName, change func(*contact)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.m[host]; ok {
		change(&known)
		c.m[host] = known
	}
}

// forget returns the address of the BMC; empty: there was no contact.
func (c *contacts) forget(host types.NamespacedName) (address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	address = c.m[host].address
	delete(c.m, host)
	return address
}

func keyOf(host *infrav1.IngotHost) types.NamespacedName {
	return types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
}
