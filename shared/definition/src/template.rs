//! Texts with holes: `{name}` is filled with the argument of that name; `{{` and `}}` stand for braces themselves.

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text as it is.
    Text(String),
    /// The argument of this name.
    Hole(String),
}

/// A text with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

/// A text that is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A brace that opens nothing or closes nothing.
    #[error(
        "a single `{brace}` stands alone; write `{{name}}` for an argument and `{brace}{brace}` for the brace itself"
    )]
    Brace {
        /// Which.
        brace: char,
    },
    /// What stands between braces is no name.
    #[error("`{{{name}}}` names no argument: letters, digits and `_` only")]
    Name {
        /// What stands there.
        name: String,
    },
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// See [`TemplateError`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars().peekable();
        while let Some(next) = rest.next() {
            match next {
                '{' if rest.peek() == Some(&'{') => {
                    rest.next();
                    plain.push('{');
                }
                '}' if rest.peek() == Some(&'}') => {
                    rest.next();
                    plain.push('}');
                }
                '{' => {
                    let mut name = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some(inner) => name.push(inner),
                            None => return Err(TemplateError::Brace { brace: '{' }),
                        }
                    }
                    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                        return Err(TemplateError::Name { name });
                    }
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Hole(name));
                }
                '}' => return Err(TemplateError::Brace { brace: '}' }),
                other => plain.push(other),
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self { pieces })
    }

    /// Its pieces in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The names of its holes, in order, each as often as it stands there.
    pub fn holes(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Hole(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The one argument that the whole template is.
    #[must_use]
    pub fn only_hole(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Hole(name)] => Some(name),
            _ => None,
        }
    }

    /// The text with its holes filled.
    ///
    /// # Errors
    /// The first error of `fill`.
    pub fn filled<E>(&self, mut fill: impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Hole(name) => text.push_str(&fill(name)?),
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn templates_are_read_and_refused() {
        let cases = [
            ("", Some("")),
            ("plain", Some("plain")),
            ("{a}", Some("<a>")),
            ("x/{a}/y?{b_2}", Some("x/<a>/y?<b_2>")),
            ("{{a}}", Some("{a}")),
            ("{{{a}}}", Some("{<a>}")),
            ("ä{a}ö", Some("ä<a>ö")),
            ("{", None),
            ("}", None),
            ("{a", None),
            ("a}", None),
            ("{}", None),
            ("{a b}", None),
            ("{a.b}", None),
            ("{\u{e9}}", None),
        ];
        for (text, expected) in cases {
            let filled = Template::parse(text)
                .ok()
                .map(|template| template.filled(|name| Ok::<_, ()>(format!("<{name}>"))).expect("filled"));
            assert_eq!(filled.as_deref(), expected, "{text}");
        }
        assert_eq!(Template::parse("{a}").expect("a template").only_hole(), Some("a"));
        assert_eq!(Template::parse("{a}{b}").expect("a template").only_hole(), None);
    }
}
