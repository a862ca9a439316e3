//! By which transport a request came in, and whether a page of ours sent it.
//!
//! A cookie knows no port: whatever listens at another port of the same host is sent it by the browser, and an agent can listen at one. Under TLS
//! that is so only of names that lead to this machine alone, which browsers trust in the clear, too: by those there is no console. In the clear, on this machine, the console has therefore a *name of its own* for whoever opens it: `console-` and 128
//! random bits, below `.localhost`, which browsers take for this machine themselves. Cookies are that name's alone, and no other
//! page knows it.
//!
//! A program of the same user reads that name in the browser's history, and can open another port by it. A session in the clear therefore has a
//! *key* besides its cookie, as the password of HTTP authentication (RFC 7617): browsers keep that for one origin, which has a port, and in memory only. The
//! script hands it over ([`KEY_PATH`]); without it, the person types it into what the browser asks.

use backstop_console::ROOT;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::{HeaderMap, header};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::auth::{asked_host, without_port};

/// The bytes of a name of the console's own.
const NAME_BYTES: usize = 16;
const BEFORE_NAME: &str = "console-";
const BEHIND_NAME: &str = ".localhost";
/// Where browsers are asked for the key of a session, below the root: they then send it to whatever is beside it.
pub(super) const KEY_PATH: &str = "key";
/// How they are asked.
pub(super) const CHALLENGE: &str = "Basic realm=\"Backstop console\"";
/// What stands before the key, as the name of a user, which is nobody's.
const BEFORE_KEY: &str = "console:";

/// How a request reached the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// By TLS, ours or that of somebody in front.
    Secure,
    /// In the clear on this machine, by a name of the console's own.
    Own,
}

/// Where a request should have gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// To this address, which has a name of its own.
    Name(String),
    /// To where there is TLS.
    Clear,
    /// To a name that does not lead to this machine alone.
    Named,
    /// Nowhere: somebody else may be found by names of this machine.
    Taken,
}

impl Transport {
    /// `holds_names` says that names below `.localhost` lead nowhere but here.
    pub(super) fn of(head: &Parts, has_tls: bool, holds_names: bool) -> Result<Self, Elsewhere> {
        let authority = asked_host(head).unwrap_or_default();
        let host = without_port(authority).to_ascii_lowercase();
        let is_loopback = host == "localhost"
            || host.ends_with(BEHIND_NAME)
            || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        if has_tls {
            return if is_loopback { Err(Elsewhere::Named) } else { Ok(Self::Secure) };
        }
        if is_loopback && !holds_names {
            return Err(Elsewhere::Taken);
        }
        if is_own_name(&host) {
            return Ok(Self::Own);
        }
        if !is_loopback {
            // Browsers say where a request is from only where they trust the connection: then somebody in front has TLS.
            return if fetch_site(&head.headers).is_some() {
                Ok(Self::Secure)
            } else {
                Err(Elsewhere::Clear)
            };
        }
        let port = authority.strip_prefix(without_port(authority)).unwrap_or_default();
        let target = head.uri.path_and_query().map_or(ROOT, http::uri::PathAndQuery::as_str);
        let name = random::<NAME_BYTES>().ok_or(Elsewhere::Clear)?;
        Err(Elsewhere::Name(format!("http://{BEFORE_NAME}{name}{BEHIND_NAME}{port}{target}")))
    }

    /// The name of the cookie here. By its beginning, browsers let nobody set it in the clear or from another host.
    pub(super) const fn cookie(self) -> &'static str {
        match self {
            Self::Secure => "__Host-backstop",
            Self::Own => "backstop",
        }
    }

    /// What stands behind the value of the cookie.
    pub(super) const fn attributes(self) -> &'static str {
        match self {
            Self::Secure => "Path=/; HttpOnly; SameSite=Strict; Secure",
            Self::Own => "Path=/-/console; HttpOnly; SameSite=Strict",
        }
    }
}

