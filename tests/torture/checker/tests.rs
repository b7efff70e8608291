//! Histories with violations and histories without. Times are in milliseconds.

use super::*;
use crate::history::{Attempt, Holder, Key};
use crate::{TTL, millis};

const A: Attempt = Attempt(0, 0, 0);
const B: Attempt = Attempt(1, 0, 0);
const C: Attempt = Attempt(2, 0, 0);

/// The lock of all events without a named one.
const K: Key = 0;

fn at(at: u64, event: Event) -> Entry {
    Entry { at: millis(at), event }
}

fn asked(time: u64, attempt: Attempt) -> Entry {
    at(time, Event::Asked { attempt, key: K })
}

fn returned(time: u64, attempt: Attempt) -> Entry {
    at(time, Event::Returned { attempt, outcome: "busy".to_owned() })
}

fn granted(time: u64, attempt: Attempt, fence: u64, deadline: u64) -> Entry {
    granted_of(K, time, attempt, fence, deadline)
}

fn granted_of(key: Key, time: u64, attempt: Attempt, fence: u64, deadline: u64) -> Entry {
    at(time, Event::Granted { attempt, key, fence, deadline: millis(deadline) })
}

fn holds(time: u64, attempt: Attempt, deadline: u64) -> Entry {
    at(time, Event::Holds { attempt, deadline: millis(deadline) })
}

fn ended(time: u64, attempt: Attempt) -> Entry {
    at(time, Event::Ended { attempt })
}

fn reads(time: u64, attempt: Attempt, fence: u64) -> Entry {
    at(time, Event::Accessed { attempt, key: K, fence, write: None, accepted: true })
}

fn writes(time: u64, attempt: Attempt, fence: u64, value: u64) -> Entry {
    at(time, Event::Accessed { attempt, key: K, fence, write: Some(value), accepted: true })
}

fn is_refused(time: u64, attempt: Attempt, fence: u64, value: u64) -> Entry {
    at(time, Event::Accessed { attempt, key: K, fence, write: Some(value), accepted: false })
}

fn confirmed(time: u64, attempt: Attempt, value: u64) -> Entry {
    at(time, Event::Confirmed { attempt, key: K, value })
}

/// An observation with a full ttl.
fn seen(time: u64, token: &str) -> Entry {
    seen_with_ttl(time, token, Some(TTL))
}

fn seen_with_ttl(time: u64, token: &str, left: Option<Duration>) -> Entry {
    let holder = Some(Holder { token: token.to_owned(), left });
    at(time, Event::Seen { sent: millis(time - 1), key: K, holder })
}

fn seen_free(time: u64) -> Entry {
    at(time, Event::Seen { sent: millis(time - 1), key: K, holder: None })
}

fn faulty(time: u64, fault: usize, of_server: bool) -> Entry {
    at(time, Event::Faulty { fault, what: String::new(), of_server })
}

fn healed(time: u64, fault: usize) -> Entry {
    at(time, Event::Healed { fault })
}

fn verdict(history: &[Entry], loses_locks: bool) -> Verdict {
    verdict_under(history, &Rules { ttl: TTL, loses_locks, failovers: false })
}

fn verdict_under(history: &[Entry], rules: &Rules) -> Verdict {
    assert!(history.is_sorted_by_key(|entry| entry.at), "the history of the test is not sorted");
    check(history, rules)
}

/// Returns the violations of a history with failovers.
fn kinds_with_failovers(history: &[Entry]) -> Vec<Kind> {
    let verdict = verdict_under(history, &Rules { ttl: TTL, loses_locks: true, failovers: true });
    verdict.violations.iter().map(|violation| violation.kind).collect()
}

/// Returns the violations of a history without failovers.
fn kinds(history: &[Entry]) -> Vec<Kind> {
    verdict(history, false).violations.iter().map(|violation| violation.kind).collect()
}

fn assert_no_violations(history: &[Entry]) {
    assert_eq!(verdict(history, false).violations, []);
}

mod violations {
    use super::*;

    #[test]
    fn reports_overlap_of_second_holder() {
        let history = [granted(0, A, 1, 930), granted(500, B, 2, 1_430), ended(600, A)];
        assert_eq!(kinds(&history), [Kind::Overlap]);
    }

    #[test]
    fn reports_overlap_with_lease_of_killed_holder() {
        assert_eq!(kinds(&[granted(0, A, 1, 930), granted(929, B, 2, 1_430)]), [Kind::Overlap]);
    }

