// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

const (
	pathService       = resource.Root + "/EventService"
	pathSubscriptions = pathService + "/Subscriptions"
	// StreamPath is the path of server-sent events.
	StreamPath = pathService + "/SSE"

	// queue bounds the undelivered events; further ones are lost.
	queue = 32
	// deliveryTime bounds a push.
	deliveryTime = 5 * time.Second
	// attempts bounds the tries of a push.
	attempts = 2
)

// Event is one event.
type Event struct {
	MessageID, Message string
	// Severity is "OK", "Warning" or "Critical"; empty: "OK".
	Severity string
	// Origin is the @odata.id of the affected resource.
	Origin string
}

// Config describes a service.
type Config struct {
	Personality personality.Personality
	// Client pushes events. Required.
	Client *http.Client
	// OnUse is called when the first subscription or stream begins, OnIdle after the last has ended,
	// never at the same time; nil: not called.
	OnUse, OnIdle func()
}

// receiver is a subscription or, without a destination, a stream.
type receiver struct {
	id, destination, context string
	events                   chan []byte
	cancel                   context.CancelFunc
}

// Service is the event service. It is safe for concurrent use.
type Service struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu        sync.Mutex
	receivers map[string]*receiver
	last      int
	events    int
}

// New returns a service without subscriptions.
func New(cfg Config) *Service {
	ctx, cancel := context.WithCancel(context.Background())
	return &Service{cfg: cfg, ctx: ctx, cancel: cancel}
}

// Close ends all deliveries and streams.
func (s *Service) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.work.Wait()
}

// Subscriptions counts the subscriptions, without streams.
func (s *Service) Subscriptions() int { return len(s.paths()) }

func (s *Service) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var paths []string
	for id, r := range s.receivers {
		if r.destination != "" {
			paths = append(paths, pathSubscriptions+"/"+id)
		}
	}
	return paths
}

// Send sends an event to all receivers; slow receivers lose it.
func (s *Service) Send(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	for _, r := range s.receivers {
		select {
		case r.events <- s.encode(e, r):
		default:
		}
	}
}

// encode returns the Event resource (DSP0268, Event).
func (s *Service) encode(e Event, r *receiver) []byte {
	id := strconv.Itoa(s.events)
	severity := cmp.Or(e.Severity, "OK")
	o := resource.Object{
		"@odata.type": "#Event.v1_7_0.Event", "Id": id, "Name": "Event Array", "Context": r.context,
		"Events": []resource.Object{{
			"MemberId": "0", "EventId": id, "EventType": "StatusChange", "EventTimestamp": time.Now().UTC().Format(time.RFC3339),
			"MessageId": e.MessageID, "Message": e.Message, "MessageSeverity": severity, "Severity": severity,
			"OriginOfCondition": resource.Ref(e.Origin),
		}},
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and maps of strings
	}
	return text
}

// add adds a receiver; false: there are too many.
func (s *Service) add(r *receiver) (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || len(s.receivers) >= s.cfg.Personality.Subscriptions {
		return nil, false
	}
	if s.receivers == nil {
		s.receivers = map[string]*receiver{}
	}
	s.last++
	r.id, r.events = strconv.Itoa(s.last), make(chan []byte, queue)
	ctx, cancel := context.WithCancel(s.ctx)
	r.cancel = cancel
	s.receivers[r.id] = r
	s.work.Add(1)
	if len(s.receivers) == 1 && s.cfg.OnUse != nil {
		s.cfg.OnUse()
	}
	return ctx, true
}

// remove removes a receiver; false: there is none.
func (s *Service) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.receivers[id]
	if r == nil {
		return false
	}
	r.cancel()
	delete(s.receivers, id)
	if len(s.receivers) == 0 && s.cfg.OnIdle != nil {
		s.cfg.OnIdle()
	}
	return true
}

// deliver pushes until the subscription ends.
func (s *Service) deliver(ctx context.Context, r *receiver) {
	defer s.work.Done()
	for {
		select {
		case <-ctx.Done():
			return
		case body := <-r.events:
			for range attempts {
				if s.push(ctx, r.destination, body) == nil {
					break
				}
			}
		}
	}
}

