//! The charset that the head of a message names.
//!
//! JSON and event streams are UTF-8 for those who judge them. Some readers decode them as the head says all the
//! same: bytes that are a harmless text in UTF-8 are quotes and tool calls in UTF-7.

use http::{HeaderMap, header};

/// Whether all readers of the message read UTF-8.
pub(super) fn is_utf8(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_TYPE).iter().all(|value| {
        let Ok(value) = value.to_str() else { return false };
        value.split([';', ',']).filter_map(charset).all(|name| {
            ["utf-8", "utf8", "us-ascii", "ascii"].iter().any(|known| name.eq_ignore_ascii_case(known))
        })
    })
}

fn charset(parameter: &str) -> Option<&str> {
    let (name, value) = parameter.split_once('=')?;
    // Some name it behind a star (RFC 8187).
    let name = name.trim().trim_end_matches('*');
    name.eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn is_read(values: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::CONTENT_TYPE, HeaderValue::from_static(value));
        }
        is_utf8(&headers)
    }

    #[test]
    fn only_utf_8_is_read() {
        for fine in
            ["application/json", "a/b; charset=UTF-8", "a/b;v=1; Charset=\"utf-8\"", "a/b; charset = utf8"]
        {
            assert!(is_read(&[fine]), "{fine}");
        }
        for other in
            ["a/b; charset=utf-7", "a/b;charset='utf-16'", "a/b;charset*=utf-7", "a/b, c/d; charset=gbk"]
        {
            assert!(!is_read(&[other]), "{other}");
        }
        assert!(is_read(&[]) && !is_read(&["a/b", "a/b; charset=utf-7"]));
    }
}
