use backstop_store::{LeftCheckpoint, MOST_LEFT_CHECKPOINTS, Store};

use crate::support::{at, over_all_forms};

over_all_forms!(
    what_is_left_is_found_by_the_others_and_nothing_takes_its_place,
    the_newest_of_a_trail_stay_and_others_are_not_pushed_out,
    a_bound_shows_those_that_were_left_last,
);

fn left(origin: &str, entries: u64, note: &str) -> LeftCheckpoint {
    LeftCheckpoint { origin: origin.to_owned(), entries, checkpoint: note.to_owned() }
}

async fn what_is_left_is_found_by_the_others_and_nothing_takes_its_place(store: &dyn Store) {
    for (checkpoint, when) in
        [(left("a", 5, "five"), 1), (left("a", 7, "seven"), 2), (left("b", 3, "three"), 3)]
    {
        store.leave_checkpoint(checkpoint, at(when)).await.unwrap();
    }
    // A trail that was cut off and goes on has other entries of the same numbers.
    store.leave_checkpoint(left("a", 5, "other five"), at(4)).await.unwrap();
    let own = store.left_checkpoints("a").await.unwrap();
    assert_eq!(own, [left("a", 7, "seven"), left("a", 5, "other five"), left("a", 5, "five")]);
    assert_eq!(store.checkpoints_of_others("b", 9).await.unwrap(), [left("a", 5, "other five")]);
    assert_eq!(store.checkpoints_of_others("a", 9).await.unwrap(), [left("b", 3, "three")]);
    assert_eq!(store.left_checkpoints("c").await.unwrap(), []);
    // The same one again is one.
    store.leave_checkpoint(left("b", 3, "three"), at(5)).await.unwrap();
    assert_eq!(store.left_checkpoints("b").await.unwrap().len(), 1);
}

async fn the_newest_of_a_trail_stay_and_others_are_not_pushed_out(store: &dyn Store) {
    store.leave_checkpoint(left("quiet", 1, "one"), at(1)).await.unwrap();
    let most = u64::try_from(MOST_LEFT_CHECKPOINTS).unwrap();
    for entries in 0..most + 5 {
        store.leave_checkpoint(left("busy", entries, "note"), at(2)).await.unwrap();
    }
    let busy = store.left_checkpoints("busy").await.unwrap();
    assert_eq!(busy.len(), MOST_LEFT_CHECKPOINTS);
    assert_eq!((busy[0].entries, busy[busy.len() - 1].entries), (most + 4, 5));
    assert_eq!(store.left_checkpoints("quiet").await.unwrap().len(), 1);
}

async fn a_bound_shows_those_that_were_left_last(store: &dyn Store) {
    for (origin, when) in [("a", 3), ("b", 1), ("c", 2)] {
        store.leave_checkpoint(left(origin, 1, "note"), at(when)).await.unwrap();
    }
    let found = store.checkpoints_of_others("none", 2).await.unwrap();
    assert_eq!(found.iter().map(|left| &*left.origin).collect::<Vec<_>>(), ["a", "c"]);
}
