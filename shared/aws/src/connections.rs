//! Who watches: WebSocket connections and the jobs that they have subscribed to.
//!
//! A subscription stands twice: in the job's partition, where the stream's reader finds all watchers of a job with one
//! query, and in the connection's, so that a connection that closes takes all of its subscriptions along. Each item
//! expires with its connection; a connection that vanished without a word is found out by the first push to it.
//!
//! Messages of one connection are handled beside each other and may overtake each other. What it asked for last stands in
//! the connection's item, by the gateway's time of the message; the job's item is brought to what stands there.

use std::time::Duration;

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use longhaul::store::{JobRef, StoreError};
use longhaul_engine::{JobId, Seq, TenantId, Timestamp};

use crate::dynamo::{
    AwsStore, CONNECTION, EXPIRY_ATTRIBUTE, Item, PK, Reader, SK, SUBSCRIPTION_PREFIX, connection_partition,
    job_partition, key, number, refused, subscription_sort, text, time, unavailable,
};

use crate::tenants::{tenant_connection_item, tenant_connection_key};

/// How long a connection can last (API Gateway's bound), and some minutes.
const CONNECTION_KEPT_SECONDS: u64 = 2 * 3_600 + 600;
/// There on a subscription that takes several events in one message.
const TOGETHER: &str = "together";
/// Looks at what a connection asked for last while it goes on asking.
const SETTLE_TRIES_MAX: usize = 8;

/// An open WebSocket connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The gateway's id for it.
    pub id: String,
    /// Whose token opened it.
    pub tenant: TenantId,
    /// The token's subject.
    pub subject: String,
    /// When that token stops to count.
    pub token_expires_at: Timestamp,
    /// When it was opened.
    pub connected_at: Timestamp,
    /// When it was opened by the gateway's own clock, in milliseconds, where the gateway says so: an id that is given out
    /// again is told by it from the connection that had it before.
    pub opened: Option<u64>,
}

impl Connection {
    fn expires(&self) -> u64 {
        self.connected_at.plus(Duration::from_secs(CONNECTION_KEPT_SECONDS)).as_seconds()
    }
}

/// One watcher of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// The gateway's id of its connection.
    pub connection: String,
    /// Its tenant.
    pub tenant: TenantId,
    /// It has seen everything up to here.
    pub after: Seq,
    /// When the token that opened its connection stops to count: nothing is sent later.
    pub token_expires_at: Timestamp,
    /// Whether it takes several events in one message.
    pub together: bool,
}

/// What a subscription asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Everything behind this.
    pub after: Seq,
    /// Several events may come in one message.
    pub together: bool,
}

impl From<Seq> for Wish {
    fn from(after: Seq) -> Self {
        Self { after, together: false }
    }
}

/// What a connection has asked for about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// When the gateway took the message, in milliseconds: what was asked later holds.
    pub at_ms: u64,
    /// The events that it wants; none when it wants no more.
    pub wish: Option<Wish>,
}

impl Asked {
    /// Wants these events.
    #[must_use]
    pub fn to_hear(wish: impl Into<Wish>, at_ms: u64) -> Self {
        Self { at_ms, wish: Some(wish.into()) }
    }

    /// Wants no more.
    #[must_use]
    pub const fn no_more(at_ms: u64) -> Self {
        Self { at_ms, wish: None }
    }
}

impl AwsStore {
    /// Stores a connection that was opened.
    ///
    /// # Errors
    /// Store errors.
    pub async fn put_connection(&self, connection: &Connection) -> Result<(), StoreError> {
        let counted = tenant_connection_item(&connection.tenant, &connection.id, connection.expires());
        // The one by which it is counted goes last: without it a connection is not counted, and the other way round
        // something would be counted that nobody finds to remove it.
        for item in [connection_item(connection), counted] {
            let put = self.dynamodb().put_item().table_name(self.table()).set_item(Some(item));
            Box::pin(put.send()).await.map_err(|error| unavailable("storing a connection", error))?;
        }
        Ok(())
    }

