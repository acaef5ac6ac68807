//! What every [`Store`](longhaul::store::Store) promises, one scenario a promise, played on each implementation.
//!
//! [`for_each_scenario`](crate::for_each_scenario) is the list; a scenario that is not in it does not compile away
//! unseen, since its function is then unused.

pub mod job_item;
pub mod journal;
pub mod queue;
pub mod races;
pub mod submission;
pub mod sweeping;
pub mod threads;

/// Calls a macro with the list of all scenarios, as `module::scenario`.
#[macro_export]
macro_rules! for_each_scenario {
    ($play:ident) => {
        $play! {
            submission::a_new_job_is_stored_and_read_back,
            submission::a_second_submission_finds_the_first,
            submission::a_large_input_comes_back_whole,
            submission::another_tenants_job_is_none,
            journal::batches_come_back_in_order,
            journal::every_kind_of_entry_comes_back,
            journal::a_conflict_gives_what_stands_there,
            journal::an_append_knows_its_own_echo,
            journal::a_journal_is_cut_at_the_first_gap,
            journal::a_journal_can_be_read_from_the_middle_of_a_batch,
            journal::one_batch_is_read_by_its_position,
            journal::large_batches_come_back_whole,
            journal::a_newer_batch_is_left_alone,
            job_item::each_state_comes_back,
            job_item::a_write_is_refused_when_another_was_first,
            job_item::a_write_knows_its_own_echo,
            job_item::a_write_is_refused_when_a_signal_came,
            job_item::a_claim_resets_the_sweeps_and_nothing_else_does,
            job_item::a_write_needs_the_item_and_its_owner,
            job_item::a_wake_counts_in_every_state,
            job_item::a_wake_calls_a_waiting_job_up,
            job_item::a_wake_needs_the_item_and_its_owner,
            sweeping::due_jobs_are_listed_by_shard_time_and_number,
            sweeping::a_job_leaves_the_list_when_it_ends_and_comes_back_when_it_is_reopened,
            sweeping::a_due_time_moves_once,
            sweeping::sessions_beat_and_end,
            threads::a_job_and_its_place_are_stored_together,
            threads::a_line_is_written_as_it_was_read,
            threads::many_submissions_take_a_place_each,
            queue::continuations_come_as_they_were_sent,
            queue::a_delay_is_kept,
            queue::a_dead_letter_names_its_job_and_failure,
            races::one_of_many_appends_wins,
            races::one_of_many_claims_wins,
            races::one_of_many_submissions_wins,
            races::many_wakes_all_count,
        }
    };
}
