// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/ingot-metal/ingot/bmc"
)

// mediaResource is VirtualMedia (DSP2046).
type mediaResource struct {
	ID           string   `json:"@odata.id"`
	Types        []string `json:"MediaTypes"`
	Image        string   `json:"Image"`
	Inserted     *bool    `json:"Inserted"`
	ConnectedVia string   `json:"ConnectedVia"`
	Actions      struct {
		Insert *actionResource `json:"#VirtualMedia.InsertMedia"`
		Eject  *actionResource `json:"#VirtualMedia.EjectMedia"`
	} `json:"Actions"`
}

// MediaSlots implements bmc.Media.
func (c *conn) MediaSlots(ctx context.Context) ([]bmc.MediaSlot, error) {
	c.begin(ctx)
	media, err := c.media()
	if err != nil {
		return nil, fmt.Errorf("list virtual media: %w", err)
	}
	slots := make([]bmc.MediaSlot, len(media))
	for i, m := range media {
		slots[i] = c.slot(m)
	}
	return slots, nil
}

// media reads the slots below the system and below its manager: where they are
// changed with the years (iDRAC moved them to the system).
func (c *conn) media() ([]mediaResource, error) {
	system, err := c.systemForWrite()
	if err != nil {
		return nil, err
	}
	manager, _, err := c.manager(system)
	if err := optional(err); err != nil {
		return nil, err
	}
	var paths []string
	for _, collection := range []string{system.VirtualMedia.ID, manager.VirtualMedia.ID} {
		if collection == "" {
			continue
		}
		members, err := c.members(collection)
		if err != nil && !isMissing(err) {
			return nil, err
		}
		paths = append(paths, members...)
	}
	slices.Sort(paths)
	var media []mediaResource
	var unread error
	for _, path := range slices.Compact(paths) {
		var m mediaResource
		if err := c.get(path, &m); err != nil {
			if optional(err) != nil && !brokeDown(err) {
				return nil, err
			}
			unread = cmp.Or(unread, optional(err))
			continue // a slot that cannot be read cannot be used
		}
		m.ID = path
		media = append(media, m)
	}
	if len(media) == 0 && unread != nil {
		return nil, unread
	}
	if len(media) == 0 {
		return nil, lacking("no slot for virtual media")
	}
	return media, nil
}

func (c *conn) slot(m mediaResource) bmc.MediaSlot {
	s := bmc.MediaSlot{ID: m.ID, Image: withoutUser(m.Image)}
	for _, kind := range []bmc.MediaKind{bmc.MediaCD, bmc.MediaDVD, bmc.MediaUSB} {
		if slices.Contains(m.Types, string(kind)) {
			s.Kinds = append(s.Kinds, kind)
		}
	}
	s.Inserted = m.Image != ""
	if m.Inserted != nil {
		s.Inserted = *m.Inserted
	}
	if c.has(staleImage) && m.ConnectedVia == "NotConnected" {
		s.Inserted = false
	}
	if !s.Inserted {
		s.Image = ""
	}
	return s
}

