//! The SQS actions over queues and move tasks: requests in their wire form are checked here and carried out by
//! the keeper.

use super::error::SqsError;
use super::ids::QueueName;
use super::message::in_range;
use super::moves::MoveTask;
use super::settings::AttributeMap;
use super::{Sqs, limits, wire};

impl Sqs {
    /// `CreateQueue`.
    pub(super) async fn create_queue_action(&self, request: wire::CreateQueue) -> Result<wire::QueueUrl, SqsError> {
        let name = QueueName::parse(&request.queue_name)?;
        let queue_url = self.queue_url(&name);
        self.ask(move |keeper, now| keeper.create_queue(&name, &request.attributes, request.tags, now)).await?;
        Ok(wire::QueueUrl { queue_url })
    }

    /// `GetQueueUrl`.
    pub(super) async fn get_queue_url(&self, request: wire::GetQueueUrl) -> Result<wire::QueueUrl, SqsError> {
        let name = QueueName::from_url(&request.queue_name)?;
        let queue_url = self.queue_url(&name);
        self.ask(move |keeper, _| keeper.queue(&name).map(|_| ())).await?;
        Ok(wire::QueueUrl { queue_url })
    }

    /// `ListQueues`. The page token is the last name of the page before.
    pub(super) async fn list_queues(&self, request: wire::ListQueues) -> Result<wire::QueueUrls, SqsError> {
        let max = page_size(request.max_results)?;
        let (names, more) = self
            .ask(move |keeper, _| {
                Ok(keeper.list_queues(&request.queue_name_prefix, request.next_token.as_deref(), max))
            })
            .await?;
        let (queue_urls, next_token) = self.page(&names, more);
        Ok(wire::QueueUrls { queue_urls, next_token })
    }

