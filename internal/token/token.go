// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
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

// Lifetime of an agent's token: from the boot script to the first request. Once
// the agent's key is bound to the order, the key authenticates and the expiry of
// the token no longer matters.
const Lifetime = 10 * time.Minute

// LiveLifetime is how long a live system may take from its start to the fetch of its
// bootstrap data, at most. Its order ends before, once nobody has spoken of it for the
// agent's deadline; only a Cluster that is paused, or a manager that is away, lets it stand
// for longer.
const LiveLifetime = time.Hour

// BootedLifetime is how long an installed system may take to report its first boot.
const BootedLifetime = 7 * 24 * time.Hour

// Purpose is what a token is for.
type Purpose string

// The purposes: the kinds of order, the report of the installed system, the fetch of a
// live one, and the one of an unknown machine.
const (
	Inspect Purpose = "Inspect"
	Install Purpose = "Install"
	Wipe    Purpose = "Wipe"
	Booted  Purpose = "Booted"
	// Live lets a live system fetch its bootstrap data.
	Live Purpose = "Live"
	// Discover lets an unknown machine report its hardware, and nothing else.
	Discover Purpose = "Discover"
)

// Claims is what a token says, in clear.
type Claims struct {
	// Namespace and Host name the IngotHost. For Discover there is none: Namespace is
	// empty, and Host names the IngotNetwork.
	Namespace, Host string
	Purpose         Purpose
	// OrderID is the order's id; for Booted it is "-", for Discover the MAC address
	// that booted.
	OrderID string
	// InstanceID of the claim, "-" where there is none.
	InstanceID string
	Attempt    int32
	// Expiry in whole seconds.
	Expiry time.Time
	// Way is how the token was given.
	Way Way
}

// Way is how an agent gets its token, which says who else may have read it.
type Way string

const (
	// ByNetwork: by the boot script or by DHCP, in clear.
	ByNetwork Way = ""
	// ByDisc: on the CD image that the host's BMC shows to it.
	ByDisc Way = "disc"
)

// ErrInvalid: the text is no token of ours.
var ErrInvalid = errors.New("token is not valid")

// The versions: the second has the way before the expiry. A token of the network is
// written as the first, so that replicas of either age read it.
const (
	version       = "v1"
	versionOfWays = "v2"
)

// none stands for an empty field, so that every token has the same shape.
const none = "-"

// text writes the claims as "v1/<namespace>/<host>/<purpose>/<order>/<instance>/<attempt>/<expiry>",
// or "v2/…/<attempt>/<way>/<expiry>": characters that a kernel command line and an iPXE
// script carry unchanged.
func (c Claims) text() string {
	fields := []string{
		version, orNone(c.Namespace), c.Host, string(c.Purpose), orNone(c.OrderID), orNone(c.InstanceID),
		strconv.FormatInt(int64(c.Attempt), 10),
	}
	if c.Way != ByNetwork {
		fields[0] = versionOfWays
		fields = append(fields, string(c.Way))
	}
	return strings.Join(append(fields, strconv.FormatInt(c.Expiry.Unix(), 10)), "/")
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// Keys holds the HMAC keys: the first one mints, all of them verify, so that a
// key can be replaced without refusing the agents under way.
type Keys struct{ keys [][]byte }

// MinKeyBytes is the least length of a key (RFC 2104: at least the hash's output).
const MinKeyBytes = sha256.Size

// NewKeys checks and takes the keys.
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

// Mint writes a token.
func (k Keys) Mint(c Claims) string {
	text := c.text()
	return text + "/" + mac(k.keys[0], text)
}

// journalPrefix keeps a journal's key from being any other MAC made here.
const journalPrefix = "journal\x00"

// JournalKey is what agents sign with how far they have erased a disk of the host after
// an instance (agentapi.WipeOrder.JournalKey). Another key of the manager makes another.
func (k Keys) JournalKey(namespace, host, instanceID string) string {
	return mac(k.keys[0], journalPrefix+namespace+"/"+host+"/"+instanceID)
}

// Verify reads a token and checks its MAC, in constant time. It does not look at
// the expiry: that depends on whether the agent's key is bound already.
func (k Keys) Verify(token string) (Claims, error) {
	cut := strings.LastIndexByte(token, '/')
	if cut < 0 {
		return Claims{}, ErrInvalid
	}
	text, got := token[:cut], token[cut+1:]
	valid := false
	for _, key := range k.keys {
		if hmac.Equal([]byte(got), []byte(mac(key, text))) {
			valid = true
		}
	}
	if !valid {
		return Claims{}, ErrInvalid
	}
	return parse(text)
}

func mac(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func parse(text string) (Claims, error) {
	f := strings.Split(text, "/")
	way := ByNetwork
	if len(f) == 9 && f[0] == versionOfWays && f[7] != "" {
		way = Way(f[7])
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
		Attempt: int32(attempt), Expiry: time.Unix(expiry, 0).UTC(), Way: way,
	}, nil
}

// sealPrefix keeps a seal from ever being the MAC of a token, whose text starts
// with its version.
const sealPrefix = "seal\x00"

// Seal authenticates a message between those who share the keys.
func (k Keys) Seal(message []byte) []byte { return seal(k.keys[0], message) }

// Sealed says whether one of the keys sealed the message.
func (k Keys) Sealed(message, sum []byte) bool {
	valid := false
	for _, key := range k.keys {
		if hmac.Equal(sum, seal(key, message)) {
			valid = true
		}
	}
	return valid
}

func seal(key, message []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(sealPrefix))
	h.Write(message)
	return h.Sum(nil)
}