    /// Reads a connection; none when it is closed or unknown.
    ///
    /// # Errors
    /// Store errors.
    pub async fn connection(&self, id: &str) -> Result<Option<Connection>, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(connection_partition(id), CONNECTION)))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a connection", error))?;
        answer.item.map(|item| read_connection(id, &item)).transpose()
    }

    /// Has a connection hear of a job, or no more, as it asks; what it asked for last, which is another thing when this
    /// message has been overtaken. Asking again only changes the wish.
    ///
    /// # Errors
    /// Store errors.
    pub async fn ask(&self, connection: &Connection, job: &JobRef, asked: Asked) -> Result<Option<Wish>, StoreError> {
        let put = self
            .dynamodb()
            .put_item()
            .table_name(self.table())
            .set_item(Some(subscription_of_connection(connection, job.job, asked)))
            .condition_expression("attribute_not_exists(asked_at) OR asked_at <= :at")
            .expression_attribute_values(":at", number(asked.at_ms));
        match Box::pin(put.send()).await {
            Ok(_) => self.settle(connection, job, asked).await,
            Err(error) => {
                refused("writing down what a connection asks", error, |error| match error {
                    PutItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
                    _ => None,
                })?;
                // Whoever wrote the later one brings the job's item to it.
                self.asked_last(&connection.id, job.job).await
            }
        }
    }

    /// What a connection wants to hear of a job, by what it asked for last.
    ///
    /// # Errors
    /// Store errors.
    pub async fn asked_last(&self, connection: &str, job: JobId) -> Result<Option<Wish>, StoreError> {
        Ok(self.asked(connection, job).await?.and_then(|asked| asked.wish))
    }

    /// Brings the job's item to what the connection has asked for. Of several who do that at the same time the one that
    /// writes last has looked since, and seen what was asked for last.
    async fn settle(
        &self,
        connection: &Connection,
        job: &JobRef,
        mut asked: Asked,
    ) -> Result<Option<Wish>, StoreError> {
        for _ in 0..SETTLE_TRIES_MAX {
            match asked.wish {
                Some(wish) => {
                    let put = PutRequest::builder()
                        .set_item(Some(subscription_of_job(connection, job, wish)))
                        .build()
                        .map_err(|error| unavailable("storing a subscription", error))?;
                    self.write_batches(vec![WriteRequest::builder().put_request(put).build()]).await?;
                }
                None => self.delete_items(vec![of_job_key(&connection.id, &job.job.to_string())]).await?,
            }
            match self.asked(&connection.id, job.job).await? {
                Some(stands) if stands == asked => return Ok(asked.wish),
                Some(stands) => asked = stands,
                // It has been closed meanwhile, and takes everything along.
                None => {
                    self.forget_subscription(&connection.id, job.job).await?;
                    return Ok(None);
                }
            }
        }
        Err(unavailable("storing a subscription", "the connection asks for something else all the time"))
    }

    async fn asked(&self, connection: &str, job: JobId) -> Result<Option<Asked>, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(connection_partition(connection), subscription_sort(&job.to_string()))))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a subscription", error))?;
        answer.item.as_ref().map(read_asked).transpose()
    }

    /// Removes what is written of a subscription; one that is not there is removed already.
    ///
    /// # Errors
    /// Store errors.
    pub async fn forget_subscription(&self, connection: &str, job: JobId) -> Result<(), StoreError> {
        self.delete_items(subscription_keys(connection, &job.to_string())).await
    }

    /// Everybody who watches a job, read consistently.
    ///
    /// # Errors
    /// Store errors.
    pub async fn subscribers(&self, job: JobId) -> Result<Vec<Subscriber>, StoreError> {
        let items = self.subscriptions(job_partition(job)).await?;
        items.iter().map(read_subscriber).collect()
    }

    /// Removes a connection with all of its subscriptions.
    ///
    /// # Errors
    /// Store errors; calling again goes on where it stopped.
    pub async fn drop_connection(&self, id: &str) -> Result<(), StoreError> {
        let mut keys = Vec::new();
        for item in self.subscriptions(connection_partition(id)).await? {
            let reader = Reader::unversioned(&item, "a subscription");
            let job = reader.text(SK)?.strip_prefix(SUBSCRIPTION_PREFIX).unwrap_or_default();
            keys.extend(subscription_keys(id, job));
        }
        if let Some(connection) = self.connection(id).await? {
            keys.push(tenant_connection_key(&connection.tenant, id));
        }
        // Its own item goes last: while it stands, what is left can still be found.
        keys.push(key(connection_partition(id), CONNECTION));
        self.delete_items(keys).await
    }

    async fn subscriptions(&self, partition: String) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        let mut start = None;
        loop {
            let query = self
                .dynamodb()
                .query()
                .table_name(self.table())
                .key_condition_expression("PK = :partition AND begins_with(SK, :prefix)")
                .expression_attribute_values(":partition", text(partition.clone()))
                .expression_attribute_values(":prefix", text(SUBSCRIPTION_PREFIX))
                .consistent_read(true)
                .set_exclusive_start_key(start);
            let answer = Box::pin(query.send()).await.map_err(|error| unavailable("reading subscriptions", error))?;
            items.extend(answer.items.unwrap_or_default());
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(items);
            }
        }
    }
}