    /// `ListDeadLetterSourceQueues`.
    pub(super) async fn list_dead_letter_source_queues(
        &self,
        request: wire::ListDeadLetterSourceQueues,
    ) -> Result<wire::SourceUrls, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        let max = page_size(request.max_results)?;
        let (names, more) =
            self.ask(move |keeper, _| keeper.list_sources(&name, request.next_token.as_deref(), max)).await?;
        let (queue_urls, next_token) = self.page(&names, more);
        Ok(wire::SourceUrls { queue_urls, next_token })
    }

    fn page(&self, names: &[QueueName], more: bool) -> (Vec<String>, Option<String>) {
        let next = names.last().filter(|_| more).map(ToString::to_string);
        (names.iter().map(|name| self.queue_url(name)).collect(), next)
    }

    /// `GetQueueAttributes`.
    pub(super) async fn get_queue_attributes(
        &self,
        request: wire::GetQueueAttributes,
    ) -> Result<wire::Attributes, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        let attributes = self.ask(move |keeper, now| keeper.attributes(&name, &request.attribute_names, now)).await?;
        Ok(wire::Attributes { attributes })
    }

    /// `SetQueueAttributes`.
    pub(super) async fn set_queue_attributes(
        &self,
        request: wire::SetQueueAttributes,
    ) -> Result<wire::Nothing, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        self.ask(move |keeper, now| keeper.set_attributes(&name, &request.attributes, now)).await?;
        Ok(wire::Nothing {})
    }

    /// `PurgeQueue`.
    pub(super) async fn purge_queue(&self, request: wire::OfQueue) -> Result<wire::Nothing, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        self.ask(move |keeper, now| keeper.purge(&name, now)).await?;
        Ok(wire::Nothing {})
    }

    /// `DeleteQueue`.
    pub(super) async fn delete_queue(&self, request: wire::OfQueue) -> Result<wire::Nothing, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        self.ask(move |keeper, _| keeper.delete_queue(&name)).await?;
        Ok(wire::Nothing {})
    }

    /// `TagQueue`.
    pub(super) async fn tag_queue(&self, request: wire::TagQueue) -> Result<wire::Nothing, SqsError> {
        self.change_tags(&request.queue_url, request.tags, Vec::new()).await
    }

    /// `UntagQueue`.
    pub(super) async fn untag_queue(&self, request: wire::UntagQueue) -> Result<wire::Nothing, SqsError> {
        self.change_tags(&request.queue_url, AttributeMap::new(), request.tag_keys).await
    }

    async fn change_tags(
        &self,
        queue_url: &str,
        add: AttributeMap,
        remove: Vec<String>,
    ) -> Result<wire::Nothing, SqsError> {
        let name = QueueName::from_url(queue_url)?;
        self.ask(move |keeper, _| keeper.change_tags(&name, add, &remove)).await?;
        Ok(wire::Nothing {})
    }

    /// `ListQueueTags`.
    pub(super) async fn list_queue_tags(&self, request: wire::OfQueue) -> Result<wire::Tags, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        let tags = self.ask(move |keeper, _| Ok(keeper.queue(&name)?.tags.clone())).await?;
        Ok(wire::Tags { tags })
    }

    /// `StartMessageMoveTask`.
    pub(super) async fn start_message_move_task(
        &self,
        request: wire::StartMessageMoveTask,
    ) -> Result<wire::TaskHandle, SqsError> {
        let source = queue_of(&request.source_arn)?;
        let destination = request.destination_arn.as_deref().map(queue_of).transpose()?;
        let rate = request
            .max_number_of_messages_per_second
            .map(|rate| in_range("MaxNumberOfMessagesPerSecond", rate, 1..=limits::MOVE_MAX_MESSAGES_PER_SECOND))
            .transpose()?;
        let task = self.ask(move |keeper, now| keeper.start_move(source, destination, rate, now)).await?;
        Ok(wire::TaskHandle { task_handle: task.handle })
    }

    /// `CancelMessageMoveTask`.
    pub(super) async fn cancel_message_move_task(
        &self,
        request: wire::TaskHandle,
    ) -> Result<wire::Cancelled, SqsError> {
        let moved = self.ask(move |keeper, _| keeper.cancel_move(&request.task_handle)).await?;
        Ok(wire::Cancelled { approximate_number_of_messages_moved: moved })
    }

    /// `ListMessageMoveTasks`: the latest first, one unless more are asked for.
    pub(super) async fn list_message_move_tasks(
        &self,
        request: wire::ListMessageMoveTasks,
    ) -> Result<wire::MoveTasks, SqsError> {
        let source = queue_of(&request.source_arn)?;
        let most = u32::try_from(limits::LIST_MAX_MOVES).unwrap_or(u32::MAX);
        let max = in_range("MaxResults", request.max_results.unwrap_or(1), 1..=most)?;
        let results = self
            .ask(move |keeper, _| {
                keeper.queue_of_arn(&source)?;
                let tasks = keeper.moves.iter().filter(|task| task.source == source);
                let taken = tasks.take(usize::try_from(max).unwrap_or(limits::LIST_MAX_MOVES));
                Ok(taken.map(|task| show(task, |name| keeper.arn(name))).collect())
            })
            .await?;
        Ok(wire::MoveTasks { results })
    }
}

fn show(task: &MoveTask, arn: impl Fn(&QueueName) -> String) -> wire::MoveTaskShown {
    wire::MoveTaskShown {
        task_handle: task.running().then(|| task.handle.clone()),
        status: task.status.name(),
        source_arn: arn(&task.source),
        destination_arn: task.destination.as_ref().map(arn),
        max_number_of_messages_per_second: task.rate,
        approximate_number_of_messages_moved: task.moved,
        approximate_number_of_messages_to_move: task.to_move,
        failure_reason: task.status.failure().map(ToOwned::to_owned),
        started_timestamp: task.started_at.0,
    }
}

fn queue_of(arn: &str) -> Result<QueueName, SqsError> {
    QueueName::from_arn(arn).ok_or_else(|| {
        SqsError::InvalidParameterValue(format!("Value {arn} is invalid. Reason: it is not the ARN of a queue."))
    })
}

fn page_size(max_results: Option<i64>) -> Result<usize, SqsError> {
    let most = u32::try_from(limits::LIST_MAX_QUEUES).unwrap_or(u32::MAX);
    let max = max_results.map(|max| in_range("MaxResults", max, 1..=most)).transpose()?;
    Ok(max.and_then(|max| usize::try_from(max).ok()).unwrap_or(limits::LIST_MAX_QUEUES))
}
