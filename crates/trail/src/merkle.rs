//! The tree over a log: RFC 6962, section 2.
//!
//! A leaf is the SHA-256 of a zero byte and the entry, a node that of a one byte and its two children. The tree over `n` entries splits
//! at the largest power of two below `n`, so what is left of the right edge never changes when entries are added: [`Frontier`] keeps only
//! that edge. [`Subtrees`] gives the roots of complete subtrees, from which both kinds of proof are put together.

use sha2::{Digest as _, Sha256};

use crate::TILE;

/// The length of a hash, in bytes.
pub const HASH_BYTES: usize = 32;

/// A SHA-256.
pub type Hash = [u8; HASH_BYTES];

/// Returns the root of the tree over no entries.
pub fn empty_root() -> Hash {
    Sha256::digest(b"").into()
}

/// Returns the hash of an entry.
pub fn leaf_hash(entry: &[u8]) -> Hash {
    Sha256::new().chain_update([0]).chain_update(entry).finalize().into()
}

/// Returns the hash of a node with these children.
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// 256 hashes of one height: the unit in which a tree is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The height of its hashes, in tiles: zero for leaves.
    pub level: u32,
    /// Its place in the row.
    pub index: u64,
    /// Its hashes.
    pub hashes: Vec<Hash>,
}

/// The right edge of a growing tree, and the tiles that are not full yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    /// The roots of the complete subtrees, from the left: one for each bit of the size.
    roots: Vec<Hash>,
    /// By level, the hashes of the tile that is being filled.
    open: Vec<Vec<Hash>>,
}

impl Frontier {
    /// Returns the number of entries.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds an entry. Returns the tiles that it completes.
    pub fn push(&mut self, leaf: Hash) -> Vec<Tile> {
        let mut full = Vec::new();
        let (mut hash, mut height, mut rest) = (leaf, 0_u32, self.size);
        self.fill(0, hash, &mut full);
        while rest & 1 == 1
            && let Some(left) = self.roots.pop()
        {
            hash = node_hash(&left, &hash);
            (height, rest) = (height + 1, rest >> 1);
            if height.is_multiple_of(TILE.ilog2()) {
                self.fill(height / TILE.ilog2(), hash, &mut full);
            }
        }
        self.roots.push(hash);
        self.size += 1;
        full
    }

    /// Adds a complete tile of leaves that is known already, where no tile has been begun: only its nodes are computed.
    pub fn push_tile(&mut self, leaves: &[Hash]) -> Vec<Tile> {
        leaves.iter().flat_map(|leaf| self.push(*leaf)).collect()
    }

    /// Returns the root of the tree.
    pub fn root(&self) -> Hash {
        let mut roots = self.roots.iter().rev();
        let Some(last) = roots.next() else { return empty_root() };
        roots.fold(*last, |right, left| node_hash(left, &right))
    }

    /// Returns the hashes of the tile of a level that is being filled.
    pub fn open(&self, level: u32) -> &[Hash] {
        let level = usize::try_from(level).unwrap_or(usize::MAX);
        self.open.get(level).map_or(&[], Vec::as_slice)
    }

    fn fill(&mut self, level: u32, hash: Hash, full: &mut Vec<Tile>) {
        let row = usize::try_from(level).unwrap_or(usize::MAX);
        while self.open.len() <= row {
            self.open.push(Vec::new());
        }
        let Some(open) = self.open.get_mut(row) else { return };
        open.push(hash);
        if open.len() as u64 == TILE {
            let hashes = std::mem::take(open);
            // The tile ends with the entry that is being added.
            let index = self.size >> ((level + 1) * TILE.ilog2());
            full.push(Tile { level, index, hashes });
        }
    }

    /// Writes the edge down, so that it can be [read](Self::decode) again.
    #[cfg(feature = "files")]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.size.to_le_bytes());
        for row in std::iter::once(&self.roots).chain(&self.open) {
            out.extend_from_slice(&u32::try_from(row.len()).unwrap_or(u32::MAX).to_le_bytes());
            row.iter().for_each(|hash| out.extend_from_slice(hash));
        }
    }

    /// Reads an edge that was written down; `None` for anything else.
    #[cfg(feature = "files")]
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (size, mut rest) = bytes.split_first_chunk::<8>()?;
        let size = u64::from_le_bytes(*size);
        let mut rows = Vec::new();
        while let Some((len, row)) = rest.split_first_chunk::<4>() {
            let len = usize::try_from(u32::from_le_bytes(*len)).ok()?.checked_mul(HASH_BYTES)?;
            let (row, after) = row.split_at_checked(len)?;
            rows.push(hashes(row)?);
            rest = after;
        }
        let mut rows = rows.into_iter();
        let (roots, open) = (rows.next()?, rows.collect::<Vec<_>>());
        let sound = rest.is_empty()
            && roots.len() == usize::try_from(size.count_ones()).ok()?
            && open.iter().zip(0_u32..).all(|(row, level)| {
                let count = size.checked_shr(level * TILE.ilog2()).unwrap_or_default() % TILE;
                row.len() as u64 == count
            });
        sound.then_some(Self { size, roots, open })
    }
}

