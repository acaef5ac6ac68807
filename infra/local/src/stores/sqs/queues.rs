//! What happens to queues: made, found, changed, purged, deleted.

use super::error::SqsError;
use super::ids::{Millis, QueueName};
use super::keeper::{Keeper, Queue};
use super::limits;
use super::settings::{AttributeMap, COMPUTED, Settings};
use super::shelf::Shelf;

impl Keeper {
    /// Makes a queue. One that is there already is left as it is if it has the given attributes.
    pub(super) fn create_queue(
        &mut self,
        name: &QueueName,
        attributes: &AttributeMap,
        tags: AttributeMap,
        now: Millis,
    ) -> Result<(), SqsError> {
        let wanted = Settings::default().with(attributes)?;
        if let Some(queue) = self.queues.get(name) {
            let stands = queue.settings.attributes();
            let wanted = wanted.attributes();
            let differs = attributes.keys().find(|key| stands.get(*key) != wanted.get(*key));
            return differs.map_or(Ok(()), |key| Err(SqsError::QueueNameExists(key.clone())));
        }
        self.check_redrive(name, &wanted)?;
        let id = self.file.insert_queue(name, &wanted.attributes(), &tags, now)?;
        let queue = Queue {
            id,
            settings: wanted,
            tags,
            created_at: now,
            modified_at: now,
            purged_at: None,
            shelf: Shelf::default(),
            waiters: std::collections::VecDeque::new(),
        };
        self.queues.insert(name.clone(), queue);
        Ok(())
    }

    /// Changes attributes of a queue.
    pub(super) fn set_attributes(
        &mut self,
        name: &QueueName,
        attributes: &AttributeMap,
        now: Millis,
    ) -> Result<(), SqsError> {
        let wanted = self.queue(name)?.settings.with(attributes)?;
        if attributes.contains_key("RedrivePolicy") {
            self.check_redrive(name, &wanted)?;
        }
        let queue = self.queues.get_mut(name).ok_or(SqsError::QueueDoesNotExist)?;
        self.file.update_queue(queue.id, &wanted.attributes(), &queue.tags, now)?;
        queue.settings = wanted;
        queue.modified_at = now;
        Ok(())
    }

    /// A dead-letter queue must be there, be another queue, and take this one's dead letters.
    fn check_redrive(&self, name: &QueueName, settings: &Settings) -> Result<(), SqsError> {
        let Some(policy) = &settings.redrive else {
            return Ok(());
        };
        let reason = match self.queues.get(&policy.target) {
            None => "Dead letter target does not exist.",
            Some(_) if policy.target == *name => "A queue cannot be its own dead letter target.",
            Some(target) if !target.settings.accepts_dead_letters_of(name) => {
                "The dead letter target does not allow this queue as a source (RedriveAllowPolicy)."
            }
            Some(_) => return Ok(()),
        };
        Err(SqsError::InvalidParameterValue(format!("Value for parameter RedrivePolicy is invalid. Reason: {reason}")))
    }

    /// Attributes by name; `All` stands for every one.
    pub(super) fn attributes(
        &mut self,
        name: &QueueName,
        wanted: &[String],
        now: Millis,
    ) -> Result<AttributeMap, SqsError> {
        let depth = self.depth(name, now)?;
        let arn = self.arn(name);
        let queue = self.queue(name)?;
        let mut map = queue.settings.attributes();
        let computed = [
            depth.visible.to_string(),
            depth.in_flight.to_string(),
            depth.delayed.to_string(),
            queue.created_at.seconds().to_string(),
            queue.modified_at.seconds().to_string(),
            arn,
        ];
        map.extend(COMPUTED.iter().map(|name| (*name).to_owned()).zip(computed));
        if wanted.iter().any(|name| name == "All") {
            return Ok(map);
        }
        for name in wanted {
            let known = map.contains_key(name) || ["RedrivePolicy", "RedriveAllowPolicy"].contains(&name.as_str());
            let settable = || Settings::default().with(&AttributeMap::from([(name.clone(), String::new())]));
            if !known && matches!(settable(), Err(SqsError::InvalidAttributeName(_))) {
                return Err(SqsError::InvalidAttributeName(name.clone()));
            }
        }
        map.retain(|name, _| wanted.contains(name));
        Ok(map)
    }

    /// Names of queues in order, from behind `after`, one page of `max`; and whether there are more.
    pub(super) fn list_queues(&self, prefix: &str, after: Option<&str>, max: usize) -> (Vec<QueueName>, bool) {
        page(self.queues.keys(), |name| name.as_str().starts_with(prefix), after, max)
    }

    /// Names of queues that name this one as their dead-letter queue, paged as above.
    pub(super) fn list_sources(
        &mut self,
        target: &QueueName,
        after: Option<&str>,
        max: usize,
    ) -> Result<(Vec<QueueName>, bool), SqsError> {
        self.queue(target)?;
        let sources = self.dead_letter_sources(target);
        Ok(page(sources.iter(), |_| true, after, max))
    }

    /// Deletes every message of a queue.
    pub(super) fn purge(&mut self, name: &QueueName, now: Millis) -> Result<(), SqsError> {
        let queue = self.queues.get_mut(name).ok_or(SqsError::QueueDoesNotExist)?;
        let lately =
            queue.purged_at.is_some_and(|purged_at| purged_at.after_seconds(limits::PURGE_EVERY_SECONDS) > now);
        if lately {
            return Err(SqsError::PurgeQueueInProgress(name.to_string()));
        }
        self.file.delete_messages_of(queue.id)?;
        queue.purged_at = Some(now);
        queue.shelf = Shelf::default();
        Ok(())
    }

    /// Deletes a queue with its messages. Receivers that wait on it are told that it is gone.
    pub(super) fn delete_queue(&mut self, name: &QueueName) -> Result<(), SqsError> {
        let queue = self.queues.remove(name).ok_or(SqsError::QueueDoesNotExist)?;
        for waiter in queue.waiters {
            self.answer(waiter.reply, Err(SqsError::QueueDoesNotExist));
        }
        self.file.delete_queue(queue.id)
    }

    /// Adds and removes tags of a queue.
    pub(super) fn change_tags(
        &mut self,
        name: &QueueName,
        add: AttributeMap,
        remove: &[String],
    ) -> Result<(), SqsError> {
        let queue = self.queues.get_mut(name).ok_or(SqsError::QueueDoesNotExist)?;
        let mut tags = queue.tags.clone();
        tags.extend(add);
        tags.retain(|key, _| !remove.contains(key));
        let attributes = queue.settings.attributes();
        self.file.update_queue(queue.id, &attributes, &tags, queue.modified_at)?;
        queue.tags = tags;
        Ok(())
    }
}

fn page<'a>(
    names: impl Iterator<Item = &'a QueueName>,
    wanted: impl Fn(&QueueName) -> bool,
    after: Option<&str>,
    max: usize,
) -> (Vec<QueueName>, bool) {
    let mut found: Vec<QueueName> = names
        .filter(|name| wanted(name) && after.is_none_or(|after| name.as_str() > after))
        .take(max.saturating_add(1))
        .cloned()
        .collect();
    let more = found.len() > max;
    found.truncate(max);
    (found, more)
}
