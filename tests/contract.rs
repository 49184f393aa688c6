//! What every mutual exclusion must do, written once over [`Single`], or over [`Exclusive`] if it is of owners, and run
//! for each of them.
//!
//! A primitive that is held once at a time joins by implementing the traits and by a line for each list at the end.
//!
//! [`Single`]: exclusive::Single
//! [`Exclusive`]: exclusive::Exclusive

// The traits.
pub(crate) mod exclusive;

// Who implements them.
pub(crate) mod offered;

// A server, or one in memory.
pub(crate) mod site;

// Enters, waits, tries, releases: what users do, undisturbed.
mod entering;

// Leases, waits and longest holds of any length.
mod durations;

// Owners that enter again what they hold, in one process and over several.
mod nesting;

// Tokens that grow from hold to hold.
mod fencing;

// How a holder learns that it holds no more, and what it may still do.
mod loss;

// How the watchdog keeps what is held, and only that.
mod renewal;

// Who enters when: order, dead waiters, dead holders.
mod queue;

// How waiters are told, and what waiting costs.
mod waiting;

// Nothing stays behind: no key, place or count, whatever ends in the middle.
pub(crate) mod leaks;

// A command that comes twice, or late, or whose reply is lost, does no harm.
pub(crate) mod late;

// Keys that hold data of another type, which is nobody's but the application's.
mod foreign;

// A server that is killed or stopped.
mod gone;

use late::{copied, held_back, lost, phantom, releases};
use leaks::{cancelled, ended, given_up, killed, shut_down, unanswered};

/// Makes tests of functions, for the exclusion that is called `M` there.
macro_rules! tests {
    (async: $($file:ident: { $($test:ident)+ })+) => {
        $($(
            #[tokio::test]
            async fn $test() {
                crate::contract::$file::$test::<M>().await;
            }
        )+)+
    };
    (threads: $($file:ident: { $($test:ident)+ })+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                crate::contract::$file::$test::<M>().await;
            }
        )+)+
    };
    (plain: $($file:ident: { $($test:ident)+ })+) => {
        $($(
            #[test]
            fn $test() {
                crate::contract::$file::$test::<M>();
            }
        )+)+
    };
    (both: $($file:ident: { $($test:ident)+ })+) => {
        $($(
            #[tokio::test]
            async fn $test() {
                crate::contract::$file::$test::<M>(crate::contract::site::Site::server()).await;
            }
        )+)+
        mod in_memory {
            use super::M;
            $($(
                #[tokio::test(start_paused = true)]
                async fn $test() {
                    crate::contract::$file::$test::<M>(crate::contract::site::Site::memory()).await;
                }
            )+)+
        }
    };
}