pub(crate) fn connection_item(connection: &Connection) -> Item {
    let mut item = key(connection_partition(&connection.id), CONNECTION);
    item.extend([
        // Not `tenant`: that is the key of the index of jobs.
        ("owner".to_owned(), text(connection.tenant.as_str())),
        ("subject".to_owned(), text(connection.subject.clone())),
        ("token_expires_at".to_owned(), time(connection.token_expires_at)),
        ("connected_at".to_owned(), time(connection.connected_at)),
        (EXPIRY_ATTRIBUTE.to_owned(), number(connection.expires())),
    ]);
    item.extend(connection.opened.map(|opened| ("opened".to_owned(), number(opened))));
    item
}

pub(crate) fn read_connection(id: &str, item: &Item) -> Result<Connection, StoreError> {
    let reader = Reader::unversioned(item, "a connection");
    Ok(Connection {
        id: id.to_owned(),
        tenant: reader.id("owner")?,
        subject: reader.text("subject")?.to_owned(),
        token_expires_at: reader.time("token_expires_at")?,
        connected_at: reader.time("connected_at")?,
        opened: if reader.has("opened") { Some(reader.number("opened")?) } else { None },
    })
}

/// The connection's item of a subscription. It goes first: should the other write be lost, closing the connection still
/// finds it. It stays when the connection wants no more, so that an earlier message finds that it was overtaken.
pub(crate) fn subscription_of_connection(connection: &Connection, job: JobId, asked: Asked) -> Item {
    let mut item = key(connection_partition(&connection.id), subscription_sort(&job.to_string()));
    item.extend([
        ("asked_at".to_owned(), number(asked.at_ms)),
        (EXPIRY_ATTRIBUTE.to_owned(), number(connection.expires())),
    ]);
    if let Some(wish) = asked.wish {
        put_wish(&mut item, wish);
    }
    item
}

/// What a connection asked for; one that was stored before messages had their times counts as the earliest.
pub(crate) fn read_asked(item: &Item) -> Result<Asked, StoreError> {
    let reader = Reader::unversioned(item, "a subscription");
    let wish = match reader.has("after") {
        true => Some(Wish { after: Seq(reader.number("after")?), together: reader.has(TOGETHER) }),
        false => None,
    };
    Ok(Asked { at_ms: if reader.has("asked_at") { reader.number("asked_at")? } else { 0 }, wish })
}

/// The job's item of a subscription.
pub(crate) fn subscription_of_job(connection: &Connection, job: &JobRef, wish: Wish) -> Item {
    let mut item = of_job_key(&connection.id, &job.job.to_string());
    item.extend([
        ("owner".to_owned(), text(job.tenant.as_str())),
        ("token_expires_at".to_owned(), time(connection.token_expires_at)),
        (EXPIRY_ATTRIBUTE.to_owned(), number(connection.expires())),
    ]);
    put_wish(&mut item, wish);
    item
}

fn put_wish(item: &mut Item, wish: Wish) {
    item.insert("after".to_owned(), number(wish.after.0));
    if wish.together {
        item.insert(TOGETHER.to_owned(), number(1));
    }
}

fn of_job_key(connection: &str, job: &str) -> Item {
    key(format!("JOB#{job}"), subscription_sort(connection))
}

fn subscription_keys(connection: &str, job: &str) -> Vec<Item> {
    vec![of_job_key(connection, job), key(connection_partition(connection), subscription_sort(job))]
}

pub(crate) fn read_subscriber(item: &Item) -> Result<Subscriber, StoreError> {
    let reader = Reader::unversioned(item, "a subscription");
    let connection = reader.text(SK)?.strip_prefix(SUBSCRIPTION_PREFIX).unwrap_or_default();
    if connection.is_empty() {
        return Err(reader.corrupt(PK, "it names no connection"));
    }
    Ok(Subscriber {
        connection: connection.to_owned(),
        tenant: reader.id("owner")?,
        after: Seq(reader.number("after")?),
        token_expires_at: reader.time("token_expires_at")?,
        together: reader.has(TOGETHER),
    })
}