fn is_own_name(host: &str) -> bool {
    let name = host.strip_prefix(BEFORE_NAME).and_then(|rest| rest.strip_suffix(BEHIND_NAME));
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.is_some_and(|name| name.len() == 2 * NAME_BYTES && name.bytes().all(is_hex))
}

/// Returns random bytes as hex digits.
pub(super) fn random<const BYTES: usize>() -> Option<String> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What the browser says of whose page sent a request.
pub(super) fn fetch_site(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get("sec-fetch-site").map(http::HeaderValue::as_bytes)
}

/// Returns whether a browser says that a page of another origin had it send a request, such as one at another port of this name. A link there that a
/// person follows counts as that, too.
pub(super) fn is_of_another_page(headers: &HeaderMap) -> bool {
    fetch_site(headers).is_some_and(|site| !matches!(site, b"same-origin" | b"none"))
}

/// Returns whether a page of this very origin sent a request. Whoever says nothing of it did not.
pub(super) fn is_own(head: &Parts, transport: Transport) -> bool {
    let headers = &head.headers;
    let mut said = headers.get_all("sec-fetch-site").iter();
    match (said.next(), said.next()) {
        (Some(site), None) => site == "same-origin",
        (Some(_), Some(_)) => false,
        (None, _) => {
            let mut origins = headers.get_all(header::ORIGIN).iter();
            let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
            let scheme = if transport == Transport::Secure { "https" } else { "http" };
            asked_host(head).is_some_and(|host| {
                let own = format!("{scheme}://{host}");
                origin.as_bytes().eq_ignore_ascii_case(own.as_bytes())
            })
        }
    }
}

/// Returns the cookie of a session.
pub(super) fn cookie(headers: &HeaderMap, transport: Transport) -> Option<String> {
    cookie_named(headers, transport.cookie())
}

/// Returns a cookie. Of two, nobody knows which is meant.
pub(super) fn cookie_named(headers: &HeaderMap, named: &str) -> Option<String> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs = texts.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut own = pairs.filter(|(name, _)| *name == named).map(|(_, value)| value);
    own.next().filter(|_| own.next().is_none()).map(str::to_owned)
}

/// Returns all that a browser shows of a session: its cookie and, in the clear, its key.
pub(super) fn shown(headers: &HeaderMap, transport: Transport) -> Option<String> {
    let cookie = cookie(headers, transport)?;
    match transport {
        Transport::Secure => Some(cookie),
        Transport::Own => Some(together(&cookie, &key(headers)?)),
    }
}

/// What is shown of a session that has a key.
pub(super) fn together(cookie: &str, key: &str) -> String {
    format!("{cookie} {key}")
}

