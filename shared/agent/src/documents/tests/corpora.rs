//! Folders as people have them.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::pdfs::sample;
use crate::documents::limits::FOLDER_DEPTH_MAX;
use crate::documents::{Corpus, CorpusError, DocumentId, Media};

/// A folder holding these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    folder
}

fn ids(corpus: &Corpus) -> Vec<&str> {
    corpus.documents.iter().map(|document| document.id.as_str()).collect()
}

fn reasons(corpus: &Corpus) -> Vec<String> {
    corpus.skipped.iter().map(ToString::to_string).collect()
}

#[test]
fn every_file_is_a_document_or_named_with_its_reason() {
    let pdf = sample(&[&["From a PDF."]]).bytes();
    let huge = vec![b'a'; 8 * 1024 * 1024 + 1];
    let files: [(&str, &[u8]); 16] = [
        ("z.md", b"# Last\n\nText."),
        ("a/deep/er/notes.TXT", b"Notes\n\nText."),
        ("a.html", b"<title>Page</title><p>Words<script>x()</script>"),
        ("b.htm", b"<p>Short name"),
        ("paper.pdf", &pdf),
        ("bom.txt", b"\xEF\xBB\xBFMarked\n\nText."),
        ("windows.txt", b"\xFF\xFEh\0i\0"),
        ("rfc.txt", b"Page one\x0CPage two"),
        ("broken.pdf", b"%PDF-1.4 and then nothing"),
        ("empty.md", b""),
        ("blank.md", b" \n\t\n"),
        ("latin.txt", b"caf\xE9"),
        ("program.txt", b"MZ\0\0\0"),
        ("huge.md", &huge),
        ("picture.png", b"\x89PNG"),
        (".git/readme.md", b"hidden"),
    ];
    let folder = folder(&files);
    let corpus = Corpus::read(folder.path()).unwrap();
    assert_eq!(
        ids(&corpus),
        ["a.html", "a/deep/er/notes.TXT", "b.htm", "bom.txt", "paper.pdf", "rfc.txt", "windows.txt", "z.md"]
    );
    let titles: Vec<&str> = corpus.documents.iter().map(|document| document.title.as_str()).collect();
    assert_eq!(titles, ["Page", "Notes", "b", "Marked", "A Sample of Pages", "Page one", "hi", "Last"]);
    assert_eq!(corpus.documents[5].pages.len(), 2);
    assert_eq!(corpus.documents[4].media, Media::Pdf);
    let skipped = reasons(&corpus);
    let expected = [
        "blank.md: it holds no text",
        "broken.pdf: it is damaged",
        "empty.md: it is empty",
        "huge.md: it is larger than 8388608 bytes",
        "latin.txt: it is not valid UTF-8 text",
        "program.txt: it is binary data",
    ];
    assert_eq!(skipped.len(), expected.len(), "{skipped:#?}");
    for (is, expected) in skipped.iter().zip(expected) {
        assert!(is.starts_with(expected), "{is}");
    }
    assert_eq!(corpus.ignored, 2);
    assert_eq!(corpus, Corpus::read(folder.path()).unwrap(), "the same folder gives the same corpus");
    let found = corpus.get(&DocumentId::new("paper.pdf")).unwrap();
    assert_eq!(found.text(), "From a PDF.");
    assert_eq!(corpus.get(&DocumentId::new("empty.md")), None);
}

#[test]
fn a_folder_without_documents_is_an_error_that_names_it() {
    let check = |path: &Path, expected: &str| {
        let error = Corpus::read(path).expect_err(expected);
        let message = error.to_string();
        assert!(message.contains(expected) && message.contains(&path.display().to_string()), "{message}");
        error
    };
    let parent =
        folder(&[("file.md", b"text"), ("other/picture.png", b"x"), ("bad/one.pdf", b"no"), ("bad/two.md", b"")]);
    fs::create_dir(parent.path().join("void")).unwrap();
    check(&parent.path().join("nowhere"), "does not exist");
    check(&parent.path().join("file.md"), "is not a folder");
    check(&parent.path().join("void"), "holds no .md, .txt, .html or .pdf file (0 other files)");
    check(&parent.path().join("other"), "(1 other files)");
    let error = check(&parent.path().join("bad"), "two.md: it is empty");
    assert!(error.to_string().contains("one.pdf"));
    // A path that the system refuses whoever asks, root included.
    let refused = parent.path().join("n".repeat(5_000));
    let error = check(&refused, "cannot be read");
    assert!(matches!(&error, CorpusError::Unreadable { .. }) && std::error::Error::source(&error).is_some());
}

#[cfg(unix)]
#[test]
fn links_are_followed_within_the_folder_only() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    let outside = folder(&[("secret.md", b"# Secret")]);
    let inside = folder(&[("real/a.md", b"# A"), (".hidden/b.md", b"# B")]);
    let root = inside.path();
    symlink(outside.path().join("secret.md"), root.join("out.md")).unwrap();
    symlink(outside.path(), root.join("outside")).unwrap();
    symlink("..", root.join("real/up.md")).unwrap();
    symlink(root.join("real"), root.join("again")).unwrap();
    symlink("real/a.md", root.join("alias.md")).unwrap();
    symlink(".hidden/b.md", root.join("b.md")).unwrap();
    symlink("nothing.md", root.join("dangling.md")).unwrap();
    symlink("self.md", root.join("self.md")).unwrap();
    let _socket = UnixListener::bind(root.join("socket.md")).unwrap();
    let corpus = Corpus::read(root).unwrap();
    assert_eq!(ids(&corpus), ["b.md", "real/a.md"]);
    let expected = [
        "again: it is a link to a folder",
        "alias.md: it is the same file as real/a.md",
        "dangling.md: it is a link that leads nowhere",
        "out.md: it is a link that leads out of the folder",
        "real/up.md: it is a link to a folder",
        "self.md: it is a link that leads nowhere",
        "socket.md: it is not a regular file",
    ];
    assert_eq!(reasons(&corpus), expected);
    assert_eq!(corpus.ignored, 2, "the hidden folder, and the link outside without a document's name");
}

#[test]
fn folders_are_followed_to_a_limit() {
    let deep = vec!["d"; FOLDER_DEPTH_MAX].join("/");
    let (at_limit, beyond) = (format!("{deep}/a.md"), format!("{deep}/d/b.md"));
    let folder = folder(&[(at_limit.as_str(), b"# A"), (beyond.as_str(), b"# B")]);
    let corpus = Corpus::read(folder.path()).unwrap();
    assert_eq!(ids(&corpus), [at_limit]);
    assert_eq!(reasons(&corpus), [format!("{deep}/d: it lies too deep")]);
}

#[tokio::test]
async fn async_callers_read_the_same() {
    let folder = folder(&[("a.md", b"# A\n\nText.")]);
    let loaded = Corpus::load(folder.path().to_owned()).await.unwrap();
    assert_eq!(loaded, Corpus::read(folder.path()).unwrap());
    let missing = Corpus::load(folder.path().join("none")).await;
    assert!(matches!(missing, Err(CorpusError::Missing { .. })));
}

#[test]
fn a_corpus_survives_the_journal() {
    let folder = folder(&[("a.md", b"# A\n\nText."), ("b.pdf", b"no"), ("c.txt", b"caf\xE9")]);
    let corpus = Corpus::read(folder.path()).unwrap();
    let json = serde_json::to_string(&corpus).unwrap();
    assert!(json.contains(r#"{"file":"c.txt","reason":{"kind":"encoding","expected":"UTF-8"}}"#), "{json}");
    assert_eq!(serde_json::from_str::<Corpus>(&json).unwrap(), corpus);
}