/// What all must do, on a server and, where no fault is needed, in memory.
macro_rules! contract {
    ($module:ident: $exclusive:ty) => {
        mod $module {
            type M = $exclusive;
            tests! {
                both:
                durations: {
                    a_wait_of_any_length_takes_a_free_lock
                    a_short_wait_ends_with_none_and_leaves_no_place
                    a_long_wait_goes_on_until_the_lock_is_free
                    a_longest_hold_of_zero_ends_with_the_first_lease
                    a_longest_hold_without_bounds_is_renewed_on_and_on
                    a_longest_hold_leaves_a_fixed_lease_alone
                }
                entering: {
                    a_free_lock_is_acquired_and_released
                    a_waiter_is_granted_when_the_holder_releases
                    of_many_tasks_of_several_clients_one_is_inside_at_a_time
                }
                loss: {
                    run_answers_what_the_work_answers
                    a_client_that_is_shut_down_has_lost_what_it_held
                }
                renewal: {
                    a_hold_is_renewed_for_its_longest_time_and_then_runs_out
                }
                cancelled: {
                    an_acquire_of_a_free_lock_leaves_nothing_wherever_it_is_dropped
                    an_acquire_of_a_spinning_client_leaves_nothing_wherever_it_is_dropped
                    an_acquire_of_a_held_lock_leaves_no_place_wherever_it_is_dropped
                    a_refused_attempt_leaves_nothing_wherever_it_is_dropped
                    a_waiter_dropped_while_it_is_granted_leaves_nothing
                    a_release_leaves_nothing_wherever_it_is_dropped
                    an_acquire_that_loses_a_race_leaves_nothing
                }
                ended: {
                    a_panic_in_the_section_releases
                    a_panic_while_waiting_leaves_no_place
                    a_guard_dropped_on_a_plain_thread_is_released
                    a_forgotten_guard_holds_no_longer_than_its_longest_hold
                }
                given_up: {
                    waiters_that_time_out_leave_no_places
                    a_wait_of_zero_leaves_nothing
                    a_client_that_no_longer_waits_is_not_among_the_living
                }
                shut_down: {
                    a_shutdown_does_not_wait_for_those_who_are_not_polled
                }
            }
            tests! {
                async:
                durations: {
                    a_lease_is_refused_before_anything_is_sent_or_sent_in_whole_milliseconds
                    the_longest_lease_gives_the_key_a_ttl
                    extending_by_a_nonsense_lease_is_refused_and_costs_nothing
                }
                foreign: {
                    foreign_data_at_the_lock_is_reported_and_left_alone
                    foreign_data_at_one_of_many_is_reported_to_who_takes_that
                    foreign_data_at_the_queue_is_reported_and_left_alone
                    a_waiter_is_told_of_foreign_data_at_the_queue
                    a_waiter_is_told_of_foreign_data_among_the_signs_of_life
                    a_plain_text_over_a_held_lock_ends_the_hold_with_its_lease
                }
                loss: {
                    a_process_that_was_stopped_beyond_its_lease_knows_when_it_goes_on
                    a_deleted_key_reaches_the_holder_at_its_next_check
                    release_of_a_lost_guard_says_so_and_spares_the_new_holder
                    an_acquire_answered_after_its_lease_fails_and_leaves_nothing
                }
                queue: {
                    killed_waiters_at_the_head_of_the_queue_hold_nobody_up
                    a_grant_that_nobody_takes_any_more_is_passed_on
                    a_newcomer_does_not_overtake_who_waits_for_a_lock_that_fell_free
                    a_key_that_vanished_does_not_keep_the_queue_waiting
                }
                waiting: {
                    a_lost_message_costs_one_look
                    messages_that_overrun_the_inbox_cost_one_look
                    a_reconnect_costs_one_look
                    a_refused_publish_costs_one_look
                }
                ended: {
                    a_client_dropped_with_holds_and_waiters_leaves_nothing
                }
                killed: {
                    a_killed_process_leaves_nothing_one_lease_later
                    a_killed_waiters_place_holds_nobody_up
                    a_killed_waiters_place_is_gone_one_waiter_timeout_later
                }
                shut_down: {
                    a_shutdown_during_an_acquire_leaves_nothing
                    a_shutdown_ends_a_question_that_is_asked_again_and_again
                }
                unanswered: {
                    an_acquire_dropped_before_its_reply_leaves_nothing
                    an_acquire_dropped_before_it_is_told_of_its_place_leaves_none
                    an_acquire_dropped_before_it_reaches_the_server_leaves_nothing
                    a_release_dropped_before_its_reply_leaves_nothing
                }
                copied: {
                    a_renewal_that_arrives_after_the_release_creates_nothing
                    a_look_that_arrives_after_its_waiter_gave_up_creates_no_place
                    a_release_that_arrives_again_frees_no_newer_hold
                    giving_up_that_arrives_again_costs_no_newer_place
                }
                held_back: {
                    an_acquire_that_arrives_when_it_is_no_longer_valid_is_refused
                    an_acquire_that_is_held_back_is_replaced_and_harmless_afterwards
                    a_release_that_arrives_late_frees_no_newer_hold
                    a_renewal_that_arrives_late_creates_nothing
                    a_look_that_arrives_late_creates_no_place
                }
                phantom: {
                    an_acquire_that_arrives_again_after_its_release_leaves_no_phantom
                    an_acquire_that_arrives_after_its_validity_is_refused
                    an_acquire_that_arrives_again_takes_no_newer_hold_of_its_client
                    an_acquire_that_arrives_again_takes_no_newer_hold_of_another_client
                    an_acquire_that_arrives_again_while_it_holds_changes_nothing
                    a_place_that_comes_back_is_given_up_when_its_turn_comes
                    a_place_that_comes_back_goes_when_its_validity_is_over
                    phantoms_go_in_the_order_in_which_their_commands_were_sent
                    a_phantom_goes_even_if_its_second_release_meets_trouble
                }
                releases: {
                    a_guard_that_outlived_its_lease_does_not_release_who_came_after
                    a_guard_that_does_not_know_of_its_loss_does_not_release_who_came_after
                    a_release_that_is_refused_is_made_once_more_in_the_background
                }
            }
            tests! {
                threads:
                loss: {
                    run_stops_polling_the_work_before_another_gets_in
                }
                ended: {
                    tasks_aborted_at_any_moment_leave_nothing
                }
                given_up: {
                    a_waiter_that_gives_up_when_it_is_granted_has_the_guard_or_nothing
                }
            }
            tests! {
                plain:
                ended: {
                    a_guard_dropped_after_its_runtime_is_released
                    a_guard_is_released_on_another_runtime_after_its_own_has_ended
                    a_guard_dropped_inside_another_runtime_is_released
                    a_runtime_that_ends_before_the_reply_to_an_acquire_leaves_nothing
                }
            }
        }
    };
}