// withoutUser removes credentials from a URL, and hides what is no URL.
func withoutUser(image string) string {
	u, err := url.Parse(image)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// InsertMedia implements bmc.Media. A slot that declines is passed over: some are
// the BMC's own console's alone (field notes: Cisco, OpenBMC, Lenovo).
func (c *conn) InsertMedia(ctx context.Context, kind bmc.MediaKind, image string) (bmc.MediaSlot, error) {
	c.begin(ctx)
	fail := func(err error) (bmc.MediaSlot, error) {
		return bmc.MediaSlot{}, fmt.Errorf("insert %s: %w", kind, err)
	}
	media, err := c.media()
	if err != nil {
		return fail(err)
	}
	candidates := mediaFor(kind, media)
	if len(candidates) == 0 {
		return fail(lacking("no slot of that kind"))
	}
	for _, m := range candidates {
		if s := c.slot(m); s.Inserted && s.Image == image {
			return s, nil
		}
	}
	// BMCs repeat the address, or a part of it, in what they refuse it with.
	own := c.secrets
	c.secrets = append(slices.Clone(own), secretsIn(image)...)
	defer func() { c.secrets = own }()
	var refused error
	for _, m := range candidates {
		slot, err := c.insert(m, image)
		if err == nil {
			return slot, nil
		}
		if !isRefusedRung(err) {
			return fail(err)
		}
		if e, _ := refusal(err); e.has("ResourceAtUriInUnknownFormat") && strings.HasPrefix(image, "http:") {
			err = fmt.Errorf("%w; OpenBMC takes https and smb addresses only", err)
		}
		if refused == nil || !isMissing(err) { // a slot that takes no images says nothing of this one
			refused = err
		}
	}
	return fail(fmt.Errorf("%w: no slot took it; last answer: %w", bmc.ErrNotApplied, refused))
}

// leastTicket is how long a part of a path is at least that may be a ticket, in characters.
const leastTicket = 20

// secretsIn are the parts of an image's address that nobody may read in an error: that of
// Ingot's own CD has a ticket in its path, and who has that reads the token on it (decision
// 0150). The host stays, which is what a person looks for.
func secretsIn(image string) []bmc.Password {
	_, after, _ := strings.Cut(image, "://")
	_, path, _ := strings.Cut(after, "/")
	var secrets []bmc.Password
	for part := range strings.SplitSeq(path, "/") {
		if len(part) >= leastTicket {
			secrets = append(secrets, bmc.Password(part))
		}
	}
	return secrets
}

// mediaFor lists the slots for a kind: those with an action first, then those of
// exactly the kind; a CD's image goes into a DVD drive too.
func mediaFor(kind bmc.MediaKind, media []mediaResource) []mediaResource {
	fits := func(m mediaResource) bool {
		disc := kind != bmc.MediaUSB && (slices.Contains(m.Types, string(bmc.MediaDVD)) || slices.Contains(m.Types, string(bmc.MediaCD)))
		return len(m.Types) == 0 || disc || slices.Contains(m.Types, string(kind))
	}
	rank := func(m mediaResource) int {
		n := 0
		if m.Actions.Insert == nil {
			n += 2
		}
		if !slices.Contains(m.Types, string(kind)) {
			n++
		}
		return n
	}
	out := slices.DeleteFunc(slices.Clone(media), func(m mediaResource) bool { return !fits(m) })
	slices.SortStableFunc(out, func(a, b mediaResource) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// insert puts an image into one slot and reads back. Image alone is sent first: the other
// parameters default to what is wanted (DSP2046: Inserted and WriteProtected are true), and
// X11 refuses them.
func (c *conn) insert(m mediaResource, image string) (bmc.MediaSlot, error) {
	if c.slot(m).Inserted {
		if err := c.eject(m); err != nil {
			return bmc.MediaSlot{}, err
		}
	}
	var err error
	if action := m.Actions.Insert; action != nil && action.Target != "" && !c.has(mediaByPatch) {
		body := map[string]any{"Image": image}
		for more := true; more; more = addMissing(body, err) {
			err = c.send(http.MethodPost, action.Target, body, nil)
		}
	} else {
		err = c.patchSlot(m, image, true)
	}
	if err != nil {
		return bmc.MediaSlot{}, err
	}
	slot, err := c.settle(m.ID, true)
	if err != nil {
		return bmc.MediaSlot{}, err
	}
	if !slot.Inserted || slot.Image != image {
		return bmc.MediaSlot{}, fmt.Errorf("%w: the slot shows inserted %v, image %q", bmc.ErrNotApplied, slot.Inserted, c.short(slot.Image, 200))
	}
	return slot, nil
}

// addMissing adds to the body of an InsertMedia the parameters that a refusal names, and
// reports whether there are any. BMCs name them in three places: the arguments, the related
// properties, and the text.
func addMissing(body map[string]any, err error) bool {
	e, ok := refusal(err)
	if !ok || !isRefusedRung(err) || e.refusesValue() {
		return false
	}
	image, _ := body["Image"].(string)
	scheme, _, _ := strings.Cut(image, ":")
	parameters := map[string]any{
		"TransferProtocolType": strings.ToUpper(scheme), "TransferMethod": "Stream", "MediaType": string(bmc.MediaCD),
		"Inserted": true, "WriteProtected": true, "UserName": "", "Password": "",
	}
	said, more := strings.ReplaceAll(e.said, image, ""), false // the address may hold any word
	for name, value := range parameters {
		if _, there := body[name]; !there && namesWord(said, name) {
			body[name], more = value, true
		}
	}
	if more || !e.has("ActionParameterMissing") || len(body) > 1 {
		return more
	}
	for _, name := range []string{"Inserted", "WriteProtected", "TransferProtocolType"} { // it names none
		body[name] = parameters[name]
	}
	return true
}

// namesWord reports a word that stands alone in a text.
func namesWord(text, word string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }), word)
}