    #[test]
    fn reports_overlap_with_renewed_lease() {
        let history = [granted(0, A, 1, 930), holds(700, A, 1_600), granted(950, B, 2, 1_880)];
        assert_eq!(kinds(&history), [Kind::Overlap]);
    }

    #[test]
    fn reports_holder_that_continues_after_another_grant() {
        let history = [granted(0, A, 1, 930), granted(940, B, 2, 1_870), holds(950, A, 1_800)];
        assert_eq!(kinds(&history), [Kind::Overlap]);
    }

    #[test]
    fn reports_deadline_after_expiry_of_key() {
        let history =
            [granted(0, A, 1, 930), seen_with_ttl(10, "t", Some(millis(900))), ended(20, A)];
        assert_eq!(kinds(&history), [Kind::Overlap]);
    }

    #[test]
    fn reports_holder_of_free_lock() {
        assert_eq!(kinds(&[granted(0, A, 1, 930), seen_free(10), ended(20, A)]), [Kind::Overlap]);
    }

    #[test]
    fn reports_each_holder_that_overlaps_a_third() {
        let history = [
            granted(0, A, 1, 930),
            granted(100, B, 2, 1_030),
            ended(200, B),
            granted(300, C, 3, 1_230),
            ended(400, C),
        ];
        assert_eq!(kinds(&history), [Kind::Overlap, Kind::Overlap]);
    }

    #[test]
    fn reports_overlap_over_ttl_after_amnesia() {
        let history = [
            granted(0, A, 1, 930),
            granted(500, B, 2, 1_430),
            holds(650, A, 1_580),
            holds(1_300, B, 2_200),
            holds(1_300, A, 2_230),
        ];
        let violations = verdict(&history, true).violations;
        assert_eq!(violations.iter().map(|v| v.kind).collect::<Vec<_>>(), [Kind::Overlap]);
    }

    #[test]
    fn reports_fence_lower_than_earlier_one() {
        let history = [granted(0, A, 7, 930), ended(10, A), asked(11, B), granted(20, B, 6, 950)];
        assert_eq!(kinds(&history), [Kind::Fence]);
    }

    #[test]
    fn reports_lower_fence_after_failover() {
        let history = [
            faulty(0, 0, false),
            granted(1, A, 7, 931),
            ended(2, A),
            healed(3, 0),
            asked(4, B),
            faulty(5, 1, false),
            granted(6, B, 6, 936),
        ];
        assert_eq!(kinds_with_failovers(&history), [Kind::Fence]);
    }

    #[test]
    fn reports_accepted_late_access_after_failover() {
        let history = [
            faulty(0, 0, false),
            granted(1, A, 7, 931),
            reads(2, A, 7),
            asked(3, B),
            granted(4, B, 6, 934),
            writes(5, B, 6, 1),
        ];
        assert_eq!(kinds_with_failovers(&history), [Kind::Fence]);
    }

    #[test]
    fn reports_fence_granted_twice() {
        let history = [asked(0, B), granted(1, A, 7, 931), ended(10, A), granted(20, B, 7, 950)];
        assert_eq!(kinds(&history), [Kind::Fence]);
    }

    #[test]
    fn reports_accepted_late_access() {
        let history = [
            asked(0, B),
            granted(1, A, 1, 931),
            reads(2, A, 1),
            granted(931, B, 2, 1_861),
            reads(932, B, 2),
            writes(940, A, 1, 1),
        ];
        assert_eq!(kinds(&history), [Kind::Fence]);
    }

    #[test]
    fn reports_access_without_grant() {
        let history = [granted(1, A, 1, 931), reads(2, A, 1), reads(3, B, 2)];
        assert_eq!(kinds(&history), [Kind::Fence]);
    }

    #[test]
    fn reports_access_with_fence_of_another_lock() {
        let history = [granted_of(1, 0, A, 5, 930), reads(1, A, 5)];
        assert_eq!(kinds(&history), [Kind::Fence]);
    }

    #[test]
    fn reports_write_based_on_stale_read() {
        let history = [
            granted(0, A, 1, 930),
            writes(1, A, 1, 1),
            ended(2, A),
            granted(3, B, 2, 933),
            reads(4, B, 2),
            writes(5, B, 2, 1),
        ];
        assert_eq!(kinds(&history), [Kind::LostUpdate]);
    }

