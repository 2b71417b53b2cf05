//! The workers of an open step, as its ops use them.

use std::ops::Deref;

use crate::cpu::threads::pool::Team;
use crate::error::{Error, Result};

/// The team of the open step while an op runs. A panic returns the pool to its other users.
pub struct OpenTeam<'a>(&'a mut Option<Team>);

/// Returns the team of the open step.
pub fn team(open: &mut Option<Team>) -> Result<OpenTeam<'_>> {
    match open {
        Some(_) => Ok(OpenTeam(open)),
        None => Err(Error::invalid("no step is open")),
    }
}

impl Deref for OpenTeam<'_> {
    type Target = Team;

    fn deref(&self) -> &Team {
        self.0.as_ref().expect("`team` has looked")
    }
}

impl Drop for OpenTeam<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0 = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;
    use crate::cpu::threads::pool::Pool;

    #[test]
    fn a_panic_in_an_op_gives_the_pool_back() {
        let pool = Arc::new(Pool::new(2).unwrap());
        let mut open = Some(pool.enter().unwrap());
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let team = team(&mut open).unwrap();
            team.run(|share| assert_eq!(share, 0));
        }));
        assert!(panic.is_err() && team(&mut open).is_err());
        pool.enter().unwrap().run(|_| ());
    }
}
