//! The parameters of an address, read one by one, so that a misspelt one is refused and not passed over.

use std::collections::BTreeMap;

use longhaul_wire::Problem;
use longhaul_wire::text::shortened;

/// Parameters that have not been read yet.
#[derive(Debug, Default)]
pub(crate) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    pub(crate) fn of(query: Option<&str>) -> Result<Self, Problem> {
        let mut parameters = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let name = shortened(&name, longhaul_wire::limits::ECHO_LENGTH_MAX);
            if value.is_empty() {
                return Err(Problem::parameter(name, "must not be empty; leave it out instead"));
            }
            if parameters.insert(name.clone(), value.into_owned()).is_some() {
                return Err(Problem::parameter(name, "must be given once"));
            }
        }
        Ok(Self(parameters))
    }

    /// Takes a parameter out.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes a whole number between `min` and `max` out.
    pub(crate) fn number(&mut self, name: &str, min: u64, max: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (min..=max).contains(number));
        match number {
            Some(number) => Ok(Some(number)),
            None if max == u64::MAX => {
                Err(Problem::parameter(name, format!("must be a whole number of at least {min}")))
            }
            None => Err(Problem::parameter(name, format!("must be a whole number from {min} to {max}"))),
        }
    }

    /// Takes the size of a page out.
    pub(crate) fn page_size(&mut self, default: usize, max: usize) -> Result<usize, Problem> {
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        let size = self.number("limit", 1, max)?;
        Ok(size.and_then(|size| usize::try_from(size).ok()).unwrap_or(default))
    }

    /// Refuses what nobody has read.
    pub(crate) fn end(self) -> Result<(), Problem> {
        match self.0.into_keys().next() {
            Some(name) => Err(Problem::parameter(name, "is no parameter of this address")),
            None => Ok(()),
        }
    }
}
