//! `report`: connected prose with citations, made of what the notes quote and condense.
//!
//! Every sentence that says something about the subject is a source's own and carries the source's number. The words
//! between them only say who speaks and how many do, which is counted, not guessed.

use serde_json::{Value, json};

use super::material::{Chapter, Material, Note, Piece};
use super::notes::enumerated;
use super::prompt::topic;
use super::words::{capitalised, collapse, similarity, terms, words};

/// A paragraph is closed at the next source once it has so many words.
const PARAGRAPH_WORDS: usize = 80;

/// Fewer words are no paragraph of their own.
const PARAGRAPH_WORDS_MIN: usize = 40;

/// Pieces of two sources that have more of all their words in common than this say much the same.
const AGREEING_SHARE: f64 = 0.34;

/// Sources that the summary speaks of.
const SUMMARY_SOURCES: usize = 4;

pub(super) fn answer(message: &str) -> Value {
    let topic = collapse(topic(message));
    let title = capitalised(topic.trim_end_matches(['.', ':', ';', ',']));
    let material = Material::read(message, &terms(&topic));
    if material.pieces.is_empty() {
        return nothing_found(&title, &material);
    }
    let mut writer = Writer { notes: &material.notes, introduced: vec![false; material.notes.len()], turns: 0 };
    let sections: Vec<Value> = material
        .chapters(&title)
        .iter()
        .enumerate()
        .map(|(number, chapter)| json!({"heading": chapter.heading, "paragraphs": writer.chapter(chapter, number)}))
        .collect();
    json!({"title": title, "summary": summary(&topic, &material), "sections": sections})
}

fn nothing_found(title: &str, material: &Material) -> Value {
    let paragraph = match material.notes.as_slice() {
        [] => "No source among those read speaks about the topic, so there is nothing to report.".to_owned(),
        notes => format!("The sources were read and hold no full sentence to report: {}.", cited(notes)),
    };
    json!({
        "title": title,
        "summary": paragraph,
        "sections": [{"heading": "No findings", "paragraphs": [paragraph]}],
    })
}