/// Reads hashes that lie one after the other; `None` if a part of one is left.
#[cfg(feature = "files")]
pub(crate) fn hashes(bytes: &[u8]) -> Option<Vec<Hash>> {
    let (hashes, rest) = bytes.as_chunks::<HASH_BYTES>();
    rest.is_empty().then(|| hashes.to_vec())
}

/// Where the roots of complete subtrees come from.
pub trait Subtrees {
    /// Why one can't be had.
    type Error;

    /// Returns the root of the subtree over the entries from `index << height` to before `(index + 1) << height`, all of which exist.
    ///
    /// # Errors
    ///
    /// Where it can't be had.
    fn subtree(&mut self, height: u32, index: u64) -> Result<Hash, Self::Error>;
}

/// Returns the hashes that prove that entry `index` is in the tree over `size` entries, from the leaf to the root.
///
/// # Errors
///
/// Those of the subtrees.
pub fn inclusion<S: Subtrees>(tree: &mut S, index: u64, size: u64) -> Result<Vec<Hash>, S::Error> {
    let (mut low, mut high, mut path) = (0, size, Vec::new());
    while high - low > 1 {
        let middle = low + split(high - low);
        if index < middle {
            path.push(range(tree, middle, high)?);
            high = middle;
        } else {
            path.push(range(tree, low, middle)?);
            low = middle;
        }
    }
    path.reverse();
    Ok(path)
}

/// Returns the hashes that prove that the tree over `old` entries is the beginning of the tree over `size` entries.
///
/// # Errors
///
/// Those of the subtrees.
pub fn consistency<S: Subtrees>(tree: &mut S, old: u64, size: u64) -> Result<Vec<Hash>, S::Error> {
    if old == 0 || old >= size {
        return Ok(Vec::new());
    }
    let (mut low, mut high, mut path) = (0, size, Vec::new());
    while high != old {
        let middle = low + split(high - low);
        if old <= middle {
            path.push(range(tree, middle, high)?);
            high = middle;
        } else {
            path.push(range(tree, low, middle)?);
            low = middle;
        }
    }
    if low > 0 {
        path.push(range(tree, low, high)?);
    }
    path.reverse();
    Ok(path)
}

/// Returns the root of the tree over the first `size` entries.
///
/// # Errors
///
/// Those of the subtrees.
pub fn root<S: Subtrees>(tree: &mut S, size: u64) -> Result<Hash, S::Error> {
    if size == 0 { Ok(empty_root()) } else { range(tree, 0, size) }
}

/// Returns the hash of the entries from `low`, which begins a complete subtree, to before `high`.
fn range<S: Subtrees>(tree: &mut S, low: u64, high: u64) -> Result<Hash, S::Error> {
    let (mut low, mut left) = (low, Vec::new());
    while high - low > 1 && !(high - low).is_power_of_two() {
        let part = split(high - low);
        left.push(tree.subtree(part.ilog2(), low / part)?);
        low += part;
    }
    let part = high - low;
    let last = tree.subtree(part.ilog2(), low / part)?;
    Ok(left.iter().rev().fold(last, |right, left| node_hash(left, &right)))
}

/// Returns the largest power of two below `entries`, of which there are at least two.
fn split(entries: u64) -> u64 {
    1 << (entries - 1).ilog2()
}

