//! Where answers are cut.

use super::{ENDINGS, PHASE, SMALL, STRIDE};

/// What a provider sends: pieces, and nothing behind the last.
pub(crate) type Pieces = Vec<Vec<u8>>;

fn pieces(bytes: &[u8], first: usize, size: usize) -> Pieces {
    let (head, tail) = bytes.split_at(first.min(bytes.len()));
    let pieces = std::iter::once(head).chain(tail.chunks(size));
    pieces.filter(|piece| !piece.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Of structural boundaries those at which the answer of this number is ended.
pub(crate) fn endings(number: usize, edges: &[usize]) -> impl Iterator<Item = &usize> {
    let step = edges.len().div_ceil(ENDINGS).max(1);
    edges.iter().skip(number % step).step_by(step)
}

/// The ways in which the bytes of any answer come, by its number. `edges` are its structural boundaries.
pub(crate) fn of_any(number: usize, bytes: &[u8], edges: &[usize]) -> Vec<Pieces> {
    let mut ways = vec![pieces(bytes, 0, usize::MAX), pieces(bytes, 1 + number % PHASE, PHASE)];
    ways.extend(endings(number, edges).map(|end| pieces(&bytes[..*end], 0, usize::MAX)));
    ways
}

/// The ways in which those of a plain one come besides: in small pieces, in two, and ended.
pub(crate) fn of_plain(bytes: &[u8], edges: &[usize]) -> Vec<Pieces> {
    let places = places(bytes.len(), edges);
    let cut = places.iter().map(|cut| pieces(bytes, *cut, usize::MAX));
    let ended = places.iter().map(|end| pieces(&bytes[..*end], 0, usize::MAX));
    let small =
        std::iter::once(pieces(bytes, 0, 1)).chain((1..=PHASE).map(|first| pieces(bytes, first, PHASE)));
    small.chain(cut).chain(ended).collect()
}

/// The places of a plain answer of so many bytes.
pub(crate) fn places(length: usize, edges: &[usize]) -> Vec<usize> {
    (0..length).filter(|at| length <= SMALL || at % STRIDE == 0 || edges.contains(at)).collect()
}

/// Around each control character: in lines that is where one ends.
pub(crate) fn of_lines(bytes: &[u8]) -> Vec<usize> {
    let around = |at: usize| bytes.get(at.saturating_sub(1)..bytes.len().min(at + 1)).unwrap_or_default();
    (0..bytes.len()).filter(|at| around(*at).iter().any(|byte| *byte < b' ')).collect()
}

#[test]
fn each_boundary_is_one_of_two_pieces() {
    let bytes: Vec<u8> = (0..100).collect();
    let any = of_any(2, &bytes, &[10, 20]);
    assert_eq!(any.len(), 2 + 2);
    assert_eq!((any[0].len(), any[1][0].len(), any[3].concat().len()), (1, 3, 20));
    let plain = of_plain(&bytes, &[]);
    assert_eq!(plain.len(), 1 + PHASE + 200);
    for boundary in 1..bytes.len() {
        let parts = |way: &Pieces| {
            let mut at = 0;
            way.iter().any(|piece| {
                at += piece.len();
                at == boundary
            })
        };
        assert!(plain[1..=PHASE].iter().any(parts) && parts(&plain[0]), "{boundary}");
        assert_eq!(plain[1 + PHASE + boundary][0], bytes[..boundary]);
        assert_eq!(plain[1 + PHASE + 100 + boundary].concat(), bytes[..boundary]);
    }
    assert!(any[..2].iter().chain(&plain[..1 + PHASE + 100]).all(|way| way.concat() == bytes));
    let large = places(2 * SMALL, &[3, 2 * SMALL - 1]);
    assert!(large.contains(&3) && large.contains(&(2 * SMALL - 1)) && !large.contains(&4), "{large:?}");
    assert_eq!(of_lines(b"ab\ncd"), [2, 3]);
}