/// What those must do, besides, that an owner holds.
macro_rules! owned {
    ($module:ident: $exclusive:ty) => {
        mod $module {
            type M = $exclusive;
            tests! {
                both:
                ended: {
                    a_panic_in_a_nested_section_releases_all_of_it
                }
                entering: {
                    an_owner_re_enters_what_it_holds
                }
                fencing: {
                    a_fenced_re_entry_has_the_token_of_the_hold
                    a_fenced_re_entry_into_an_unfenced_hold_is_refused
                }
                loss: {
                    force_release_reaches_the_holder_by_message
                    all_guards_of_a_hold_are_lost_together
                }
                nesting: {
                    an_owner_enters_again_and_the_last_release_frees
                    an_owner_enters_through_another_client_what_it_holds_through_the_first
                    a_partial_release_keeps_the_lease_that_remains
                    a_hold_is_renewed_as_the_guards_that_are_left_ask
                    owners_do_not_leak_out_of_their_scope_or_into_spawned_tasks
                    the_owner_of_a_handle_beats_that_of_the_scope
                    without_an_owner_nothing_is_entered_again
                    branches_of_a_join_share_the_scope_and_do_not_exclude_each_other
                    clients_of_one_owner_never_wait_for_each_other
                    reenter_takes_only_what_its_owner_holds_and_never_waits
                    reenter_answers_none_when_the_caller_has_lost_the_lock
                    a_waiter_dropped_after_its_grant_leaves_the_hold_to_those_who_share_it
                }
                cancelled: {
                    a_refused_re_entry_leaves_nothing_wherever_it_is_dropped
                    a_re_entry_leaves_the_outer_hold_wherever_it_is_dropped
                    a_re_entry_from_another_client_leaves_the_first_ones_hold_wherever_it_is_dropped
                    a_nested_release_leaves_the_outer_hold_wherever_it_is_dropped
                }
                shut_down: {
                    a_shutdown_releases_every_hold
                    after_a_shutdown_every_call_is_refused
                    a_shutdown_does_not_wait_for_guards_that_are_lost
                }
            }
            tests! {
                async:
                foreign: {
                    a_waiter_is_told_of_foreign_data_at_the_lock
                    foreign_data_among_the_signs_of_life_is_reported_to_who_waits_and_left_alone
                    foreign_data_is_reported_to_who_asks_about_owners
                    foreign_data_at_the_fencing_token_is_reported_to_who_wants_one_and_left_alone
                    a_waiter_is_told_of_foreign_data_at_its_fencing_token
                    a_release_leaves_alone_what_the_application_wrote_over_the_lock
                }
                fencing: {
                    fencing_tokens_grow_from_hold_to_hold
                }
                nesting: {
                    re_entering_what_is_surely_held_needs_no_server
                    a_release_that_comes_twice_costs_the_caller_nothing
                    a_hold_that_is_unsure_is_asked_for_before_it_is_entered_again
                    a_place_that_is_learnt_of_after_the_owners_grant_is_not_waited_in
                    a_longer_lease_counts_when_its_renewal_is_answered
                }
                ended: {
                    a_client_lives_as_long_as_its_guards
                }
                copied: {
                    a_release_that_arrives_again_frees_no_newer_hold_of_its_owner
                    a_release_by_force_that_arrives_again_frees_no_newer_hold
                }
                held_back: {
                    a_release_by_force_that_arrives_late_frees_no_newer_hold
                }
                phantom: {
                    an_acquire_that_arrives_again_does_not_add_to_a_newer_hold_of_its_owner
                    a_lost_hold_that_comes_back_goes_although_its_guard_is_left
                }
                releases: {
                    whatever_ends_one_guard_leaves_the_other
                    whatever_ends_a_guard_leaves_that_of_another_client
                    a_guard_released_by_force_does_not_release_who_came_after
                    a_release_that_is_refused_leaves_the_guards_outside_it
                }
            }
        }
    };
}

