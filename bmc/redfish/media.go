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
func (c *conn) MediaSlots(ctx context.Context) (slots []bmc.MediaSlot, err error) {
	c.begin(ctx)
	defer wrap(&err, "list virtual media")
	media, err := c.media()
	for _, m := range media {
		slots = append(slots, c.slot(m))
	}
	return slots, err
}

// systemOrManagerMembers returns the members of two collections, one below the system and
// one below its manager, since firmware versions differ (iDRAC moved its media to the system).
func (c *conn) systemOrManagerMembers(of func(*systemResource, managerResource) [2]link) ([]string, error) {
	system, err := c.systemForWrite()
	if err != nil {
		return nil, err
	}
	manager, _, err := c.manager(system)
	if err := ignoreUnsupported(err); err != nil {
		return nil, err
	}
	var paths []string
	for _, collection := range of(system, manager) {
		if collection.ID == "" {
			continue
		}
		members, err := c.members(collection.ID)
		if err != nil && !isMissing(err) {
			return nil, err
		}
		paths = append(paths, members...)
	}
	return paths, nil
}

// media reads the slots of the system and of its manager.
func (c *conn) media() ([]mediaResource, error) {
	paths, err := c.systemOrManagerMembers(func(s *systemResource, m managerResource) [2]link { return [2]link{s.VirtualMedia, m.VirtualMedia} })
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var media []mediaResource
	var unread error
	for _, path := range slices.Compact(paths) {
		var m mediaResource
		if err := c.get(path, &m); err != nil {
			if ignoreUnsupported(err) != nil && !brokeDown(err) {
				return nil, err
			}
			unread = cmp.Or(unread, ignoreUnsupported(err))
			continue // an unreadable slot is not usable
		}
		m.ID = path
		media = append(media, m)
	}
	if len(media) == 0 && unread != nil {
		return nil, unread
	}
	if len(media) == 0 {
		return nil, notSupported("no slot for virtual media")
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

// withoutUser returns a URL without credentials, or "" if image is not a URL.
func withoutUser(image string) string {
	u, err := url.Parse(image)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// InsertMedia implements bmc.Media. It skips a slot that declines: some slots serve only the
// BMC's own console (field notes: Cisco, OpenBMC, Lenovo).
func (c *conn) InsertMedia(ctx context.Context, kind bmc.MediaKind, image string) (_ bmc.MediaSlot, err error) {
	c.begin(ctx)
	defer wrap(&err, "insert "+string(kind))
	media, err := c.media()
	if err != nil {
		return bmc.MediaSlot{}, err
	}
	candidates := mediaFor(kind, media)
	if len(candidates) == 0 {
		return bmc.MediaSlot{}, notSupported("no slot of that kind")
	}
	for _, m := range candidates {
		if s := c.slot(m); s.Inserted && s.Image == image {
			return s, nil
		}
	}
	// BMCs repeat the URL or a part of it in a refusal.
	own := c.secrets
	c.secrets = append(slices.Clone(own), secretsIn(image)...)
	defer func() { c.secrets = own }()
	var refused error
	for _, m := range candidates {
		slot, err := c.insert(m, image)
		if err == nil {
			return slot, nil
		}
		if !isDeclined(err) {
			return bmc.MediaSlot{}, err
		}
		if e, _ := refusal(err); e.has("ResourceAtUriInUnknownFormat") && strings.HasPrefix(image, "http:") {
			err = fmt.Errorf("%w; OpenBMC accepts only https and smb addresses", err)
		}
		if refused == nil || !isMissing(err) { // prefer an answer about the image to one about the slot
			refused = err
		}
	}
	return bmc.MediaSlot{}, fmt.Errorf("%w: no slot accepted the image; last answer: %w", bmc.ErrNotApplied, refused)
}

// minTokenLength is the length from which a path segment counts as a token, in bytes.
const minTokenLength = 20

// secretsIn returns the parts of an image's URL that errors must not show: the URL of Ingot's own
// CD has a token in its path, which gives access to the token on the CD. The host is not secret,
// since operators need it to find the cause.
func secretsIn(image string) []bmc.Password {
	_, after, _ := strings.Cut(image, "://")
	_, path, _ := strings.Cut(after, "/")
	var secrets []bmc.Password
	for part := range strings.SplitSeq(path, "/") {
		if len(part) >= minTokenLength {
			secrets = append(secrets, bmc.Password(part))
		}
	}
	return secrets
}

// mediaFor returns the slots for a kind, best first: with an insert action, then of exactly the
// kind. A CD image fits a DVD drive too.
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

// insert puts an image into one slot and reads it back. It sends only Image first: the defaults of
// the other parameters are right (DSP2046: Inserted and WriteProtected are true), and Supermicro
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

// addMissing adds the parameters that a refusal names to the body of an InsertMedia and reports
// whether there are any. BMCs name them in the arguments, the related properties or the text.
func addMissing(body map[string]any, err error) bool {
	e, ok := refusal(err)
	if !ok || !isDeclined(err) || e.refusesValue() {
		return false
	}
	image, _ := body["Image"].(string)
	scheme, _, _ := strings.Cut(image, ":")
	parameters := map[string]any{
		"TransferProtocolType": strings.ToUpper(scheme), "TransferMethod": "Stream", "MediaType": string(bmc.MediaCD),
		"Inserted": true, "WriteProtected": true, "UserName": "", "Password": "",
	}
	said, more := strings.ReplaceAll(e.said, image, ""), false // the URL may contain any word
	for name, value := range parameters {
		if _, there := body[name]; !there && namesWord(said, name) {
			body[name], more = value, true
		}
	}
	if more || !e.has("ActionParameterMissing") || len(body) > 1 {
		return more
	}
	for _, name := range []string{"Inserted", "WriteProtected", "TransferProtocolType"} { // the refusal names none
		body[name] = parameters[name]
	}
	return true
}

// namesWord reports whether a text contains a whole word.
func namesWord(text, word string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }), word)
}

// patchSlot writes a slot that has no actions. Inserted is writable since VirtualMedia v1.2; iLO 4
// does not know it and takes only the image
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

const (
	// mediaTries bounds the reads of a slot after a change. A BMC shows an image some seconds
	// after its answer, when it has reached the image (AMI:
	// github.com/ansible-collections/community.general issue 8279), and an empty slot when its
	// USB gadget is gone. OpenBMC answers as early with 204 as others with 202.
	mediaTries = 15
	// mediaWait is the pause between these reads.
	mediaWait = time.Second
)

// settle reads a slot until it shows the desired state, and returns what it showed last.
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

// pause waits, or returns ErrTimeout with the error of the context.
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
func (c *conn) EjectMedia(ctx context.Context, slot string) (err error) {
	c.begin(ctx)
	defer wrap(&err, "eject "+bmc.Shorten(slot, 200))
	media, err := c.media()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(media, func(m mediaResource) bool { return m.ID == slot })
	if i < 0 {
		return notSupported("no such slot")
	}
	if !c.slot(media[i]).Inserted {
		return nil
	}
	return c.eject(media[i])
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
