//! Which heading of a report a sentence belongs under.
//!
//! Words in common decide first. Headings are short, though, so each is also known by the sides of a subject that it
//! names ("failures", "practice", "how it works"), and a sentence by the words that such sides are written with.

use std::collections::{BTreeMap, BTreeSet};

use super::words::{stems, terms};

/// One side of a subject: words of headings that name it, and words of sentences that speak of it.
struct Facet {
    heading: &'static str,
    sentence: &'static str,
}

const FACETS: [Facet; 5] = [
    Facet {
        heading: "meant meaning definition define idea basics background overview introduction concept term history about",
        sentence: "called define definition known mean term refer describe concept introduce idea kind type form \
            consist example history origin",
    },
    Facet {
        heading: "work works working mechanism process operation inside architecture design method approach step",
        sentence: "send receive store write read process run start return call step message order record hold pass \
            client server system mechanism work deliver",
    },
    Facet {
        heading: "failure failures limit limits risk problem challenge trade cost danger weakness criticism error",
        sentence: "fail failure error crash lose lost risk limit problem danger wrong break broken duplicate slow cost \
            expensive overload timeout unable difficult hard worse damage cause harm threat",
    },
    Facet {
        heading: "practice practical recommendation advice lesson follow follows guideline use application best action",
        sentence: "should must recommend advise practice ensure avoid prefer choose set configure test measure monitor \
            need require check careful rule better worth pay never always",
    },
    Facet {
        heading: "evidence result results effect benefit impact figure measurement finding number data why",
        sentence: "percent increase decrease reduce improve benefit result measure show found study report average \
            million allow help better faster",
    },
];

/// What a word of a heading weighs that nearly no sentence holds, against a word of the same side. A word that every
/// sentence holds weighs nothing: it tells no heading from another.
const SHARED_WEIGHT: f64 = 2.5;

/// A heading, ready to be compared.
pub(super) struct Heading {
    weights: BTreeMap<String, f64>,
    sides: Vec<BTreeSet<String>>,
}

impl Heading {
    /// A heading over a report whose sentences consist of these words.
    pub(super) fn new(heading: &str, sentences: &[&BTreeSet<String>]) -> Self {
        let own = terms(heading);
        let sides = FACETS
            .iter()
            .filter(|facet| !terms(facet.heading).is_disjoint(&own))
            .map(|facet| stems(facet.sentence))
            .collect();
        let weights = own
            .into_iter()
            .map(|term| {
                let holding = sentences.iter().filter(|sentence| sentence.contains(&term)).count() as f64;
                let weight = SHARED_WEIGHT * (1.0 - holding / sentences.len().max(1) as f64);
                (term, weight)
            })
            .collect();
        Self { weights, sides }
    }

    /// How well a sentence fits under the heading, by its content words and by all its words: 0 for not at all.
    pub(super) fn affinity(&self, content: &BTreeSet<String>, all: &BTreeSet<String>) -> f64 {
        let shared: f64 = content.iter().filter_map(|term| self.weights.get(term)).sum();
        let sided: usize = self.sides.iter().map(|side| side.intersection(all).count()).sum();
        (shared + sided as f64) / (content.len() as f64 + 3.0).sqrt()
    }
}
