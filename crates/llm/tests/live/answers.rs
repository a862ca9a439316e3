//! Whole answers of the fixtures.

use super::support::*;

#[test]
fn untouched_is_identical() {
    for (api, name, text) in fixtures(".response.json") {
        let (mut editor, mut host) = (whole(api), Host::default());
        pass(&mut *editor, &mut host, &[text.as_bytes()]);
        assert_eq!(host.sent, text.as_bytes(), "{api} {name}");
        assert_eq!(editor.responses(), [read_whole(api, text.as_bytes())], "{api} {name}");
    }
}
