//! The votes of independent servers in all histories of a few clients, as they are and with mistakes.

mod world;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use world::{Bug, World};

/// States that are visited each time.
const SOME: usize = 1_000_000;
/// States of a model that has more than can be visited.
const MANY: usize = 1_500_000;
const ALL: usize = usize::MAX;

/// Checks every state that can be reached, or many of them.
fn check(world: World, limit: usize) {
    let what = format!("{world:?}");
    let checker = world.checker().threads(2).target_state_count(limit);
    let checker = checker.spawn_dfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{states} states, up to {depth} steps deep: {what}");
    for property in checker.model().properties() {
        match property.expectation {
            Expectation::Always => checker.assert_no_discovery(property.name),
            _ if limit == ALL => drop(checker.assert_any_discovery(property.name)),
            _ => {}
        }
    }
}

fn worlds() -> [(World, usize); 5] {
    [
        (World { forget: true, ..World::new(&[1, 1]) }, ALL),
        (World { others: 1, ..World::new(&[1, 1]) }, ALL),
        (World { forget: true, ..World::new(&[2, 1]) }, MANY),
        (World::new(&[1, 1, 1]), MANY),
        (World { forget: true, ..World::new(&[1, 1, 1]) }, MANY),
    ]
}

#[test]
fn promises_are_kept_in_the_first_states() {
    for (world, _) in worlds() {
        check(world, SOME);
    }
}

#[test]
#[ignore = "takes long"]
fn promises_are_kept() {
    for (world, limit) in worlds() {
        check(world, limit);
    }
}

/// Checks that a mistake breaks a promise.
fn assert_found(promise: &'static str, world: World) {
    let found = HasDiscoveries::AnyOf([promise].into());
    let what = format!("{world:?}");
    let checker = world.checker().threads(2).finish_when(found).spawn_dfs().join();
    let states = checker.unique_state_count();
    let path =
        checker.discovery(promise).unwrap_or_else(|| panic!("not in {states} states: {what}"));
    println!("after {states} states: {what}: {:?}", path.into_actions());
}

fn with(bug: Bug, attempts: &'static [u8]) -> World {
    World { bug: Some(bug), ..World::new(attempts) }
}

#[test]
fn finds_a_confirmation_by_whoever_asks() {
    assert_found("fences differ", World { forget: true, ..with(Bug::OwnerUnseen, &[1, 1]) });
}

#[test]
#[ignore = "takes long"]
fn finds_a_fence_above_the_number_of_one_server_only() {
    assert_found("fences grow", World { forget: true, ..with(Bug::OneNumber, &[1, 1]) });
}

#[test]
#[ignore = "takes long"]
fn finds_a_late_vote_above_the_fence() {
    assert_found("fences grow", World { forget: true, ..with(Bug::LateNumber, &[1, 1]) });
}

#[test]
fn finds_a_server_that_votes_twice() {
    assert_found("one holder", with(Bug::TwoVotes, &[1, 1]));
}

#[test]
fn finds_a_half_that_is_enough() {
    assert_found("one holder", with(Bug::Half, &[1, 1]));
}

#[test]
#[ignore = "takes long"]
fn finds_a_token_of_two_rounds() {
    assert_found("one holder", with(Bug::SameToken, &[2, 1]));
}

#[test]
fn a_server_that_restarts_without_its_memory_and_votes_breaks_everything() {
    for promise in ["one holder", "fences differ", "fences grow"] {
        assert_found(promise, World { restarts: 1, ..World::new(&[1, 1]) });
    }
}
