//! The way to servers of a trial that was given no traffic: there is none. A test that forgot its recording would else
//! file a real letter at each run.

use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use longhaul_llm::{Carried, Carrier, CarrierError};
use reqwest::{Client, Request};

/// Refuses each request and remembers it.
#[derive(Debug, Default)]
pub(crate) struct Closed(Mutex<Vec<String>>);

impl Closed {
    /// What was asked for, without queries, which may hold keys.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Carrier for Closed {
    fn carry<'a>(&'a self, _client: &'a Client, request: Request) -> Carried<'a> {
        let mut url = request.url().clone();
        url.set_query(None);
        let asked = format!("{} {url}", request.method());
        let why = format!("the trial has no traffic, which {asked} needs");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        async move { Err(CarrierError::Refused(why)) }.boxed()
    }
}
