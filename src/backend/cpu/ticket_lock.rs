//! A lock that is taken on one thread and released on another. Knows nothing of what it guards.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A lock that is granted in the order of arrival. Counters rather than a guard, so that a team may end on another thread.
#[derive(Default)]
pub struct TicketLock {
    tickets: Mutex<Tickets>,
    released: Condvar,
}

#[derive(Default)]
struct Tickets {
    /// The next ticket to be drawn.
    next: u64,
    /// The ticket that holds the lock.
    serving: u64,
}

impl TicketLock {
    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock.
    pub fn acquire(&self) {
        let mut tickets = self.tickets();
        let mine = tickets.next;
        tickets.next += 1;
        while tickets.serving != mine {
            tickets = self.released.wait(tickets).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives the lock to the next in line.
    pub fn release(&self) {
        self.tickets().serving += 1;
        self.released.notify_all();
    }
}