/// What takes seconds, and no rule of entry has much of a part in: once for each family of scripts.
macro_rules! at_length {
    ($module:ident: $exclusive:ty) => {
        mod $module {
            type M = $exclusive;
            tests! {
                async:
                foreign: {
                    foreign_data_at_one_lock_stops_the_renewal_of_no_other
                }
                gone: {
                    a_wait_for_a_killed_server_ends_in_time_with_an_error
                    a_wait_for_a_stopped_server_ends_in_time_with_an_error
                    a_wait_for_a_server_that_stopped_after_a_reconnect_ends_in_time_with_an_error
                    a_queued_waiter_whose_server_is_gone_ends_in_time_and_holds_nothing
                    a_server_that_comes_back_is_used_again
                }
                loss: {
                    a_holder_that_is_cut_off_has_lost_before_another_gets_in
                    a_grantee_that_is_cut_off_has_lost_before_another_gets_in
                    a_holder_learns_of_the_end_of_its_lease_while_the_server_stands_still
                    a_holder_learns_of_the_end_of_its_lease_after_the_server_was_killed
                    lost_stays_lost_when_the_network_comes_back
                    a_hold_is_unsure_while_renewals_fail_and_sure_after
                    no_loss_is_signalled_for_a_hold_whose_release_has_started
                }
                renewal: {
                    renewal_goes_on_while_the_executor_is_blocked
                    trouble_with_one_renewal_does_not_touch_the_others
                    a_renewal_that_is_overtaken_by_the_release_brings_nothing_back
                    each_renewal_gives_the_full_lease_however_slow_they_are
                    a_fixed_lease_is_checked_but_not_renewed
                    an_extended_lease_is_checked_no_more_often_than_a_long_one
                    a_fixed_lease_is_extended_by_hand_and_never_shortened
                    each_acquire_has_the_lease_of_its_own_handle
                    a_slow_script_of_somebody_else_costs_no_hold
                    a_hold_outlasts_refusals_of_every_kind_inside_its_lease
                    a_server_that_stands_still_or_only_reads_for_a_while_costs_no_hold
                    a_flushed_script_cache_costs_no_hold
                    a_server_that_comes_back_empty_costs_every_hold_at_once
                    cut_connections_cost_no_hold
                    a_connection_that_goes_dead_without_a_word_costs_no_hold
                    a_full_server_costs_no_hold
                    a_grant_that_is_noticed_late_is_renewed_in_time
                    a_short_lease_that_is_answered_late_costs_no_connection
                }
                waiting: {
                    a_grantee_that_is_cut_off_stands_in_the_way_for_a_waiter_timeout
                    a_spinning_client_backs_off_and_gets_in
                    a_spinning_client_does_not_sleep_after_its_last_try
                    waiters_of_many_keys_look_together
                    a_client_whose_inbox_is_refused_spins_until_it_stands
                }
                lost: {
                    an_acquire_whose_reply_is_lost_succeeds_and_holds_once
                    a_waiter_that_is_not_told_of_its_place_stands_in_the_queue_once
                    nobody_is_refused_a_free_lock_for_a_reply_that_was_lost
                    a_renewal_whose_reply_is_lost_is_made_again_in_time
                    a_release_whose_reply_is_lost_succeeds
                    a_dropped_guards_release_is_made_until_it_is_answered
                    giving_up_is_repeated_until_it_is_answered
                }
                releases: {
                    guards_of_several_slots_that_are_dropped_at_once_are_released_soon
                    a_release_that_cannot_succeed_is_not_made_for_as_long_as_the_lease
                }
            }
        }
    };
}

