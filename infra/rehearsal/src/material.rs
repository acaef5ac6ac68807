//! What a report is made of: the notes of the sources, taken apart into sentences and spread over the headings.

use std::collections::BTreeSet;

use serde_json::Value;

use super::facets::Heading;
use super::prompt::{section, sections};
use super::sentences::sentences;
use super::words::{collapse, overlap, stems, terms, words};

/// Words of a report's material: about three pages together with what joins it.
const MATERIAL_MAX_WORDS: usize = 1_100;

/// A summary's sentence that shares more of its words with a quote is the quote again.
const REPEATED_OVERLAP: f64 = 0.75;

/// A section may hold so much more than its even share.
const CROWDED_FACTOR: f64 = 1.4;

/// A source's notes.
#[derive(Debug)]
pub(super) struct Note {
    /// As it is cited.
    pub(super) number: u64,
    pub(super) title: String,
}

/// One sentence of a note.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// Position in the list of notes.
    pub(super) note: usize,
    pub(super) text: String,
    /// Whether the note quotes it; otherwise its summary says it.
    pub(super) quoted: bool,
    pub(super) terms: BTreeSet<String>,
    /// Words of the topic in it.
    pub(super) topical: usize,
    /// Its place in its note.
    order: usize,
}

impl Piece {
    pub(super) fn words(&self) -> usize {
        words(&self.text).len()
    }
}

/// The material under one heading, in the order of the notes.
pub(super) struct Chapter {
    pub(super) heading: String,
    pub(super) pieces: Vec<Piece>,
}

/// Everything that a report's prompt holds.
pub(super) struct Material {
    pub(super) notes: Vec<Note>,
    pub(super) pieces: Vec<Piece>,
    outline: Vec<String>,
}

impl Material {
    pub(super) fn read(message: &str, topic: &BTreeSet<String>) -> Self {
        let mut notes = Vec::new();
        let mut pieces: Vec<Piece> = Vec::new();
        for (position, section) in sections(message, "note").into_iter().enumerate() {
            let number = section.attribute("number").parse().unwrap_or(position as u64 + 1);
            let value: Value = serde_json::from_str(section.body).unwrap_or(Value::String(section.body.to_owned()));
            if value.get("relevant") == Some(&Value::Bool(false)) {
                continue;
            }
            let title = [section.attribute("title"), section.attribute("file")]
                .into_iter()
                .find(|name| !name.trim().is_empty())
                .map_or_else(|| format!("Source {number}"), collapse);
            let note = notes.len();
            notes.push(Note { number, title });
            // What two sources say in the same words is kept for both: each has to be cited.
            pieces.extend(note_pieces(&value, note, topic));
        }
        let outline = section(message, "outline").unwrap_or_default();
        let outline: Vec<String> = outline
            .lines()
            .map(|line| collapse(line.trim_start_matches(|c: char| c.is_ascii_digit() || " .)-*#".contains(c))))
            .filter(|line| !line.is_empty())
            .collect();
        Self { notes, pieces: within_limit(pieces), outline }
    }

    /// The chapters that have something to say.
    pub(super) fn chapters(&self, fallback_heading: &str) -> Vec<Chapter> {
        let mut names = self.outline.clone();
        if names.is_empty() {
            names.push(fallback_heading.to_owned());
        }
        let spoken: Vec<&BTreeSet<String>> = self.pieces.iter().map(|piece| &piece.terms).collect();
        let headings: Vec<Heading> = names.iter().map(|name| Heading::new(name, &spoken)).collect();
        let mut places: Vec<Vec<Piece>> = vec![Vec::new(); names.len()];
        let room = (self.pieces.len() as f64 / names.len() as f64 * CROWDED_FACTOR).ceil().max(2.0) as usize;
        let mut waiting: Vec<(Vec<f64>, &Piece)> = self
            .pieces
            .iter()
            .map(|piece| {
                (headings.iter().map(|heading| heading.affinity(&piece.terms, &stems(&piece.text))).collect(), piece)
            })
            .collect();
        // Who fits best chooses first.
        let best = |fits: &[f64]| fits.iter().copied().fold(0.0, f64::max);
        waiting.sort_by(|(one, _), (other, _)| best(other).total_cmp(&best(one)));
        for (fits, piece) in waiting {
            let place = (0..names.len())
                .filter(|place| places.get(*place).is_some_and(|place| place.len() < room))
                .max_by(|one, other| {
                    let fit = |place: &usize| fits.get(*place).copied().unwrap_or(0.0);
                    // Among equal places the emptier, then the earlier.
                    let load = |place: &usize| places.get(*place).map_or(0, Vec::len);
                    fit(one).total_cmp(&fit(other)).then(load(other).cmp(&load(one))).then(other.cmp(one))
                });
            if let Some(pieces) = place.and_then(|place| places.get_mut(place)) {
                pieces.push(piece.clone());
            }
        }
        for pieces in &mut places {
            pieces.sort_by_key(|piece| (piece.note, piece.order));
        }
        names
            .into_iter()
            .zip(places)
            .filter(|(_, pieces)| !pieces.is_empty())
            .map(|(heading, pieces)| Chapter { heading, pieces })
            .collect()
    }
}

fn note_pieces(note: &Value, position: usize, topic: &BTreeSet<String>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut add = |text: &str, quoted: bool| {
        let terms = terms(text);
        let repeats = pieces.iter().any(|piece| overlap(&piece.terms, &terms) > REPEATED_OVERLAP);
        if !repeats || pieces.is_empty() {
            let topical = terms.intersection(topic).count();
            pieces.push(Piece { note: position, text: collapse(text), quoted, terms, topical, order: pieces.len() });
        }
    };
    let quotes = note.get("quotes").and_then(Value::as_array);
    for quote in quotes.into_iter().flatten() {
        if let Some(text) = quote.get("text").and_then(Value::as_str) {
            add(text, true);
        }
    }
    let summary = note.get("summary").and_then(Value::as_str).or_else(|| note.as_str()).unwrap_or_default();
    for sentence in sentences(summary) {
        add(sentence, false);
    }
    pieces
}

/// The first piece of every note, then the others by their worth, up to the limit of words.
fn within_limit(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut ranked: Vec<&Piece> = pieces.iter().collect();
    ranked.sort_by_key(|piece| {
        (piece.order > 0, std::cmp::Reverse(piece.topical), !piece.quoted, piece.order, piece.note)
    });
    let mut kept: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut total = 0;
    for piece in ranked {
        total += piece.words();
        if piece.order == 0 || total <= MATERIAL_MAX_WORDS {
            kept.insert((piece.note, piece.order));
        }
    }
    pieces.into_iter().filter(|piece| kept.contains(&(piece.note, piece.order))).collect()
}
