//! Streams of the fixtures.

use super::support::*;

#[test]
fn untouched_is_identical_for_every_split() {
    for (api, name, text) in fixtures(".stream.sse") {
        let bytes = text.as_bytes();
        for at in 0..=bytes.len() {
            let (left, right) = bytes.split_at(at);
            let (mut editor, mut host) = (stream(api), Host { lag: at % 7, ..Host::default() });
            pass(&mut *editor, &mut host, &[left, right]);
            assert_eq!(host.sent, bytes, "{api} {name} cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let (mut editor, mut host) = (stream(api), Host::default());
        pass(&mut *editor, &mut host, &single);
        assert_eq!(host.sent, bytes, "{api} {name} byte by byte");
        assert_eq!(editor.responses(), [read_stream(api, bytes).unwrap()], "{api} {name}");
    }
}