/// "*A* \[1\] and *B* \[2\]".
fn cited(notes: &[Note]) -> String {
    let names: Vec<String> = notes.iter().map(|note| format!("*{}* [{}]", note.title, note.number)).collect();
    enumerated(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The most topical sentence of each of the best sources.
fn summary(topic: &str, material: &Material) -> String {
    let mut best: Vec<&Piece> = Vec::new();
    for position in 0..material.notes.len() {
        let of_note = material.pieces.iter().filter(|piece| piece.note == position);
        // Summaries first: the quotes are for the text.
        best.extend(of_note.min_by_key(|piece| (std::cmp::Reverse(piece.topical), piece.quoted, piece.text.len())));
    }
    best.sort_by_key(|piece| (std::cmp::Reverse(piece.topical), piece.note));
    best.truncate(SUMMARY_SOURCES);
    best.sort_by_key(|piece| piece.note);
    let count = match material.notes.len() {
        1 => "one source".to_owned(),
        count => format!("{} sources", number_word(count)),
    };
    let mut text = format!("This report brings together what {count} say about \"{topic}\".");
    if material.notes.len() == 1 {
        text = text.replace(" say about ", " says about ");
    }
    for piece in best {
        if let Some(note) = material.notes.get(piece.note) {
            text.push(' ');
            text.push_str(&plain(&piece.text, note.number));
        }
    }
    text
}

fn number_word(number: usize) -> String {
    const WORDS: [&str; 11] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    WORDS.get(number).map_or_else(|| number.to_string(), |word| (*word).to_owned())
}

/// A sentence with its citation before the full stop.
fn plain(sentence: &str, number: u64) -> String {
    match sentence.strip_suffix('.') {
        Some(open) if !open.ends_with('.') => format!("{open} [{number}]."),
        Some(_) | None => format!("{sentence} [{number}]"),
    }
}

/// A sentence in quotation marks with its citation. One that holds such marks itself is given as it is.
fn quoted(sentence: &str, number: u64) -> String {
    if sentence.contains(['“', '”', '"']) {
        return plain(sentence, number);
    }
    format!("“{sentence}” [{number}]")
}

/// Leads to the words of a source that the reader meets for the first time.
const INTRODUCING: [&str; 5] =
    ["*{}* puts it like this:", "In *{}* one reads:", "*{}* writes:", "From *{}* comes this:", "*{}* has it so:"];

/// Leads to the words of a source that the reader knows.
const COMING_BACK: [&str; 5] = ["*{}* adds:", "*{}* also writes:", "And in *{}*:", "To this *{}* adds:", "*{}* again:"];

/// Leads to the words of a source that the reader knows, at the beginning of a chapter.
const OPENING: [&str; 3] = ["*{}* speaks to this:", "Here *{}* says:", "On this *{}* has to say:"];

/// Leads from one quote of a source to the next; nothing, as often as not.
const GOING_ON: [&str; 4] = ["", "It goes on:", "", "Further on:"];

fn pick<const N: usize>(leads: &[&'static str; N], turn: usize) -> &'static str {
    leads.get(turn % N.max(1)).copied().unwrap_or_default()
}

/// Writes chapters, remembering which sources the reader has met.
struct Writer<'a> {
    notes: &'a [Note],
    introduced: Vec<bool>,
    /// Counts the joints, so that the same phrase does not come twice in a row.
    turns: usize,
}

impl Writer<'_> {
    fn chapter(&mut self, chapter: &Chapter, number: usize) -> Vec<String> {
        let mut paragraphs = Vec::new();
        let mut current = self.opening(chapter, number);
        let mut before: Option<&Piece> = None;
        for (position, piece) in chapter.pieces.iter().enumerate() {
            let changes = before.is_some_and(|before| before.note != piece.note);
            let ahead: usize = chapter.pieces.get(position..).unwrap_or_default().iter().map(Piece::words).sum();
            // A last sentence or two are no paragraph.
            if changes && words(&current).len() >= PARAGRAPH_WORDS && ahead >= PARAGRAPH_WORDS_MIN {
                paragraphs.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(&self.sentence(piece, before));
            before = Some(piece);
        }
        paragraphs.push(current);
        paragraphs
    }

    /// Says how many sources the chapter rests on, where it is more than one.
    fn opening(&self, chapter: &Chapter, number: usize) -> String {
        let mut notes: Vec<usize> = chapter.pieces.iter().map(|piece| piece.note).collect();
        notes.dedup();
        let count = capitalised(&number_word(notes.len()));
        match (notes.len(), number % 3) {
            (..=1, _) => String::new(),
            (_, 0) => format!("{count} of the sources speak to this."),
            (_, 1) => format!("{count} sources have something to say here."),
            (_, _) => format!("On this point {} sources can be heard.", count.to_lowercase()),
        }
    }

    fn sentence(&mut self, piece: &Piece, before: Option<&Piece>) -> String {
        let Some(note) = self.notes.get(piece.note) else {
            return String::new();
        };
        let (title, number) = (&note.title, note.number);
        let met = self.introduced.get_mut(piece.note).is_some_and(|met| std::mem::replace(met, true));
        let same_source = before.is_some_and(|before| before.note == piece.note);
        let agrees = before.is_some_and(|before| similarity(&before.terms, &piece.terms) > AGREEING_SHARE);
        self.turns += 1;
        let text = if piece.quoted { quoted(&piece.text, number) } else { plain(&piece.text, number) };
        let lead = if same_source && piece.quoted {
            pick(&GOING_ON, self.turns)
        } else if same_source {
            ""
        } else if agrees {
            "*{}* says much the same:"
        } else if met && before.is_none() {
            pick(&OPENING, self.turns)
        } else if met {
            pick(&COMING_BACK, self.turns)
        } else {
            pick(&INTRODUCING, self.turns)
        };
        if lead.is_empty() { text } else { format!("{} {text}", lead.replace("{}", title)) }
    }
}
