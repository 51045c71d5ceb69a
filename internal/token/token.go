// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lifetime is how long an agent's token is valid: from the boot script to the agent's first
// request. Then the agent's key authenticates, and the expiry of the token no longer matters.
const Lifetime = 10 * time.Minute

// LiveLifetime is the maximum time from the start of a live system to the fetch of its bootstrap
// data. Usually its order ends before, after the agent's deadline; only a paused Cluster or a
// stopped manager keeps the order longer.
const LiveLifetime = time.Hour

// BootedLifetime is how long an installed system can report its first boot.
const BootedLifetime = 7 * 24 * time.Hour

// Purpose is what a token is for.
type Purpose string

const (
	Inspect Purpose = "Inspect"
	Install Purpose = "Install"
	Clean   Purpose = "Clean"
	// Booted lets an installed system report its first boot.
	Booted Purpose = "Booted"
	// Live lets a live system fetch its bootstrap data.
	Live Purpose = "Live"
	// Discover lets an unknown machine report its hardware, and nothing else.
	Discover Purpose = "Discover"
)

// Claims is the readable content of a token.
type Claims struct {
	// Namespace and Host name the IngotHost. For Discover, Namespace is empty and Host names the
	// IngotNetwork.
	Namespace, Host string
	Purpose         Purpose
	// OrderID is the ID of the order; "-" for Booted, and the MAC address that booted for Discover.
	OrderID string
	// InstanceID is the instance of the claim, or "-" without a claim.
	InstanceID string
	Attempt    int32
	// Expiry is in whole seconds.
	Expiry time.Time
	// Delivery is how the agent gets the token.
	Delivery Delivery
}

// Delivery is how an agent gets its token. It determines who else may have read the token.
type Delivery string

const (
	// BootNetwork is the delivery in clear text, by boot script or DHCP.
	ByNetwork Delivery = ""
	// ByVirtualMedia is the delivery on the CD image that the host's BMC mounts.
	ByVirtualMedia Delivery = "disc"
)

// ErrInvalid means that a text is not a token of these keys.
var ErrInvalid = errors.New("token is not valid")

// The format versions. The second has the delivery before the expiry. Tokens delivered by the network
// use the first, which older replicas can read.
const (
	version             = "v1"
	versionWithDelivery = "v2"
)

// none stands for an empty field, so that every token has the same shape.
const none = "-"

// text formats the claims as "v1/<namespace>/<host>/<purpose>/<order>/<instance>/<attempt>/<expiry>",
// or "v2/…/<attempt>/<delivery>/<expiry>", in characters that kernel command lines and iPXE scripts
// carry unchanged.
func (c Claims) text() string {
	fields := []string{
		version, cmp.Or(c.Namespace, none), c.Host, string(c.Purpose), cmp.Or(c.OrderID, none), cmp.Or(c.InstanceID, none),
		strconv.FormatInt(int64(c.Attempt), 10),
	}
	if c.Delivery != ByNetwork {
		fields[0] = versionWithDelivery
		fields = append(fields, string(c.Delivery))
	}
	return strings.Join(append(fields, strconv.FormatInt(c.Expiry.Unix(), 10)), "/")
}

// Keys holds the HMAC keys. The first one signs and all of them verify, so that a key can be replaced
// while agents work.
type Keys struct{ keys [][]byte }

// MinKeyBytes is the minimum length of a key (RFC 2104: the length of the hash).
const MinKeyBytes = sha256.Size

// NewKeys returns Keys. It fails if there is no key, or if one is shorter than MinKeyBytes.
func NewKeys(keys ...[]byte) (Keys, error) {
	if len(keys) == 0 {
		return Keys{}, errors.New("no token key given")
	}
	for i, key := range keys {
		if len(key) < MinKeyBytes {
			return Keys{}, fmt.Errorf("token key %d has %d bytes: at least %d are needed", i+1, len(key), MinKeyBytes)
		}
	}
	return Keys{keys: keys}, nil
}

// Mint returns a signed token.
func (k Keys) Mint(c Claims) string {
	text := c.text()
	return text + "/" + mac(k.keys[0], text)
}

// journalPrefix separates journal keys from the other MACs of this package.
const journalPrefix = "journal\x00"

// JournalKey returns the key with which agents sign their progress in erasing a disk of the host
// after an instance (agentapi.CleanOrder.JournalKey). It depends on the first key.
func (k Keys) JournalKey(namespace, host, instanceID string) string {
	return mac(k.keys[0], journalPrefix+namespace+"/"+host+"/"+instanceID)
}

// Verify returns the claims of a token whose MAC is valid. It ignores the expiry, which no longer
// matters once the agent's key is bound.
func (k Keys) Verify(token string) (Claims, error) {
	cut := strings.LastIndexByte(token, '/')
	if cut < 0 || !k.anyEqual([]byte(token[cut+1:]), func(key []byte) []byte { return []byte(mac(key, token[:cut])) }) {
		return Claims{}, ErrInvalid
	}
	return parse(token[:cut])
}

// anyEqual reports whether got is the sum by any of the keys. It compares in constant time.
func (k Keys) anyEqual(got []byte, sum func(key []byte) []byte) bool {
	valid := false
	for _, key := range k.keys {
		valid = hmac.Equal(got, sum(key)) || valid
	}
	return valid
}

func mac(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func parse(text string) (Claims, error) {
	f := strings.Split(text, "/")
	delivery := ByNetwork
	if len(f) == 9 && f[0] == versionWithDelivery && f[7] != "" {
		delivery = Delivery(f[7])
		f = slices.Delete(f, 7, 8)
		f[0] = version
	}
	if len(f) != 8 || f[0] != version {
		return Claims{}, ErrInvalid
	}
	attempt, err := strconv.ParseInt(f[6], 10, 32)
	if err != nil {
		return Claims{}, ErrInvalid
	}
	expiry, err := strconv.ParseInt(f[7], 10, 64)
	if err != nil {
		return Claims{}, ErrInvalid
	}
	unNone := func(s string) string {
		if s == none {
			return ""
		}
		return s
	}
	return Claims{
		Namespace: unNone(f[1]), Host: f[2], Purpose: Purpose(f[3]),
		OrderID: unNone(f[4]), InstanceID: unNone(f[5]),
		Attempt: int32(attempt), Expiry: time.Unix(expiry, 0).UTC(), Delivery: delivery,
	}, nil
}

// sealPrefix separates seals from the MACs of tokens, whose text starts with a version.
const sealPrefix = "seal\x00"

// Seal authenticates a message between the holders of the keys.
func (k Keys) Seal(message []byte) []byte { return seal(k.keys[0], message) }

// Sealed reports whether one of the keys sealed the message.
func (k Keys) Sealed(message, sum []byte) bool {
	return k.anyEqual(sum, func(key []byte) []byte { return seal(key, message) })
}

func seal(key, message []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(sealPrefix))
	h.Write(message)
	return h.Sum(nil)
}
