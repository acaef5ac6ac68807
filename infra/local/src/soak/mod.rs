//! The soak: jobs at a rate, function processes killed at random moments, and an auditor who reads everything afterwards.
//!
//! Promises about crashes are worth what was tried against them. This runs real load on a real stack of this program,
//! kills what it can, and then does not ask the stack how it went but reads every journal and holds it against the count
//! of the model server, which knows how often each effect was really asked for.
//!
//! | Part | Does |
//! |---|---|
//! | [`audit`] | one job's books: what must be true of its item, its journal and its effects |
//! | [`books`] | reads the books of a running stack: table, queues, the model server's requests |
//! | [`load`] | submits jobs until each is accepted |
//! | [`recovery`] | how long jobs stood still after a kill |
//! | [`growth`] | memory and disk |
//! | [`run`] | the soak itself |
//! | [`verdict`] | what it came to |

pub mod audit;
pub mod books;
pub mod growth;
pub mod load;
pub mod recovery;
pub mod run;
pub mod verdict;