func (s *Service) push(ctx context.Context, destination string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, deliveryTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, destination, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("push event: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.cfg.Client.Do(req)
	if err != nil {
		return fmt.Errorf("push event: %w", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("push event: the destination answered %d", resp.StatusCode)
	}
	return nil
}

// Stream sends server-sent events until the client or the BMC ends it.
func (s *Service) Stream(w http.ResponseWriter, r *http.Request) {
	receiver := &receiver{}
	ctx, ok := s.add(receiver)
	if !ok {
		resource.Fail(http.StatusServiceUnavailable, "ServiceTemporarilyUnavailable", "no more streams").Send(w)
		return
	}
	defer s.work.Done()
	defer s.remove(receiver.id)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	_, _ = fmt.Fprint(w, ": stream\n\n")
	for n := 1; ; n++ {
		if out.Flush() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-r.Context().Done():
			return
		case body := <-receiver.events:
			if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", n, body); err != nil {
				return
			}
		}
	}
}

// Break ends all streams, as a restart of the BMC does; subscriptions stay.
func (s *Service) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.receivers {
		if r.destination == "" {
			r.cancel()
		}
	}
}

// Read returns the service and the subscriptions.
func (s *Service) Read(path string) (resource.Object, bool) {
	p := s.cfg.Personality
	if p.Subscriptions == 0 {
		return nil, false
	}
	switch path {
	case pathService:
		o := resource.New(path, "EventService.v1_10_1", "Event Service")
		o["ServiceEnabled"], o["Subscriptions"] = true, resource.Ref(pathSubscriptions)
		o["DeliveryRetryAttempts"], o["EventFormatTypes"], o["Status"] = attempts, []string{"Event"}, resource.Health("OK")
		if p.SSE {
			o["ServerSentEventUri"] = StreamPath
		}
		return o, true
	case pathSubscriptions:
		return resource.Collection(path, "EventDestination", s.paths()), true
	}
	id, ok := strings.CutPrefix(path, pathSubscriptions+"/")
	if !ok {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.receivers[id]
	if r == nil || r.destination == "" {
		return nil, false
	}
	return r.object(), true
}

func (r *receiver) object() resource.Object {
	o := resource.New(pathSubscriptions+"/"+r.id, "EventDestination.v1_14_1", "Event Subscription")
	o["Destination"], o["Context"], o["Protocol"], o["SubscriptionType"] = r.destination, r.context, "Redfish", "RedfishEvent"
	return o
}

// Write creates and deletes subscriptions.
func (s *Service) Write(r resource.Request) (resource.Answer, bool) {
	if s.cfg.Personality.Subscriptions == 0 {
		return resource.Answer{}, false
	}
	if r.Is(http.MethodPost, pathSubscriptions) {
		return s.subscribe(r).Named("Subscribe"), true
	}
	id, ok := strings.CutPrefix(r.Path, pathSubscriptions+"/")
	if !ok || r.Method != http.MethodDelete {
		return resource.Answer{}, false
	}
	if !s.remove(id) {
		return resource.Fail(http.StatusNotFound, "ResourceMissingAtURI", "no resource at "+r.Path).Named("Unsubscribe"), true
	}
	return resource.Done("Unsubscribe"), true
}

func (s *Service) subscribe(r resource.Request) resource.Answer {
	var body struct{ Destination, Context, Protocol string }
	if a, ok := r.Decode(&body); !ok {
		return a
	}
	switch {
	case !strings.HasPrefix(body.Destination, "http://") && !strings.HasPrefix(body.Destination, "https://"):
		return resource.Fail(http.StatusBadRequest, "PropertyValueFormatError", "Destination is no http or https URL")
	case body.Protocol != "Redfish":
		return resource.Fail(http.StatusBadRequest, "PropertyValueNotInList", "Protocol is not in the list")
	}
	receiver := &receiver{destination: body.Destination, context: body.Context}
	ctx, ok := s.add(receiver)
	if !ok {
		return resource.Fail(http.StatusBadRequest, "EventSubscriptionLimitExceeded", "The event subscription failed due to the number of simultaneous subscriptions exceeding the limit of the implementation.")
	}
	go s.deliver(ctx, receiver)
	return resource.Answer{Status: http.StatusCreated, Location: pathSubscriptions + "/" + receiver.id, Body: receiver.object()}
}
