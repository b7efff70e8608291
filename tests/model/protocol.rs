//! The protocol in all histories of a few clients, as it is and with mistakes in it.

use std::time::Duration;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::bugs::Bug;
use crate::world::{Fault, World};

const MS: Duration = Duration::from_millis(1);

/// Checks every state that can be reached.
fn check(world: World) {
    let what = format!("{world:?}");
    let checker = world.checker().threads(2).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{states} states, up to {depth} steps deep: {what}");
    for property in checker.model().properties() {
        if property.expectation == Expectation::Always {
            checker.assert_no_discovery(property.name);
        } else if !checker.model().habits.deaf {
            checker.assert_any_discovery(property.name);
        }
    }
}

#[test]
#[ignore = "takes half a minute"]
fn two_clients_one_of_them_twice() {
    check(World::new(&[2, 1], 5, 0));
}

#[test]
fn two_clients_and_a_fault() {
    check(World::new(&[1, 1], 6, 1));
}

#[test]
fn three_clients() {
    check(World::new(&[1, 1, 1], 2, 0));
}

#[test]
fn three_clients_and_a_fault() {
    check(World::new(&[1, 1, 1], 0, 1));
}

#[test]
fn three_clients_after_seconds_of_hand_overs() {
    let mut world = World { unbroken: true, idle: [25, 2], ..World::new(&[1, 1, 1], 2, 0) };
    world.habits.ttl = MS * 3_000;
    check(world);
}

#[test]
fn leases_that_are_renewed() {
    let mut world = World::new(&[1, 1], 6, 1);
    world.habits.ttl = MS * 200;
    world.habits.renew = true;
    check(world);
}

#[test]
fn limited_patience_and_a_key_that_is_kept() {
    let mut world = World::new(&[1, 1], 4, 1);
    world.habits.wait = [Some(Duration::ZERO), Some(MS * 100), None];
    world.habits.keep = Some(100);
    check(world);
}

#[test]
fn clients_that_hear_nothing() {
    let mut world = World { idle: [3, 3], ..World::new(&[1, 1], 5, 1) };
    world.habits.deaf = true;
    check(world);
}

#[test]
#[ignore = "takes long"]
fn more_of_everything() {
    check(World::new(&[1, 1], 5, 2));
    check(World::new(&[2, 1], 5, 1));
    check(World::new(&[1, 1, 1], 2, 1));
}

/// Checks that a mistake breaks a promise.
fn assert_found(bug: Bug, promise: &'static str, mut world: World) {
    world.habits.bug = Some(bug);
    let found = HasDiscoveries::AnyOf([promise].into());
    let checker = world.checker().threads(2).finish_when(found).spawn_bfs().join();
    let states = checker.unique_state_count();
    let path = checker.discovery(promise).unwrap_or_else(|| panic!("not found in {states} states"));
    println!("{bug:?}, after {states} states: {:?}", path.into_actions());
}

#[test]
fn finds_a_lease_that_counts_from_the_answer() {
    assert_found(Bug::LeaseFromAnswer, "one holder", World::new(&[1, 1], 5, 0));
}

#[test]
fn finds_an_old_message_that_is_believed() {
    let world = World { kinds: &[Fault::Stop], ..World::new(&[2, 1], 5, 1) };
    assert_found(Bug::OldMessageBelieved, "one holder", world);
}

#[test]
fn finds_a_request_that_is_dropped_without_clean_up() {
    let world = World::new(&[1, 1], 0, 0);
    assert_found(Bug::NothingCleanedUp, "nothing is left behind", world);
}

#[test]
fn finds_a_renewal_that_counts_without_an_answer() {
    let mut world = World { kinds: &[Fault::LoseCommand], ..World::new(&[1, 1], 8, 1) };
    world.habits.ttl = MS * 300;
    world.habits.renew = true;
    assert_found(Bug::UnknownIsRenewed, "one holder", world);
}

#[test]
fn finds_a_hand_over_to_the_dead() {
    let world = World { kinds: &[Fault::Crash], ..World::new(&[1, 1], 0, 1) };
    assert_found(Bug::HandedToTheDead, "handed over to the living", world);
}

#[test]
fn finds_a_release_that_does_not_compare() {
    let world = World { kinds: &[Fault::Copy], ..World::new(&[2, 1], 0, 1) };
    assert_found(Bug::ReleasedUnseen, "one holder", world);
}

#[test]
fn finds_a_fence_that_is_not_written_down() {
    assert_found(Bug::FenceForgotten, "fences grow", World::new(&[1, 1, 1], 0, 0));
}

#[test]
fn finds_a_loss_that_is_not_noticed() {
    let world = World { kinds: &[Fault::Flush], ..World::new(&[2, 1], 0, 1) };
    assert_found(Bug::LossUnseen, "fences grow", world);
}

#[test]
fn finds_a_newcomer_before_the_queue() {
    let world = World { unbroken: true, ..World::new(&[1, 1, 1], 0, 0) };
    assert_found(Bug::NewcomerFirst, "first come, first served", world);
}

#[test]
fn finds_a_place_that_is_left_silently() {
    let mut world = World { unbroken: true, idle: [25, 2], ..World::new(&[1, 1, 1], 3, 0) };
    world.habits.ttl = MS * 3_000;
    assert_found(Bug::LeftSilently, "who waits gets a free lock", world);
}
