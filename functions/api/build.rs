//! Packs the console's files into the function: compressed once, here, and not by each process.
//!
//! `console/` holds what the project in `infra/console` builds. It is kept beside this crate, so that who builds the
//! function needs no Node.js; `make test-browser` fails when it is not what the sources give.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// Bytes below which compressing would save nothing; such a file also stays readable for those who look at it by curl.
const PLAIN_BYTES_MAX: usize = 1_024;

fn main() -> Result<(), Box<dyn Error>> {
    let console = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("console");
    let out = env::var("OUT_DIR")?;
    println!("cargo::rerun-if-changed={}", console.display());
    let mut names: Vec<String> = fs::read_dir(&console)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, std::io::Error>>()?;
    names.sort();
    let mut table = String::from("&[\n");
    for name in names {
        let media_type = match name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("txt") => "text/plain; charset=utf-8",
            _ => return Err(format!("console/{name} has an ending whose media type is not known here").into()),
        };
        let content = fs::read(console.join(&name))?;
        let tag = Sha256::digest(&content)
            .iter()
            .take(12)
            .try_fold(String::new(), |mut tag, byte| write!(tag, "{byte:02x}").map(|()| tag))?;
        let packed = content.len() > PLAIN_BYTES_MAX;
        let content = if packed { gzip(&content)? } else { content };
        let path = Path::new(&out).join(format!("console-{name}"));
        fs::write(&path, content)?;
        writeln!(
            table,
            "File {{ name: {name:?}, media_type: {media_type:?}, tag: {:?}, packed: {packed}, content: include_bytes!({:?}) }},",
            format!("\"{tag}\""),
            path.display().to_string(),
        )?;
    }
    table.push(']');
    fs::write(Path::new(&out).join("console.rs"), table)?;
    Ok(())
}

fn gzip(content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    encoder.finish()
}