/// Returns the key of a session.
fn key(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (all.next(), all.next()) else { return None };
    let (scheme, given) = one.to_str().ok()?.split_once(' ')?;
    let given = STANDARD.decode(given.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    String::from_utf8(given).ok()?.strip_prefix(BEFORE_KEY).map(str::to_owned)
}

/// Returns whether one may be led there after signing in: a page of the console, written plainly.
pub(super) fn is_destination(address: &str) -> bool {
    let path = address.split('?').next().unwrap_or_default();
    address.len() <= 512
        && super::is_below(path)
        && !path.split('/').any(|part| matches!(part, "." | ".."))
        && address.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\#\"'<>".contains(&byte))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(host: &str, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::post("/-/console/x?y=1").header("host", host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn in_the_clear_the_console_has_a_name_of_its_own() {
        let name = "console-0123456789abcdef0123456789abcdef.localhost";
        assert_eq!(Transport::of(&head(&format!("{name}:8484"), &[]), false, true), Ok(Transport::Own));
        for host in
            ["localhost:8484", "127.0.0.1:8484", "[::1]:8484", "x.localhost:8484", "console-.localhost:8484"]
        {
            let Err(Elsewhere::Name(address)) = Transport::of(&head(host, &[]), false, true) else {
                panic!("{host}")
            };
            let (name, target) = address.strip_prefix("http://").unwrap().split_once(':').unwrap();
            assert!(is_own_name(name), "{address}");
            assert_eq!(target, "8484/-/console/x?y=1");
        }
        assert_eq!(Transport::of(&head("10.0.0.7:8484", &[]), false, true), Err(Elsewhere::Clear));
        let trusted = [("sec-fetch-site", "none")];
        assert_eq!(Transport::of(&head("console.example", &trusted), false, false), Ok(Transport::Secure));
        assert_eq!(Transport::of(&head("console.example", &[]), true, false), Ok(Transport::Secure));
        for host in ["127.0.0.1:8484", "localhost", "[::1]:8484", &format!("{name}:8484")] {
            assert_eq!(Transport::of(&head(host, &[]), true, true), Err(Elsewhere::Named), "{host}");
            assert_eq!(Transport::of(&head(host, &[]), false, false), Err(Elsewhere::Taken), "{host}");
        }
    }

    #[test]
    fn only_pages_of_this_origin_are_ours() {
        let own = "http://h.localhost:1";
        for (headers, is_ours) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "same-origin"), ("origin", "null")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", own)], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], false),
            (&[("origin", own)], true),
            (&[("origin", "https://h.localhost:1")], false),
            (&[("origin", "http://h.localhost:2")], false),
            (&[("origin", "null")], false),
            (&[], false),
        ] {
            assert_eq!(is_own(&head("h.localhost:1", headers), Transport::Own), is_ours, "{headers:?}");
        }
    }

    #[test]
    fn what_pages_of_others_have_a_browser_ask_is_nothing_that_a_person_does() {
        for (site, is_theirs) in [
            (Some("same-site"), true),
            (Some("cross-site"), true),
            (Some("what is new"), true),
            (Some("same-origin"), false),
            (Some("none"), false),
            (None, false),
        ] {
            let headers: Vec<_> = site.map(|site| ("sec-fetch-site", site)).into_iter().collect();
            assert_eq!(is_of_another_page(&head("h", &headers).headers), is_theirs, "{site:?}");
        }
    }

    #[test]
    fn a_cookie_counts_by_its_whole_name_and_alone() {
        for (cookies, found) in [
            (&["backstop=a"][..], Some("a")),
            (&["x=1; backstop=a; y=2"], Some("a")),
            (&["backstop=a; backstop=b"], None),
            (&["backstop=a", "backstop=b"], None),
            (&["xbackstop=a", "__Host-backstop=b", "backstop"], None),
        ] {
            let headers: Vec<_> = cookies.iter().map(|cookie| ("cookie", *cookie)).collect();
            assert_eq!(cookie(&head("h", &headers).headers, Transport::Own).as_deref(), found, "{cookies:?}");
        }
    }

    #[test]
    fn in_the_clear_a_session_is_its_cookie_and_its_key() {
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let of = |authorizations: &[String], transport: Transport| {
            let headers = authorizations.iter().map(|one| ("authorization", one.as_str()));
            let both = [("cookie", "backstop=a"), ("cookie", "__Host-backstop=b")].into_iter().chain(headers);
            shown(&head("h", &both.collect::<Vec<_>>()).headers, transport)
        };
        assert_eq!(of(&[basic("console:k")], Transport::Own).as_deref(), Some("a k"));
        assert_eq!(of(&[], Transport::Secure).as_deref(), Some("b"));
        for wrong in [
            vec![],
            vec![basic("console:k"), basic("console:k")],
            vec![basic("other:k")],
            vec![basic("k")],
            vec!["Basic !".to_owned()],
            vec![basic("console:k").replace("Basic", "Bearer")],
        ] {
            assert_eq!(of(&wrong, Transport::Own), None, "{wrong:?}");
        }
    }

    #[test]
    fn nobody_is_led_elsewhere() {
        for address in ["/-/console", "/-/console/approvals/x", "/-/console/audit?text=a%20b&kind=c"] {
            assert!(is_destination(address), "{address}");
        }
        for address in [
            "//evil.example",
            "/-/consolex",
            "https://evil.example/-/console",
            "/-/console/../v1",
            "/-/console/\\evil",
            "",
        ] {
            assert!(!is_destination(address), "{address}");
        }
    }
}
