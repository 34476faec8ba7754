//! Tests of the pace without a running clock: every instant is given.

use super::*;

fn at(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

/// Returns when each of `count` calls about `chat` has its turn, milliseconds, all asked for at once.
fn turns(chat: i64, count: usize) -> Vec<u64> {
    let pace = Pace::new(true);
    pace.queues(Some(chat));
    let mut limits = pace.limits.lock();
    let start = Instant::now() + Duration::from_secs(1);
    let mut now = 0;
    (0..count)
        .map(|_| {
            now += u64::try_from(limits.wait_both(chat, 1, at(start, now)).as_millis()).unwrap();
            assert!(
                limits.take(Some(chat), at(start, now)),
                "there is room after the wait"
            );
            now
        })
        .collect()
}

#[test]
fn a_chat_takes_three_at_once_and_one_a_second_after_them() {
    assert_eq!(turns(7, 6), [0, 0, 0, 1000, 2000, 3000]);
}

#[test]
fn a_group_takes_twenty_in_any_minute() {
    let turns = turns(-7, 45);
    assert_eq!(turns[..4], [0, 0, 0, 1000]);
    assert_eq!((turns[19], turns[20], turns[22]), (17_000, 60_000, 60_000));
    assert!(
        turns
            .windows(21)
            .all(|minute| minute[20] - minute[0] >= 60_000),
        "{turns:?}"
    );
}

#[test]
fn all_chats_together_take_thirty_in_any_second() {
    let pace = Pace::new(true);
    let start = Instant::now() + Duration::from_secs(1);
    for chat in 0..30 {
        pace.queues(Some(chat));
        assert!(pace.limits.lock().take(Some(chat), start));
    }
    pace.queues(Some(30));
    assert_eq!(
        pace.limits.lock().wait_both(30, 1, at(start, 400)),
        Duration::from_millis(600)
    );
    assert!(!pace.limits.lock().take(Some(30), at(start, 999)));
    assert!(pace.limits.lock().take(Some(30), at(start, 1000)));
}

#[test]
fn a_rested_chat_is_forgotten_and_one_that_is_not_is_kept() {
    let pace = Pace::new(true);
    let now = Instant::now();
    pace.queues(Some(1));
    let waits = pace.queues(Some(2));
    pace.queues(Some(3));
    assert!(
        pace.limits
            .lock()
            .take(Some(3), now + Duration::from_secs(9))
    );
    pace.close(4, Duration::from_secs(9));
    pace.queues(Some(5));
    let mut kept: Vec<i64> = pace.limits.lock().0.keys().copied().flatten().collect();
    kept.sort_unstable();
    // 1 was forgotten when 2 came: only who waits, has called or is closed stays, and who came last.
    assert_eq!(kept, [2, 3, 4, 5]);
    drop(waits);
    pace.queues(Some(6));
    assert!(!pace.limits.lock().0.contains_key(&Some(2)));
}

#[tokio::test]
async fn one_chat_waits_for_no_other() {
    let pace = Pace::new(true);
    pace.close(1, Duration::from_secs(3600));
    let blocked = pace.turn(Some(1));
    let free = pace.turn(Some(2));
    tokio::select! {
        () = blocked => panic!("the closed chat had its turn"),
        () = free => {}
    }
}

#[tokio::test]
async fn what_is_closed_is_closed_where_nothing_is_paced_too() {
    let pace = Pace::new(false);
    for _ in 0..200 {
        pace.turn(Some(-1)).await;
    }
    let begun = Instant::now();
    pace.close(-1, Duration::from_millis(120));
    assert!(!pace.turn_within(-1, Duration::ZERO).await);
    pace.turn(Some(-1)).await;
    assert!(begun.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn a_closed_method_holds_up_no_chat_and_no_other_method() {
    let pace = Pace::new(false);
    let begun = Instant::now();
    pace.close_method("getFile", Duration::from_millis(120));
    pace.close_method("setMyCommands", Duration::from_secs(400));
    let rest = pace.rested("setMyCommands").await.expect_err("it is long");
    assert!(rest > Duration::from_secs(390), "{rest:?}");
    assert_eq!(pace.rested("getMe").await, Ok(()));
    pace.turn(Some(9)).await;
    pace.turn(None).await;
    assert!(begun.elapsed() < Duration::from_millis(120));
    assert_eq!(pace.rested("getFile").await, Ok(()));
    assert!(begun.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn who_waits_goes_in_turn_and_who_leaves_uses_up_nothing() {
    let pace = Arc::new(Pace::new(true));
    let order = Arc::new(Mutex::new(Vec::new()));
    pace.close(1, Duration::from_millis(60));
    let mut tasks = Vec::new();
    for number in 0..4 {
        let (pace, order) = (pace.clone(), order.clone());
        tasks.push(tokio::spawn(async move {
            pace.turn(Some(1)).await;
            order.lock().push(number);
        }));
        tokio::task::yield_now().await;
    }
    tasks.remove(1).abort();
    for task in tasks {
        task.await.unwrap();
    }
    // Three at once after the pause: the second gave up its place, the fourth need not wait a second.
    assert_eq!(*order.lock(), [0, 2, 3]);
    assert_eq!(
        pace.limits
            .lock()
            .wait_both(1, 3, Instant::now() + Duration::from_secs(3)),
        Duration::ZERO
    );
}

#[tokio::test]
async fn what_may_be_left_out_never_takes_the_last_room() {
    let pace = Pace::new(true);
    assert!(pace.turn_within(1, Duration::ZERO).await);
    assert!(pace.turn_within(1, Duration::ZERO).await);
    assert!(!pace.turn_within(1, Duration::ZERO).await);
    let begun = Instant::now();
    pace.turn(Some(1)).await;
    assert!(
        begun.elapsed() < Duration::from_millis(500),
        "the answer goes at once"
    );
    assert!(
        !pace.turn_within(1, Duration::from_secs(1)).await,
        "it would take two seconds"
    );
}