// patchSlot is for slots without actions. Inserted can be written from VirtualMedia v1.2
// on; iLO 4 does not know it, and takes the image alone
// (github.com/ansible-collections/community.general issue 4595).
func (c *conn) patchSlot(m mediaResource, image any, inserted bool) error {
	body := map[string]any{"Image": image, "Inserted": inserted}
	var err error
	for more := true; more; more = inserted && addMissing(body, err) {
		err = c.patch(m.ID, "", body)
	}
	if e, ok := refusal(err); ok && (e.has("PropertyUnknown") || e.has("PropertyNotWritable")) {
		err = c.patch(m.ID, "", map[string]any{"Image": image})
	}
	return err
}

// A BMC shows an image when it has reached it, some seconds after its answer (AMI:
// github.com/ansible-collections/community.general issue 8279), and an empty slot when
// its USB gadget is gone. Not only a 202 says so, OpenBMC's 204 comes as early: the
// slot is looked at so often, with such a pause.
const (
	mediaTries = 15
	mediaWait  = time.Second
)

// settle reads a slot until it shows whether there is something in it as wanted, and
// returns what it showed last.
func (c *conn) settle(path string, inserted bool) (bmc.MediaSlot, error) {
	slot, err := c.readSlot(path)
	for tries := 0; err == nil && slot.Inserted != inserted && tries < mediaTries; tries++ {
		if err = pause(c.transport.ctx, c.mediaWait); err == nil {
			slot, err = c.readSlot(path)
		}
	}
	if err != nil {
		return bmc.MediaSlot{}, fmt.Errorf("read back: %w", err)
	}
	return slot, nil
}

// pause waits, or returns ErrTimeout with the context's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", bmc.ErrTimeout, ctx.Err())
	}
}

func (c *conn) readSlot(path string) (bmc.MediaSlot, error) {
	var m mediaResource
	err := c.get(path, &m)
	m.ID = path
	return c.slot(m), err
}

// EjectMedia implements bmc.Media.
func (c *conn) EjectMedia(ctx context.Context, slot string) error {
	c.begin(ctx)
	media, err := c.media()
	if err == nil {
		i := slices.IndexFunc(media, func(m mediaResource) bool { return m.ID == slot })
		if i < 0 {
			err = lacking("no such slot")
		} else if c.slot(media[i]).Inserted {
			err = c.eject(media[i])
		}
	}
	if err != nil {
		return fmt.Errorf("eject %s: %w", bmc.Shorten(slot, 200), err)
	}
	return nil
}

func (c *conn) eject(m mediaResource) error {
	var err error
	if action := m.Actions.Eject; action != nil && action.Target != "" && !c.has(mediaByPatch) {
		err = c.send(http.MethodPost, action.Target, map[string]any{}, nil)
	} else {
		err = c.patchSlot(m, nil, false)
	}
	if err != nil {
		return err
	}
	slot, err := c.settle(m.ID, false)
	if err != nil {
		return err
	}
	if slot.Inserted {
		return fmt.Errorf("%w: the slot still shows an image", bmc.ErrNotApplied)
	}
	return nil
}