    #[test]
    fn reports_confirmed_write_that_was_refused() {
        let history = [granted(0, A, 1, 930), is_refused(1, A, 1, 1), confirmed(2, A, 1)];
        assert_eq!(kinds(&history), [Kind::LostUpdate]);
    }

    #[test]
    fn reports_key_without_holder() {
        let history = [granted(0, A, 1, 930), ended(10, A), seen(20, "t"), seen(1_130, "t")];
        assert_eq!(kinds(&history), [Kind::Orphan]);
    }

    #[test]
    fn reports_key_renewed_after_end_of_holder() {
        let history = [seen(1, "t"), granted(2, A, 1, 930), ended(400, A), seen(1_600, "t")];
        assert_eq!(kinds(&history), [Kind::Orphan]);
    }

    #[test]
    fn reports_key_without_expiry() {
        assert_eq!(kinds(&[granted(0, A, 1, 930), seen_with_ttl(2, "t", None)]), [Kind::Orphan]);
    }

    #[test]
    fn reports_key_left_after_all_clients_stopped() {
        let history = [granted(0, A, 1, 930), ended(5, A), at(6, Event::Over), seen(7, "t")];
        assert_eq!(kinds(&history), [Kind::Orphan]);
    }

    #[test]
    fn reports_grant_long_after_fault() {
        let history =
            [asked(0, A), faulty(5, 0, true), healed(500, 0), granted(10_600, A, 1, 11_530)];
        assert_eq!(kinds(&history), [Kind::Outage]);
    }

    #[test]
    fn reports_outage_of_one_lock_while_another_is_granted() {
        let history = [
            asked(0, A),
            returned(50, A),
            granted_of(1, 5_000, B, 2, 5_930),
            ended(5_100, B),
            at(10_100, Event::Stopped),
        ];
        assert_eq!(kinds(&history), [Kind::Outage]);
    }
}

mod valid {
    use super::*;

    #[test]
    fn accepts_empty_history() {
        assert_no_violations(&[]);
    }

    #[test]
    fn accepts_consecutive_holders() {
        assert_no_violations(&[
            asked(0, A),
            asked(0, B),
            granted(1, A, 1, 931),
            reads(2, A, 1),
            writes(3, A, 1, 1),
            confirmed(4, A, 1),
            ended(5, A),
            granted(5, B, 2, 935),
            reads(6, B, 2),
            writes(7, B, 2, 2),
            confirmed(8, B, 2),
            ended(9, B),
        ]);
    }

    #[test]
    fn accepts_concurrent_holders_of_two_locks() {
        assert_no_violations(&[
            granted(0, A, 1, 930),
            granted_of(1, 10, B, 2, 940),
            reads(11, A, 1),
        ]);
    }

    #[test]
    fn accepts_holder_after_lease_of_killed_one() {
        assert_no_violations(&[granted(0, A, 1, 930), granted(930, B, 2, 1_860)]);
    }

    #[test]
    fn accepts_refused_write_of_holder_that_resumes_late() {
        assert_no_violations(&[
            granted(0, A, 1, 930),
            reads(1, A, 1),
            granted(1_000, B, 2, 1_930),
            reads(1_001, B, 2),
            is_refused(1_500, A, 1, 1),
            holds(1_500, A, 1_500),
            ended(1_501, A),
            writes(1_600, B, 2, 1),
        ]);
    }

    #[test]
    fn accepts_late_write_before_next_access() {
        assert_no_violations(&[
            granted(0, A, 1, 930),
            reads(1, A, 1),
            granted(1_000, B, 2, 1_930),
            writes(1_010, A, 1, 1),
            ended(1_011, A),
            reads(1_020, B, 2),
            writes(1_030, B, 2, 2),
        ]);
    }

    #[test]
    fn accepts_holder_after_early_loss() {
        assert_no_violations(&[granted(0, A, 1, 930), ended(300, A), granted(301, B, 2, 1_231)]);
    }

    #[test]
    fn accepts_holder_after_renewed_lease() {
        assert_no_violations(&[
            granted(0, A, 1, 930),
            holds(700, A, 1_600),
            ended(1_200, A),
            granted(1_201, B, 2, 2_131),
        ]);
    }

    #[test]
    fn accepts_deadline_before_expiry_of_key() {
        assert_no_violations(&[
            granted(0, A, 1, 930),
            seen_with_ttl(10, "t", Some(millis(990))),
            holds(651, A, 1_570),
            seen_with_ttl(651, "t", Some(millis(349))), // requested before the renewal
            ended(700, A),
            seen_free(702),
        ]);
    }

