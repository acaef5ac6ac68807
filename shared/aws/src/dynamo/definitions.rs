//! Agent definitions: each version of a tenant's agent is one item that is never changed.
//!
//! Versions of an agent stand one behind the other in its tenant's partition, so the newest is one query away and a
//! number is given out by the same conditional put that everything else relies on.

use std::time::Duration;

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use longhaul::store::StoreError;
use longhaul_engine::ids::{AgentName, AgentRef};
use longhaul_engine::{TenantId, Timestamp, limits};
use uuid::Uuid;

use super::attributes::{Item, Reader, number, text, time};
use super::keys::{agents_partition, definition_prefix, definition_sort, key};
use super::{AwsStore, refused, unavailable};

/// How often a number is looked for when others save versions of the same agent at the same time.
const SAVE_TRIES_MAX: u64 = 24;
/// The longest wait before the number is looked for again, times the tries so far: those who lost a race to each other
/// should not run the next one together.
const SAVE_WAIT_MS: u64 = 8;
/// Bytes of what one list shows: an answer of Lambda takes 6 MB, and the rest of it is small.
const CARDS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One version of an agent that a tenant has defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedDefinition {
    /// Its name and version.
    pub agent: AgentRef,
    /// The digest of what it says.
    pub digest: String,
    /// What people are shown of it, as JSON.
    pub card: String,
    /// The definition, as JSON.
    pub definition: String,
    /// When it was saved.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
}

/// A definition that is to become a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDefinition {
    /// The agent's name.
    pub name: AgentName,
    /// The digest of what it says.
    pub digest: String,
    /// The definition, as JSON.
    pub definition: String,
    /// Who saves it.
    pub by: String,
}

/// What saving came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved {
    /// A new version.
    Created(AgentRef),
    /// The newest version says the same already.
    Unchanged(AgentRef),
}

impl AwsStore {
    /// Saves a definition as the next version of its agent, unless the newest says the same.
    ///
    /// `card` makes what people are shown of it, once the version is known.
    ///
    /// # Errors
    /// Store errors.
    pub async fn save_definition(
        &self,
        tenant: &TenantId,
        new: &NewDefinition,
        now: Timestamp,
        card: impl Fn(&AgentRef) -> String,
    ) -> Result<Saved, StoreError> {
        const ACTION: &str = "saving an agent's definition";
        for tries in 1..=SAVE_TRIES_MAX {
            let newest = self.newest_definition(tenant, &new.name).await?;
            if let Some(newest) = &newest
                && newest.digest == new.digest
            {
                return Ok(Saved::Unchanged(newest.agent.clone()));
            }
            let version = newest.map_or(1, |newest| newest.agent.version.saturating_add(1));
            let agent = AgentRef { name: new.name.clone(), version };
            let saved = SavedDefinition {
                card: card(&agent),
                agent,
                digest: new.digest.clone(),
                definition: new.definition.clone(),
                created_at: now,
                created_by: new.by.clone(),
            };
            let put = self
                .dynamodb()
                .put_item()
                .table_name(self.table())
                .set_item(Some(encode(tenant, &saved)))
                .condition_expression("attribute_not_exists(PK)")
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            match Box::pin(put.send()).await {
                Ok(_) => return Ok(Saved::Created(saved.agent)),
                Err(error) => {
                    let found = refused(ACTION, error, |error| match error {
                        PutItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
                        _ => None,
                    })?;
                    // Versions are never changed: one that says the same, by the same and at the same time, is this very
                    // write, which had gone through unanswered and was repeated.
                    match found.as_ref().map(decode).transpose()? {
                        Some(own) if own == saved => return Ok(Saved::Created(own.agent)),
                        Some(same) if same.digest == saved.digest => return Ok(Saved::Unchanged(same.agent)),
                        Some(_) | None => {}
                    }
                    let spread = SAVE_WAIT_MS.saturating_mul(tries);
                    let wait = u64::from(Uuid::new_v4().as_fields().0) % spread;
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                }
            }
        }
        Err(StoreError::Unavailable {
            action: ACTION,
            source: format!("{SAVE_TRIES_MAX} numbers in a row were taken by others").into(),
        })
    }

