//! PDFs as they come: whole, locked, broken, and made to break a reader.

use lopdf::content::{Content, Operation};
use lopdf::{Document as Pdf, EncryptionState, EncryptionVersion, Object, ObjectId, Permissions, Stream, dictionary};

use crate::documents::limits::PDF_STREAM_INFLATED_MAX_BYTES;
use crate::documents::{Document, DocumentId, Media, SkipReason, read_bytes};

/// The drawing commands that show lines of text, each at its own height.
fn shown(lines: &[&str]) -> Vec<Operation> {
    let mut operations = vec![Operation::new("BT", vec![]), Operation::new("Tf", vec!["F1".into(), 11.into()])];
    operations.push(Operation::new("Td", vec![72.into(), 760.into()]));
    for line in lines {
        operations.push(Operation::new("Tj", vec![Object::string_literal(*line)]));
        operations.push(Operation::new("Td", vec![0.into(), (-14).into()]));
    }
    operations.push(Operation::new("ET", vec![]));
    operations
}

/// A PDF under construction, and the ids a test may want to spoil.
pub(super) struct Sample {
    pub(super) pdf: Pdf,
    pub(super) resources: ObjectId,
    tree: ObjectId,
}

/// A sound PDF with one page for each list of lines.
pub(super) fn sample(pages: &[&[&str]]) -> Sample {
    let mut pdf = Pdf::with_version("1.5");
    let tree = pdf.new_object_id();
    let font = pdf.add_object(dictionary! {
        "Type" => "Font", "Subtype" => "Type1", "BaseFont" => "Helvetica", "Encoding" => "WinAnsiEncoding",
    });
    let resources = pdf.add_object(dictionary! { "Font" => dictionary! { "F1" => font } });
    let mut kids: Vec<Object> = Vec::new();
    for lines in pages {
        let content = Content { operations: shown(lines) }.encode().unwrap();
        let contents = pdf.add_object(Stream::new(dictionary! {}, content));
        let page = dictionary! { "Type" => "Page", "Parent" => tree, "Contents" => contents, "Resources" => resources };
        kids.push(pdf.add_object(page).into());
    }
    let count = i64::try_from(kids.len()).unwrap();
    let media_box = vec![0.into(), 0.into(), 595.into(), 842.into()];
    let root = dictionary! { "Type" => "Pages", "Kids" => kids, "Count" => count, "MediaBox" => media_box };
    pdf.objects.insert(tree, Object::Dictionary(root));
    let catalog = pdf.add_object(dictionary! { "Type" => "Catalog", "Pages" => tree });
    pdf.trailer.set("Root", catalog);
    let info = pdf.add_object(dictionary! { "Title" => Object::string_literal("A Sample of Pages") });
    pdf.trailer.set("Info", info);
    pdf.trailer.set("ID", vec![Object::string_literal("0123456789abcdef"), Object::string_literal("0123456789abcdef")]);
    Sample { pdf, resources, tree }
}

impl Sample {
    pub(super) fn bytes(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.pdf.save_to(&mut bytes).unwrap();
        bytes
    }

    fn locked(mut self, owner: &str, user: &str) -> Self {
        let version = EncryptionVersion::V2 {
            document: &self.pdf,
            owner_password: owner,
            user_password: user,
            key_length: 128,
            permissions: Permissions::all(),
        };
        let state = EncryptionState::try_from(version).unwrap();
        self.pdf.encrypt(&state).unwrap();
        self
    }

    /// Adds a drawing to the resources of all pages, and draws it on each.
    fn drawing(mut self, name: &str, make: impl FnOnce(ObjectId) -> Stream) -> Self {
        let id = self.pdf.new_object_id();
        self.pdf.objects.insert(id, Object::Stream(make(id)));
        let resources = self.pdf.get_dictionary_mut(self.resources).unwrap();
        resources.set("XObject", dictionary! { name => id });
        for page in self.pdf.get_pages().into_values() {
            self.pdf.add_page_contents(page, format!("/{name} Do").into_bytes()).unwrap();
        }
        self
    }
}

fn read(bytes: Vec<u8>) -> Result<Document, SkipReason> {
    read_bytes(DocumentId::new("file.pdf"), Media::Pdf, bytes)
}