/// Returns whether the hashes prove that the leaf is entry `index` of the tree of that root (RFC 9162, section 2.1.3.2).
pub fn is_included(leaf: Hash, index: u64, size: u64, root: &Hash, path: &[Hash]) -> bool {
    if index >= size {
        return false;
    }
    let (mut node, mut last, mut hash) = (index, size - 1, leaf);
    for sibling in path {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            hash = node_hash(sibling, &hash);
            while node & 1 == 0 && node != 0 {
                (node, last) = (node >> 1, last >> 1);
            }
        } else {
            hash = node_hash(&hash, sibling);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    last == 0 && hash == *root
}

/// Returns whether the hashes prove that the tree of the old root is the beginning of the other one (RFC 9162, section 2.1.4.2).
pub fn is_consistent(old: u64, old_root: &Hash, size: u64, root: &Hash, path: &[Hash]) -> bool {
    if old > size {
        return false;
    }
    if old == size || old == 0 {
        let same = if old == 0 { *old_root == empty_root() } else { old_root == root };
        return same && path.is_empty();
    }
    let (mut node, mut last) = (old - 1, size - 1);
    while node & 1 == 1 {
        (node, last) = (node >> 1, last >> 1);
    }
    let mut path = path.iter();
    let first = if old.is_power_of_two() { Some(old_root) } else { path.next() };
    let Some(first) = first else { return false };
    let (mut before, mut after) = (*first, *first);
    for hash in path {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            (before, after) = (node_hash(hash, &before), node_hash(hash, &after));
            while node & 1 == 0 && node != 0 {
                (node, last) = (node >> 1, last >> 1);
            }
        } else {
            after = node_hash(&after, hash);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    last == 0 && before == *old_root && after == *root
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "trees in tests are small")]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// A tree as RFC 6962 defines it, computed anew each time.
    struct Plain(Vec<Hash>);

    impl Subtrees for Plain {
        type Error = Infallible;

        fn subtree(&mut self, height: u32, index: u64) -> Result<Hash, Infallible> {
            let (from, to) = (index << height, (index + 1) << height);
            Ok(defined(&self.0[from as usize..to as usize]))
        }
    }

    fn defined(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => empty_root(),
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(split(leaves.len() as u64) as usize);
                node_hash(&defined(left), &defined(right))
            }
        }
    }

    fn leaves(count: u64) -> Vec<Hash> {
        (0..count).map(|n| leaf_hash(&n.to_le_bytes())).collect()
    }

    #[test]
    fn roots_are_those_that_certificate_transparency_publishes() {
        // The vectors of the reference implementation of RFC 6962.
        let hex = |hash: Hash| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let inputs: [&[u8]; 8] = [
            b"",
            &[0x00],
            &[0x10],
            &[0x20, 0x21],
            &[0x30, 0x31],
            &[0x40, 0x41, 0x42, 0x43],
            &[0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57],
            &[0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f],
        ];
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let mut frontier = Frontier::default();
        assert_eq!(hex(frontier.root()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        for (input, root) in inputs.iter().zip(roots) {
            frontier.push(leaf_hash(input));
            assert_eq!(hex(frontier.root()), root);
        }
    }

    #[test]
    fn tiles_are_complete_rows_of_the_tree() {
        let (leaves, mut frontier) = (leaves(66_000), Frontier::default());
        let mut tiles = Vec::new();
        for leaf in &leaves {
            tiles.extend(frontier.push(*leaf));
        }
        let rows = |level| tiles.iter().filter(|tile| tile.level == level).collect::<Vec<_>>();
        assert_eq!((rows(0).len(), rows(1).len(), tiles.len()), (257, 1, 258));
        for (tile, index) in rows(0).iter().zip(0_u64..) {
            assert_eq!(tile.index, index);
            assert_eq!(tile.hashes, leaves[index as usize * 256..][..256]);
        }
        let above: Vec<Hash> = rows(0).iter().take(256).map(|tile| defined(&tile.hashes)).collect();
        assert_eq!((rows(1)[0].index, &rows(1)[0].hashes), (0, &above));
        assert_eq!((frontier.open(0).len(), frontier.open(1).len(), frontier.open(2).len()), (208, 1, 1));
    }

    proptest! {
        #[test]
        fn every_entry_is_proved_and_no_other(size in 1..600_u64, at in any::<prop::sample::Index>()) {
            let leaves = leaves(size);
            let root = defined(&leaves);
            let index = at.index(leaves.len()) as u64;
            let path = inclusion(&mut Plain(leaves.clone()), index, size).unwrap();
            let leaf = leaves[index as usize];
            prop_assert!(is_included(leaf, index, size, &root, &path));
            prop_assert!(!is_included(leaf_hash(b"other"), index, size, &root, &path));
            prop_assert!(!is_included(leaf, index ^ 1, size, &root, &path) || size == 1);
            prop_assert!(!is_included(leaf, index, size, &empty_root(), &path));
            for cut in 0..path.len() {
                prop_assert!(!is_included(leaf, index, size, &root, &path[..cut]));
            }
        }

        #[test]
        fn a_beginning_is_proved_and_no_other(size in 1..600_u64, old in 0..600_u64) {
            let old = old.min(size);
            let leaves = leaves(size);
            let root = defined(&leaves);
            let before = defined(&leaves[..old as usize]);
            let path = consistency(&mut Plain(leaves), old, size).unwrap();
            prop_assert!(is_consistent(old, &before, size, &root, &path));
            let other = leaf_hash(b"other");
            prop_assert!(!is_consistent(old, &other, size, &root, &path));
            prop_assert!(old == 0 || !is_consistent(old, &before, size, &other, &path));
            if let Some((_, cut)) = path.split_last() {
                prop_assert!(!is_consistent(old, &before, size, &root, cut));
            }
        }

        #[cfg(feature = "files")]
        #[test]
        fn an_edge_is_read_as_it_was_written(size in 0..2000_u64, more in 0..600_u64) {
            let leaves = leaves(size + more);
            let mut frontier = Frontier::default();
            frontier.push_tile(&leaves[..size as usize]);
            let mut bytes = Vec::new();
            frontier.encode(&mut bytes);
            let mut read = Frontier::decode(&bytes).unwrap();
            prop_assert_eq!(&read, &frontier);
            read.push_tile(&leaves[size as usize..]);
            prop_assert_eq!(read.root(), defined(&leaves));
            prop_assert_eq!(Frontier::decode(&bytes[..bytes.len() - 1]), None);
        }
    }
}
