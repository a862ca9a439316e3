use backstop_store::{
    LeftCheckpoint, MOST_LEFT_CHECKPOINT_BYTES, MOST_LEFT_CHECKPOINTS, MOST_SHOWN_CHECKPOINTS, Store,
};

use crate::support::{at, over_all_forms};

over_all_forms!(
    what_is_left_is_found_by_the_others_and_nothing_takes_its_place,
    the_newest_of_a_trail_stay_and_others_are_not_pushed_out,
    a_bound_shows_those_that_were_left_last,
    whatever_time_is_said_the_order_is_that_of_the_database,
    what_is_too_long_is_not_left,
);

fn left(origin: &str, entries: u64, note: &str) -> LeftCheckpoint {
    LeftCheckpoint { origin: origin.to_owned(), entries, checkpoint: note.to_owned() }
}

async fn own(store: &dyn Store, origin: &str) -> Vec<LeftCheckpoint> {
    let left = store.left_checkpoints(origin).await.unwrap();
    assert_eq!(left.unread, 0);
    left.found
}

async fn others(store: &dyn Store, origin: &str, trails: usize) -> Vec<LeftCheckpoint> {
    let left = store.checkpoints_of_others(origin, trails).await.unwrap();
    assert_eq!(left.unread, 0);
    left.found
}

async fn what_is_left_is_found_by_the_others_and_nothing_takes_its_place(store: &dyn Store) {
    for (checkpoint, when) in
        [(left("a", 5, "five"), 1), (left("a", 7, "seven"), 2), (left("b", 3, "three"), 3)]
    {
        store.leave_checkpoint(checkpoint, at(when)).await.unwrap();
    }
    // A trail that was cut off and goes on has other entries of the same numbers.
    store.leave_checkpoint(left("a", 5, "other five"), at(4)).await.unwrap();
    let most_first = [left("a", 7, "seven"), left("a", 5, "other five"), left("a", 5, "five")];
    assert_eq!(own(store, "a").await, most_first);
    let newest_first = [left("a", 5, "other five"), left("a", 7, "seven"), left("a", 5, "five")];
    assert_eq!(others(store, "b", 9).await, newest_first);
    assert_eq!(others(store, "a", 9).await, [left("b", 3, "three")]);
    assert_eq!(own(store, "c").await, []);
    // The same one again is one.
    store.leave_checkpoint(left("b", 3, "three"), at(5)).await.unwrap();
    assert_eq!(own(store, "b").await.len(), 1);
}

async fn the_newest_of_a_trail_stay_and_others_are_not_pushed_out(store: &dyn Store) {
    store.leave_checkpoint(left("quiet", 1, "one"), at(1)).await.unwrap();
    let most = u64::try_from(MOST_LEFT_CHECKPOINTS).unwrap();
    for entries in 0..most + 5 {
        store.leave_checkpoint(left("busy", entries, "note"), at(2)).await.unwrap();
    }
    let busy = own(store, "busy").await;
    assert_eq!(busy.len(), MOST_LEFT_CHECKPOINTS);
    assert_eq!((busy[0].entries, busy[busy.len() - 1].entries), (most + 4, 5));
    assert_eq!(own(store, "quiet").await.len(), 1);
    // However many entries others claim, what is left last stays.
    for n in 0..most {
        store.leave_checkpoint(left("busy", 1_000_000 + n, "note"), at(3)).await.unwrap();
    }
    store.leave_checkpoint(left("busy", 9, "last"), at(3)).await.unwrap();
    let busy = own(store, "busy").await;
    assert_eq!((busy.len(), busy.last()), (MOST_LEFT_CHECKPOINTS, Some(&left("busy", 9, "last"))));
    assert_eq!(others(store, "quiet", 9).await.len(), MOST_SHOWN_CHECKPOINTS);
}

async fn a_bound_shows_those_that_were_left_last(store: &dyn Store) {
    for origin in ["a", "b", "c"] {
        store.leave_checkpoint(left(origin, 1, "note"), at(1)).await.unwrap();
    }
    store.leave_checkpoint(left("a", 1, "note"), at(1)).await.unwrap();
    let found = others(store, "none", 2).await;
    assert_eq!(found.iter().map(|left| &*left.origin).collect::<Vec<_>>(), ["a", "c"]);
}

async fn whatever_time_is_said_the_order_is_that_of_the_database(store: &dyn Store) {
    store.leave_checkpoint(left("a", 9, "from the future"), at(i64::MAX / 2)).await.unwrap();
    store.leave_checkpoint(left("a", 1, "genuine"), at(1)).await.unwrap();
    assert_eq!(others(store, "b", 9).await, [left("a", 1, "genuine"), left("a", 9, "from the future")]);
}

async fn what_is_too_long_is_not_left(store: &dyn Store) {
    let longest = "x".repeat(MOST_LEFT_CHECKPOINT_BYTES);
    store.leave_checkpoint(left("a", 1, &longest), at(1)).await.unwrap();
    assert!(store.leave_checkpoint(left("a", 2, &format!("{longest}x")), at(1)).await.is_err());
    assert!(store.leave_checkpoint(left(&"a".repeat(300), 2, "note"), at(1)).await.is_err());
    assert_eq!(others(store, "b", 9).await, [left("a", 1, &longest)]);
}