    /// Puts a definition under the very version that it names, unless one stands there; what stands there then.
    ///
    /// # Errors
    /// Store errors.
    pub async fn put_definition(
        &self,
        tenant: &TenantId,
        saved: &SavedDefinition,
    ) -> Result<SavedDefinition, StoreError> {
        const ACTION: &str = "bringing in an agent's definition";
        let put = self
            .dynamodb()
            .put_item()
            .table_name(self.table())
            .set_item(Some(encode(tenant, saved)))
            .condition_expression("attribute_not_exists(PK)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match Box::pin(put.send()).await {
            Ok(_) => Ok(saved.clone()),
            Err(error) => {
                let found = refused(ACTION, error, |error| match error {
                    PutItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
                    _ => None,
                })?;
                found.as_ref().map(decode).transpose()?.ok_or_else(|| unavailable(ACTION, "what stands there is gone"))
            }
        }
    }

    /// One version of a tenant's agent.
    ///
    /// # Errors
    /// Store errors.
    pub async fn definition(&self, tenant: &TenantId, agent: &AgentRef) -> Result<Option<SavedDefinition>, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(agents_partition(tenant), definition_sort(agent))))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading an agent's definition", error))?;
        answer.item.as_ref().map(decode).transpose()
    }

    /// The newest version of a tenant's agent.
    ///
    /// # Errors
    /// Store errors.
    pub async fn newest_definition(
        &self,
        tenant: &TenantId,
        name: &AgentName,
    ) -> Result<Option<SavedDefinition>, StoreError> {
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .key_condition_expression("PK = :tenant AND begins_with(SK, :name)")
            .expression_attribute_values(":tenant", text(agents_partition(tenant)))
            .expression_attribute_values(":name", text(definition_prefix(name)))
            .scan_index_forward(false)
            .limit(1)
            .consistent_read(true);
        let answer =
            Box::pin(query.send()).await.map_err(|error| unavailable("reading an agent's definition", error))?;
        answer.items.unwrap_or_default().first().map(decode).transpose()
    }

    /// What people are shown of the versions of a tenant's agents, by name and version, as JSON each: at most `cards_max`
    /// of them and as many as an answer takes, and whether these are all.
    ///
    /// # Errors
    /// Store errors.
    pub async fn definition_cards(
        &self,
        tenant: &TenantId,
        cards_max: usize,
    ) -> Result<(Vec<String>, bool), StoreError> {
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .key_condition_expression("PK = :tenant")
            .expression_attribute_values(":tenant", text(agents_partition(tenant)))
            .projection_expression("card")
            .limit(i32::try_from(cards_max).unwrap_or(i32::MAX))
            .consistent_read(true);
        let (mut cards, mut bytes) = (Vec::new(), 0_usize);
        let mut items = query.into_paginator().items().send();
        while let Some(item) = items.next().await {
            let item = item.map_err(|error| unavailable("listing agents", error))?;
            let card = Reader::unversioned(&item, "an agent's definition").text("card")?;
            bytes = bytes.saturating_add(card.len());
            if cards.len() >= cards_max || bytes > CARDS_BYTES_MAX {
                return Ok((cards, false));
            }
            cards.push(card.to_owned());
        }
        Ok((cards, true))
    }
}

pub(super) fn encode(tenant: &TenantId, saved: &SavedDefinition) -> Item {
    let mut item = key(agents_partition(tenant), definition_sort(&saved.agent));
    item.extend([
        ("v".to_owned(), number(u64::from(limits::PROTOCOL_VERSION_PLAIN))),
        ("name".to_owned(), text(saved.agent.name.as_str())),
        ("version".to_owned(), number(u64::from(saved.agent.version))),
        ("digest".to_owned(), text(saved.digest.clone())),
        ("card".to_owned(), text(saved.card.clone())),
        ("definition".to_owned(), text(saved.definition.clone())),
        ("created_at".to_owned(), time(saved.created_at)),
        ("created_by".to_owned(), text(saved.created_by.clone())),
    ]);
    item
}

pub(super) fn decode(item: &Item) -> Result<SavedDefinition, StoreError> {
    let reader = Reader::new(item, "an agent's definition")?;
    Ok(SavedDefinition {
        agent: AgentRef { name: reader.id("name")?, version: reader.small_number("version")? },
        digest: reader.text("digest")?.to_owned(),
        card: reader.text("card")?.to_owned(),
        definition: reader.text("definition")?.to_owned(),
        created_at: reader.time("created_at")?,
        created_by: reader.text("created_by")?.to_owned(),
    })
}
