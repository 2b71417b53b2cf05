//! A counting semaphore that grants permits in order of arrival and whose waiters may give up (cancel, deadline,
//! budget).
//!
//! A released permit goes directly to one waiter, so that a caller that releases and acquires again cannot overtake.
//! Urgent callers (with a time limit) come first, but while ordinary ones wait, they get every second permit: neither
//! kind starves. A permit may be released on another thread.

use std::collections::VecDeque;
use std::time::Duration;

use super::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError, wait_for};
use crate::error::{Error, Result};

/// Number of condition variables that waiters are spread over, so that a grant wakes few others.
const CONDVARS: usize = 16;

pub struct FairSemaphore {
    queue: Mutex<Queue>,
    granted: [Condvar; CONDVARS],
    /// Number of waiters without a permit, readable without the lock; next, the urgent ones among them.
    waiting: AtomicUsize,
    urgent: AtomicUsize,
}

struct Queue {
    /// Number of free permits; 0 while a caller waits.
    free: usize,
    next_ticket: u64,
    /// In order of arrival, including waiters that were granted a permit and have not woken yet.
    waiters: VecDeque<Waiter>,
    /// True if the last permit went to an urgent caller.
    last_was_urgent: bool,
}

struct Waiter {
    ticket: u64,
    is_urgent: bool,
    is_granted: bool,
}

impl Queue {
    /// Grants a free permit to the next waiter and returns its ticket.
    fn grant(&mut self) -> Option<u64> {
        let first = |urgent: bool| self.waiters.iter().position(|w| !w.is_granted && w.is_urgent == urgent);
        let index = match (first(true), first(false)) {
            (Some(_), Some(ordinary)) if self.last_was_urgent => ordinary,
            (Some(urgent), _) => urgent,
            (None, ordinary) => ordinary?,
        };
        self.free = self.free.checked_sub(1)?;
        let waiter = self.waiters.get_mut(index)?;
        waiter.is_granted = true;
        self.last_was_urgent = waiter.is_urgent;
        Some(waiter.ticket)
    }

    fn count(&self, urgent_only: bool) -> usize {
        self.waiters.iter().filter(|w| !w.is_granted && (w.is_urgent || !urgent_only)).count()
    }
}

impl FairSemaphore {
    pub fn new(permits: usize) -> FairSemaphore {
        let queue = Queue { free: permits, next_ticket: 0, waiters: VecDeque::new(), last_was_urgent: false };
        FairSemaphore {
            queue: Mutex::new(queue),
            granted: std::array::from_fn(|_| Condvar::new()),
            waiting: AtomicUsize::new(0),
            urgent: AtomicUsize::new(0),
        }
    }

    /// Takes a permit if one is free.
    pub fn try_acquire(&self, is_urgent: bool) -> bool {
        let mut queue = self.lock();
        let is_free = queue.free > 0;
        if is_free {
            queue.free -= 1;
            queue.last_was_urgent = is_urgent;
        }
        is_free
    }

    /// Waits for a permit; returns false if the caller gave up. `patience` is called before each wait and returns the
    /// maximum time to wait; `None` gives up. Fails if there is no memory for an entry in the queue.
    pub fn acquire(&self, is_urgent: bool, mut patience: impl FnMut() -> Option<Duration>) -> Result<bool> {
        if self.try_acquire(is_urgent) {
            return Ok(true);
        }
        let mut queue = self.lock();
        queue.waiters.try_reserve(1).map_err(|_| Error::OutOfMemory { what: "a queue", bytes: 0 })?;
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiters.push_back(Waiter { ticket, is_urgent, is_granted: false });
        // A permit may have become free since the first check.
        self.grant_all(&mut queue);
        loop {
            let index = queue.waiters.iter().position(|w| w.ticket == ticket).unwrap_or_default();
            let is_granted = queue.waiters[index].is_granted;
            let time = if is_granted { None } else { patience() };
            let Some(time) = time else {
                queue.waiters.remove(index);
                self.publish(&queue);
                return Ok(is_granted);
            };
            queue = wait_for(&self.queue, &self.granted[ticket as usize % CONDVARS], queue, time);
        }
    }

    /// Releases a permit to the next waiter, if any.
    pub fn release(&self) {
        let mut queue = self.lock();
        queue.free += 1;
        self.grant_all(&mut queue);
    }

    /// Returns the number of callers that wait for a permit.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// True if an urgent caller waits.
    pub fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::Relaxed) > 0
    }

    fn grant_all(&self, queue: &mut Queue) {
        while let Some(ticket) = queue.grant() {
            self.granted[ticket as usize % CONDVARS].notify_all();
        }
        self.publish(queue);
    }

    fn publish(&self, queue: &Queue) {
        self.waiting.store(queue.count(false), Ordering::Relaxed);
        self.urgent.store(queue.count(true), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