fn two_pages() -> Sample {
    sample(&[&["Leases end by themselves.", "Epochs only grow."], &["The second page."]])
}

#[test]
fn a_sound_file_is_read_page_by_page() {
    let document = read(two_pages().bytes()).unwrap();
    assert_eq!(document.title, "A Sample of Pages");
    assert_eq!(document.pages.iter().map(|page| page.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(document.pages[0].text, "Leases end by themselves.\nEpochs only grow.");
    assert_eq!(document.pages[1].text, "The second page.");
    assert_eq!(document.unread_pages, Vec::<u32>::new());
}

#[test]
fn what_cannot_be_read_is_refused_with_its_reason() {
    let mut headless = two_pages();
    headless.pdf.objects.remove(&headless.tree);
    let blank: &[&str] = &[];
    let table = [
        ("no bytes", Vec::new(), "it is empty"),
        ("no PDF", b"<html>not found</html>".to_vec(), "it is damaged"),
        ("a header alone", b"%PDF-1.7\n%%EOF\n".to_vec(), "it is damaged"),
        ("a user password", two_pages().locked("owner", "user").bytes(), "it is encrypted"),
        ("no page tree", headless.bytes(), "it is damaged: it has no pages"),
        ("no text layer", sample(&[blank, blank]).bytes(), "it holds no text"),
    ];
    for (case, bytes, expected) in table {
        let reason = read(bytes).expect_err(case).to_string();
        assert!(reason.starts_with(expected), "{case}: {reason}");
    }
}

#[test]
fn an_owner_password_alone_hides_nothing() {
    let document = read(two_pages().locked("owner", "").bytes()).unwrap();
    assert_eq!(document.pages[1].text, "The second page.");
}

#[test]
fn one_bad_page_does_not_cost_the_others() {
    let mut sample = two_pages();
    let first = sample.pdf.get_pages()[&1];
    // A font that is no font, and content that is no content.
    let broken = sample.pdf.add_object(dictionary! { "Font" => dictionary! { "F1" => 7 } });
    sample.pdf.get_dictionary_mut(first).unwrap().set("Resources", broken);
    let document = read(sample.bytes()).unwrap();
    assert_eq!(document.pages.len(), 2);
    assert_eq!(document.pages[1].text, "The second page.");
}

#[test]
fn drawings_that_contain_themselves_are_left_out() {
    let with_resources = |id| {
        let resources = dictionary! { "XObject" => dictionary! { "Loop" => id } };
        Stream::new(
            dictionary! { "Type" => "XObject", "Subtype" => "Form", "Resources" => resources },
            b"/Loop Do".into(),
        )
    };
    let borrowing = |_| Stream::new(dictionary! { "Type" => "XObject", "Subtype" => "Form" }, b"/Loop Do".into());
    for sample in [two_pages().drawing("Loop", with_resources), two_pages().drawing("Loop", borrowing)] {
        let document = read(sample.bytes()).unwrap();
        assert_eq!(document.pages[1].text, "The second page.");
    }
}

#[test]
fn a_page_tree_that_is_a_circle_is_refused() {
    let mut sample = two_pages();
    let tree = sample.tree;
    sample.pdf.get_dictionary_mut(tree).unwrap().set("Parent", tree);
    assert!(matches!(read(sample.bytes()), Err(SkipReason::Damaged { .. })));
}

#[test]
fn compressed_data_without_end_is_refused() {
    // Two bytes stand for 128 zeros under this filter.
    let run = [129, 0].repeat(PDF_STREAM_INFLATED_MAX_BYTES / 128 + 1);
    let bomb = |_| Stream::new(dictionary! { "Subtype" => "Form", "Filter" => "RunLengthDecode" }, run);
    assert_eq!(read(two_pages().drawing("Bomb", bomb).bytes()), Err(SkipReason::Inflates));
}

#[test]
fn pictures_are_not_inflated() {
    let run = [129, 0].repeat(PDF_STREAM_INFLATED_MAX_BYTES / 128 + 1);
    let picture = |_| Stream::new(dictionary! { "Subtype" => "Image", "Filter" => "RunLengthDecode" }, run);
    let document = read(two_pages().drawing("Picture", picture).bytes()).unwrap();
    assert_eq!(document.pages[1].text, "The second page.");
}