    #[test]
    fn accepts_write_whose_confirmation_was_lost() {
        assert_no_violations(&[
            granted(0, A, 1, 930),
            writes(1, A, 1, 1),
            granted(930, B, 9, 1_860),
            reads(931, B, 9),
            writes(932, B, 9, 2),
            confirmed(933, B, 2),
        ]);
    }

    #[test]
    fn accepts_any_fence_order_of_concurrent_requests() {
        assert_no_violations(&[
            asked(0, A),
            asked(0, B),
            granted(1, A, 9, 931),
            ended(2, A),
            granted(3, B, 8, 933),
            ended(4, B),
        ]);
    }

    #[test]
    fn accepts_orphaned_key_for_one_ttl() {
        assert_no_violations(&[
            granted(0, A, 1, 930),
            ended(1, A),
            seen(20, "t"),
            seen(1_100, "t"),
        ]);
    }

    #[test]
    fn accepts_key_renewed_for_its_holder() {
        assert_no_violations(&[
            granted(0, A, 1, 930),
            seen(20, "t"),
            holds(700, A, 1_600),
            holds(1_400, A, 2_300),
            seen(2_000, "t"),
        ]);
    }

    #[test]
    fn accepts_key_renewed_late_after_fault() {
        assert_no_violations(&[
            granted(0, A, 1, 930),
            seen(20, "t"),
            faulty(30, 0, false),
            healed(1_900, 0),
            seen(2_500, "t"),
        ]);
    }

    #[test]
    fn accepts_consecutive_orphans_of_one_key() {
        assert_no_violations(&[
            granted(0, A, 1, 930),
            ended(1, A),
            seen(20, "t"),
            seen(1_000, "u"),
            seen(2_000, "v"),
        ]);
    }

    #[test]
    fn accepts_no_grants_while_server_is_down() {
        assert_no_violations(&[
            asked(0, A),
            faulty(5, 0, true),
            healed(20_000, 0),
            granted(20_900, A, 1, 21_830),
            ended(20_901, A),
            at(21_000, Event::Stopped),
        ]);
    }

    #[test]
    fn accepts_no_grants_without_requests() {
        assert_no_violations(&[
            asked(0, A),
            granted(1, A, 1, 931),
            ended(2, A),
            returned(3, A),
            asked(20_000, B),
            granted(20_001, B, 2, 20_931),
            ended(20_002, B),
            at(40_000, Event::Stopped),
        ]);
    }

    #[test]
    fn accepts_request_lost_with_killed_client() {
        let restarted = |restarts| Attempt(B.0, restarts, 0);
        assert_no_violations(&[
            asked(0, A),
            asked(0, restarted(0)),
            granted(1, A, 1, 931),
            ended(2, A),
            asked(300, restarted(1)),
            granted(302, restarted(1), 2, 1_232),
            ended(400, restarted(1)),
            at(20_000, Event::Stopped),
        ]);
    }

    #[test]
    fn accepts_refused_write_under_grant_of_old_master() {
        let history = [
            faulty(0, 0, false),
            granted(1, A, 7, 931),
            reads(2, A, 7),
            asked(3, B),
            granted(4, B, 6, 934),
            is_refused(5, B, 6, 1),
            healed(6, 0),
        ];
        assert_eq!(kinds_with_failovers(&history), []);
    }

    #[test]
    fn accepts_overlap_under_ttl_after_amnesia() {
        let history = [granted(0, A, 1, 930), granted(500, B, 2, 1_430), ended(900, A)];
        let verdict = verdict(&history, true);
        assert_eq!((verdict.overlaps, verdict.violations), (1, vec![]));
    }
}

#[test]
fn prints_verdict_as_one_line() {
    let history = [
        asked(0, A),
        faulty(0, 0, true),
        healed(100, 0),
        granted(1_340, A, 1, 2_270),
        granted(1_400, B, 2, 2_330),
        writes(1_450, B, 2, 2),
        is_refused(1_460, A, 1, 1),
    ];
    assert_eq!(
        verdict(&history, false).to_string(),
        "1 faults, 2 grants, 1 overlaps, 0 fenced violations, 1 late writes refused, \
         1 lost updates, 0 orphans, longest outage 1.2 s"
    );
}
