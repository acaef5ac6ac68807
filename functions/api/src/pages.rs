//! Cursors of lists, bound to the list that they were handed out for.
//!
//! A cursor of another tenant, or of the same list under another filter, would show a wrong part without a word; so
//! each carries a mark of its list and is refused elsewhere.

use longhaul::engine::TenantId;
use longhaul_aws::dynamo::Cursor;
use longhaul_wire::Problem;
use uuid::Uuid;

/// The namespace of the marks (UUIDv5).
const LISTS: Uuid = Uuid::from_u128(0x6c6f_6e67_6861_756c_8a0d_6375_7273_6f72);

/// One list of one tenant.
#[derive(Debug, Clone)]
pub(crate) struct List {
    mark: String,
}

impl List {
    /// The list of this name under this filter.
    pub(crate) fn new(tenant: &TenantId, name: &str, filter: &str) -> Self {
        let text = format!("{}\n{name}\n{filter}", tenant.as_str());
        let mark = Uuid::new_v5(&LISTS, text.as_bytes()).simple().to_string().chars().take(12).collect();
        Self { mark }
    }

    /// The cursor that callers are given for the store's own.
    pub(crate) fn cursor(&self, inner: &str) -> String {
        format!("{}.{inner}", self.mark)
    }

    /// The store's own cursor in one that a caller gives back, read by `read`. A cursor that cannot be read is refused:
    /// passed over, it would show the first page for ever.
    pub(crate) fn inner(
        &self,
        cursor: Option<&str>,
        read: impl FnOnce(&str) -> Option<Cursor>,
    ) -> Result<Option<Cursor>, Problem> {
        let refused = |detail: &str| Problem::parameter("cursor", format!("{detail}; take `next` of the last page"));
        let Some(cursor) = cursor else { return Ok(None) };
        match cursor.split_once('.') {
            Some((mark, inner)) if mark == self.mark => read(inner).map(Some).ok_or_else(|| refused("cannot be read")),
            Some(_) | None => Err(refused("belongs to another list")),
        }
    }
}
