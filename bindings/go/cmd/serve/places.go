// Places of requests: slots of a model, and the queue for slots.
package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// place is a slot or the right to a slot: it is in the queue, or its owner joins the queue later. engine.mu guards it.
type place struct {
	engine *engine
	turn   chan struct{} // closed: the place has a slot; nil: its owner has not requested one
	since  time.Time     // time at which the place got its slot
	left   bool
}

// admit takes up to n places, at least one, for the replies of one request. The first atOnce places have slots or are
// in the queue. If there is no room for any, the error is an apiError with the status 429.
func (e *engine) admit(n, atOnce int) ([]*place, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n = min(n, e.free+e.maxQueue-len(e.waiting)-e.reserved)
	if n < 1 {
		return nil, e.queueIsFull()
	}
	places := make([]*place, n)
	for i := range places {
		places[i] = &place{engine: e}
		if e.reserved++; i < atOnce {
			e.join(places[i])
		}
	}
	return places, nil
}

// assumedHeld is the time for which a place is expected to have its slot, before any has had one.
const assumedHeld = 2 * time.Second

// maxRetryAfter bounds Retry-After, because the clients of OpenAI ignore more than a minute.
const maxRetryAfter = time.Minute

// queueIsFull is the error of a request when the queue is full. The client shall retry when the requests that wait now
// are expected to have slots; mu must be held.
func (e *engine) queueIsFull() error {
	wait := e.held * time.Duration(len(e.waiting)) / time.Duration(e.slots)
	return &apiError{
		status: http.StatusTooManyRequests, code: "queue_full", retryAfter: min(max(time.Second, wait), maxRetryAfter),
		message: fmt.Sprintf("the queue of the model is full with %d requests; try again later", e.maxQueue),
	}
}

// join takes a slot for a reserved place, or appends it to the queue; mu must be held.
func (e *engine) join(p *place) {
	e.reserved--
	p.turn = make(chan struct{})
	if e.free > 0 {
		e.free--
		e.metrics.busy.Inc()
		p.begin()
		return
	}
	e.waiting = append(e.waiting, p)
	e.metrics.queue.Inc()
}

// begin gives a slot to a place; mu must be held.
func (p *place) begin() {
	p.since = time.Now()
	close(p.turn)
}

// release removes a place from the queue, or passes its slot to the place that has waited longest; mu must be held.
func (e *engine) release(p *place) {
	if i := slices.Index(e.waiting, p); i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.metrics.queue.Dec()
		return
	}
	e.held += (time.Since(p.since) - e.held) / 8 // the mean of about the last eight times
	if len(e.waiting) > 0 {
		e.waiting[0].begin()
		e.waiting = slices.Delete(e.waiting, 0, 1)
		e.metrics.queue.Dec()
	} else {
		e.free++
		e.metrics.busy.Dec()
	}
}

// hasSlot reports whether a place has a slot.
func (p *place) hasSlot() bool {
	select {
	case <-p.turn: // blocks while it is nil
		return true
	default:
		return false
	}
}

// wait waits for a slot, and calls queued before if it has to wait.
func (p *place) wait(ctx context.Context, queued func()) error {
	p.engine.mu.Lock()
	if p.turn == nil {
		p.engine.join(p)
	}
	p.engine.mu.Unlock()
	if !p.hasSlot() {
		queued()
	}
	select {
	case <-p.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pass gives the slot to a waiting place. The next wait is for another slot; the queue limit does not reject it.
func (p *place) pass() {
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	p.engine.release(p)
	p.engine.reserved++
	p.turn = nil
}

// leave gives the place up; later calls have no effect.
func (p *place) leave() {
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	switch {
	case p.left:
	case p.turn == nil:
		p.engine.reserved--
	default:
		p.engine.release(p)
	}
	p.left = true
}

// enter waits for a slot, for a request that needs only one.
func (e *engine) enter(ctx context.Context) (leave func(), err error) {
	places, err := e.admit(1, 1)
	if err != nil {
		return nil, err
	}
	if err := places[0].wait(ctx, func() {}); err != nil {
		places[0].leave()
		return nil, err
	}
	return places[0].leave, nil
}
