//! An entry batch in the table: small ones as readable JSON text, larger ones compressed, the largest in the bucket.

use longhaul::store::{JobRef, StoreError};
use longhaul_engine::{Batch, Seq, limits};

use super::attributes::{Item, Reader, binary, json_text, mark, number, text, time};
use super::keys::{PK, batch_sort, job_of_partition, job_partition, key};
use super::table::TENANT;
use crate::claim_check;

/// Where a batch's entries stand.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StoredEntries {
    /// As text in the item.
    Text(String),
    /// Compressed in the item.
    Packed(Vec<u8>),
    /// In the bucket under this key; these bytes are to be put there before the item is written.
    Referenced {
        /// The key.
        key: String,
        /// What to put there.
        packed: Vec<u8>,
    },
}

/// Decides where a batch's entries go.
pub(crate) fn place(job: &JobRef, batch: &Batch) -> Result<StoredEntries, StoreError> {
    let json = json_text(&batch.entries)?;
    if json.len() < limits::BATCH_COMPRESS_BYTES_MIN {
        return Ok(StoredEntries::Text(json));
    }
    let packed = claim_check::pack(&json)?;
    if packed.len() > limits::BATCH_INLINE_BYTES_MAX {
        let key = claim_check::batch_key(job.job, batch.at, batch.nonce);
        return Ok(StoredEntries::Referenced { key, packed });
    }
    Ok(StoredEntries::Packed(packed))
}

/// The item of a batch whose entries stand as `entries` says.
pub(crate) fn encode(job: &JobRef, batch: &Batch, entries: StoredEntries) -> Item {
    let mut item = key(job_partition(job.job), batch_sort(batch.at));
    item.extend([
        ("v".to_owned(), number(u64::from(batch.v))),
        (TENANT.to_owned(), text(job.tenant.as_str())),
        ("at".to_owned(), number(batch.at.0)),
        ("count".to_owned(), number(batch.next().0.saturating_sub(batch.at.0))),
        ("nonce".to_owned(), mark(batch.nonce)),
        ("written_at".to_owned(), time(batch.written_at)),
    ]);
    match entries {
        StoredEntries::Text(json) => item.insert("entries".to_owned(), text(json)),
        StoredEntries::Packed(packed) => item.insert("entries_z".to_owned(), binary(packed)),
        StoredEntries::Referenced { key, packed: _ } => item.insert("entries_ref".to_owned(), text(key)),
    };
    item
}

/// A batch as its item tells it; its entries may still be in the bucket.
pub(crate) struct Decoded {
    /// Whose it is.
    pub(crate) job: JobRef,
    /// The batch; without entries while `entries_ref` names them.
    pub(crate) batch: Batch,
    /// The first position behind it.
    pub(crate) next: Seq,
    /// The key of its entries in the bucket.
    pub(crate) entries_ref: Option<String>,
}

/// Reads the item of a batch.
pub(crate) fn decode(item: &Item) -> Result<Decoded, StoreError> {
    // The version goes first: a newer batch may have another shape altogether.
    let reader = Reader::new(item, "an entry batch")?;
    let partition = reader.text(PK)?;
    let job = job_of_partition(partition).ok_or_else(|| reader.corrupt(PK, "it names no job"))?;
    let at = Seq(reader.number("at")?);
    let what = format!("the batch at {at} of job {job}");
    let reader = Reader::new(item, &what)?;
    let (entries, entries_ref) = if reader.has("entries_ref") {
        (Vec::new(), Some(reader.text("entries_ref")?.to_owned()))
    } else if reader.has("entries_z") {
        let json = claim_check::unpack(reader.binary("entries_z")?, reader.what())?;
        (serde_json::from_str(&json).map_err(|error| reader.corrupt("entries_z", error))?, None)
    } else {
        (reader.json("entries")?, None)
    };
    let batch = Batch {
        v: reader.small_number("v")?,
        at,
        nonce: reader.mark("nonce")?,
        written_at: reader.time("written_at")?,
        entries,
    };
    let next = at.plus(reader.number("count")?);
    Ok(Decoded { job: JobRef { tenant: reader.id(TENANT)?, job }, batch, next, entries_ref })
}