/// The same of those that an owner holds.
macro_rules! owned_at_length {
    ($module:ident: $exclusive:ty) => {
        mod $module {
            type M = $exclusive;
            tests! {
                async:
                renewal: {
                    a_renewal_never_brings_a_key_back
                    after_release_nothing_is_renewed
                    locks_that_come_and_go_do_not_stop_the_renewal_of_one_that_stays
                }
                gone: {
                    a_nested_wait_for_a_stopped_server_ends_in_time_with_an_error
                    a_try_at_a_server_that_is_gone_ends_with_the_operation_timeout
                }
                loss: {
                    a_hold_after_a_loss_is_a_new_one_and_renewed
                }
                nesting: {
                    the_crash_of_a_called_client_costs_its_caller_nothing
                }
                copied: {
                    a_renewal_that_arrives_again_shortens_no_lease
                }
                lost: {
                    a_re_entry_whose_reply_is_lost_counts_once
                    a_release_whose_reply_is_lost_counts_once
                    a_release_by_force_whose_reply_is_lost_frees_nothing_newer
                }
            }
        }
    };
}

/// What those must do, besides, that serve the tasks of one client strictly in order, too.
macro_rules! in_order {
    ($module:ident: $exclusive:ty) => {
        mod $module {
            type M = $exclusive;
            tests! {
                both:
                queue: {
                    waiters_of_two_clients_enter_in_the_order_of_arrival
                    cancelled_waiters_in_the_middle_leave_the_order_to_the_others
                    a_waiter_cancelled_in_the_instant_of_its_grant_passes_it_on
                }
                cancelled: {
                    a_waiter_dropped_while_it_is_granted_leaves_the_lock_to_the_next
                }
                given_up: {
                    when_all_keys_are_deleted_holders_learn_it_and_waiters_go_on
                }
                shut_down: {
                    a_shutdown_ends_every_wait
                }
            }
            tests! {
                async:
                queue: {
                    waiters_of_a_killed_process_hold_nobody_up
                    a_dead_holder_is_followed_when_its_lease_runs_out
                    a_waiter_whose_connection_blinks_keeps_its_place
                }
                waiting: {
                    a_thousand_hand_overs_take_a_message_each_and_no_look
                    one_message_wakes_exactly_one_in_order
                    waiters_outlast_a_server_that_comes_back_empty
                    a_waiter_cancelled_during_its_look_leaves_the_looking_to_the_next
                    many_waiters_of_a_client_cost_one_look_at_a_time
                    after_a_flush_each_waiter_queues_again_and_none_storms
                    hand_overs_within_a_client_cost_an_acquire_and_a_release_each
                }
            }
            tests! {
                plain:
                ended: {
                    a_runtime_that_ends_while_its_tasks_hold_and_wait_leaves_nothing
                }
            }
        }
    };
}

contract!(lock: lockyard::Lock);
contract!(fair_lock: lockyard::FairLock);
contract!(write_side: crate::contract::offered::Write);
contract!(one_permit: crate::contract::offered::OnePermit);
owned!(lock_of_an_owner: lockyard::Lock);
owned!(fair_lock_of_an_owner: lockyard::FairLock);
owned!(write_side_of_an_owner: crate::contract::offered::Write);
in_order!(fair_lock_in_order: lockyard::FairLock);
in_order!(write_side_in_order: crate::contract::offered::Write);
in_order!(one_permit_in_order: crate::contract::offered::OnePermit);
at_length!(lock_at_length: lockyard::Lock);
at_length!(write_side_at_length: crate::contract::offered::Write);
at_length!(one_permit_at_length: crate::contract::offered::OnePermit);
owned_at_length!(lock_of_an_owner_at_length: lockyard::Lock);
owned_at_length!(write_side_of_an_owner_at_length: crate::contract::offered::Write);

// Ten thousand at once: for one that stands for all.
mod many {
    type M = lockyard::FairLock;
    tests! {
        async:
        renewal: { ten_thousand_holds_are_renewed_by_a_hundred_scripts_a_period }
        queue: { ten_thousand_waiters_are_served_in_order_when_the_holder_dies }
    }
}
