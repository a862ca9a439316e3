use super::*;

fn authenticator() -> Authenticator {
    let mut settings = Settings::new(Secret::new("open-sesame".to_owned()));
    settings.agents.insert(AgentId::new("coder"), Secret::new("coder-token".to_owned()));
    settings.hosts.push("Gate.Internal".to_owned());
    Authenticator::new(&settings)
}

#[test]
fn pages_come_from_where_they_ask() {
    let mut settings = Settings::new(Secret::new("open-sesame".to_owned()));
    settings.listen = "192.0.2.1:80".parse().unwrap();
    settings.hosts.push("Gate.Internal".to_owned());
    let authenticator = Authenticator::new(&settings);
    for (host, origin, is_known) in [
        ("gate.example:8080", "http://gate.example:8080", true),
        ("gate.example:8080", "http://Gate.Example:8080", true),
        ("gate.example:8080", "https://gate.internal", true),
        ("gate.example:8080", "http://evil.example:8080", false),
        ("gate.example:8080", "http://gate.example:1", false),
        ("gate.example:8080", "http://localhost:8080", false),
        ("gate.example:8080", "null", false),
    ] {
        let headers = request("/", &[("host", host), ("origin", origin)]).headers;
        assert_eq!(authenticator.knows_origin(&headers), is_known, "{origin}");
    }
    assert!(authenticator.knows_origin(&request("/", &[("host", "gate.example")]).headers), "no page asks");
}

#[test]
fn what_is_for_operators_is_asked_for_alone() {
    for spelt in ["/-/x", "/-", "//-/x", "/./-/x", "/%2d/x", "/%2D", "/-;a/x", "/-?x", "/-/", "/%2e/-/x"] {
        for front in ["", "/t/open-sesame", "/a/me", "/p/here", "/p/here/a/me", "/t/wrong"] {
            let asked = authenticate(&format!("{front}{spelt}"), &[("x-backstop-token", "open-sesame")]);
            assert_eq!(asked, Err(AuthError::ForOperators), "{front}{spelt}");
        }
    }
    for other in ["/v1/-/x", "/--/x", "/-x", "/x/-", "/v1/x?/-/"] {
        assert_eq!(authenticate(other, &[("x-backstop-token", "open-sesame")]), anonymous(other));
    }
}

#[test]
fn operators_are_asked_under_no_name_that_a_page_can_have() {
    let known = |listen: &str, host: &str| {
        let mut settings = Settings::new(Secret::new("open-sesame".to_owned()));
        settings.listen = listen.parse().unwrap();
        settings.hosts.push("Gate.Internal".to_owned());
        Authenticator::new(&settings).knows_operators_host(&request("/-/ready", &[("host", host)]))
    };
    for listen in ["127.0.0.1:80", "0.0.0.0:80", "[::]:80"] {
        for host in ["localhost:80", "a.localhost", "127.0.0.1", "[::1]:80", "gate.internal:1"] {
            assert!(known(listen, host), "{host} at {listen}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "", "192.0.2.1.", "1.evil"] {
            assert!(!known(listen, host), "{host} at {listen}");
        }
        assert_eq!(known(listen, "192.0.2.1:80"), listen != "127.0.0.1:80");
        assert_eq!(known(listen, "[2001:db8::1]"), listen != "127.0.0.1:80");
    }
}

#[test]
fn the_token_of_operators_opens_nothing_and_never_leaves() {
    let mut settings = Settings::new(Secret::new("open-sesame".to_owned()));
    settings.operator_token = Some(Secret::new("watch-sesame".to_owned()));
    let authenticator = Authenticator::new(&settings);
    let asked = |path: &str, headers: &[(&str, &str)]| {
        authenticator.authenticate(&request(path, headers)).map(|caller| caller.target.to_string())
    };
    assert_eq!(asked("/v1/x", &[("authorization", "Bearer watch-sesame")]), Err(AuthError::Token));
    assert_eq!(asked("/t/watch-sesame/v1/x", &[]), Err(AuthError::Token));
    assert_eq!(asked("/t/open-sesame/v1/x?a=watch-sesame", &[]), Ok("/v1/x".to_owned()));
    let value = HeaderValue::from_static("Bearer watch-sesame");
    assert!(authenticator.must_strip(&header::AUTHORIZATION, &value));
}

fn request(path: &str, headers: &[(&str, &str)]) -> request::Parts {
    let mut request = http::Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "127.0.0.1:80");
    }
    request.body(()).unwrap().into_parts().0
}

fn authenticate(
    path: &str,
    headers: &[(&str, &str)],
) -> Result<(Option<String>, Option<String>, String), AuthError> {
    let caller = authenticator().authenticate(&request(path, headers))?;
    let agent = caller.agent.map(|agent| agent.as_str().to_owned());
    Ok((agent, caller.provider, caller.target.to_string()))
}

fn anonymous(target: &str) -> Result<(Option<String>, Option<String>, String), AuthError> {
    Ok((None, None, target.to_owned()))
}

#[test]
fn a_token_opens_in_each_of_its_places() {
    let path = "/v1/messages?beta=true";
    for header in [
        ("authorization", "Bearer open-sesame"),
        ("authorization", "bearer open-sesame"),
        ("x-api-key", "open-sesame"),
        ("x-goog-api-key", "open-sesame"),
        ("api-key", "open-sesame"),
        ("x-backstop-token", "open-sesame"),
    ] {
        assert_eq!(authenticate(path, &[header]), anonymous(path), "{header:?}");
    }
    assert_eq!(authenticate("/t/open-sesame/v1/messages?beta=true", &[]), anonymous(path));
    assert_eq!(authenticate("/v1/x?key=open-sesame", &[]), anonymous("/v1/x"));
    assert_eq!(authenticate("/v1/x?a=b&key=open-sesame&alt=sse", &[]), anonymous("/v1/x?a=b&alt=sse"));
    for query in ["key=sk&key=open-sesame", "k%65y=open-sesame", "$key=open%2Dsesame"] {
        assert_eq!(authenticate(&format!("/v1/x?a=b&{query}"), &[]), anonymous("/v1/x?a=b"), "{query}");
    }
    // A key of the provider in the query is the client's business.
    let target = "/t/open-sesame/v1/x?key=sk";
    assert_eq!(authenticate(target, &[]), anonymous("/v1/x?key=sk"));
}

#[test]
fn nobody_comes_in_without_a_token() {
    for (path, headers) in [
        ("/v1/messages", vec![]),
        ("/v1/messages", vec![("authorization", "Bearer nonsense")]),
        ("/v1/messages", vec![("authorization", "open-sesame")]),
        ("/v1/messages", vec![("x-api-key", "")]),
        ("/v1/messages", vec![("x-api-key", "open-sesam")]),
        ("/t/nonsense/v1/messages", vec![("x-api-key", "open-sesame")]),
        ("/v1/messages", vec![("x-backstop-token", "nonsense"), ("x-api-key", "open-sesame")]),
    ] {
        assert_eq!(authenticate(path, &headers), Err(AuthError::Token), "{path} {headers:?}");
    }
}

#[test]
fn agents_are_told_by_token_or_claimed_with_the_process_token() {
    let agent = |name: &str| Ok((Some(name.to_owned()), None, "/v1/x".to_owned()));
    assert_eq!(authenticate("/v1/x", &[("x-api-key", "coder-token")]), agent("coder"));
    assert_eq!(authenticate("/a/coder/v1/x", &[("x-api-key", "coder-token")]), agent("coder"));
    assert_eq!(authenticate("/a/other/v1/x", &[("x-api-key", "coder-token")]), Err(AuthError::Agent));
    assert_eq!(authenticate("/a/coder/v1/x", &[("x-api-key", "open-sesame")]), Err(AuthError::Agent));
    assert_eq!(authenticate("/t/open-sesame/a/other/v1/x", &[]), agent("other"));
    assert_eq!(authenticate("/a/other/t/open-sesame/v1/x", &[]), agent("other"));
    let header = ("x-backstop-agent", "other");
    assert_eq!(authenticate("/t/open-sesame/v1/x", &[header]), agent("other"));
    assert_eq!(authenticate("/t/open-sesame/a/another/v1/x", &[header]), Err(AuthError::Agent));
    assert_eq!(authenticate("/t/open-sesame/a/%20/v1/x", &[]), Err(AuthError::Agent));
}

#[test]
fn prefixes_leave_and_may_not_repeat() {
    let provider = Ok((None, Some("main".to_owned()), "/v1/x".to_owned()));
    assert_eq!(authenticate("/t/open-sesame/p/main/v1/x", &[]), provider);
    assert_eq!(authenticate("/p/main/v1/x", &[("x-api-key", "open-sesame")]), provider);
    assert_eq!(authenticate("/t/open-sesame", &[]), anonymous("/"));
    assert_eq!(authenticate("/t/open-sesame?x", &[]), anonymous("/?x"));
    for path in ["/t/open-sesame/t/open-sesame/v1/x", "/t//v1/x", "/t/open-sesame/p/"] {
        assert_eq!(authenticate(path, &[]), Err(AuthError::Path), "{path}");
    }
}

#[test]
fn only_names_of_this_machine_are_served() {
    let key = ("x-api-key", "open-sesame");
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:80", "127.9.9.9", "[::1]:80", "gate.internal:8"] {
        assert!(authenticate("/v1/x", &[key, ("host", host)]).is_ok(), "{host}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "10.0.0.1"] {
        assert_eq!(authenticate("/v1/x", &[key, ("host", host)]), Err(AuthError::Host), "{host}");
    }
}

#[test]
fn own_tokens_and_headers_are_never_forwarded() {
    let authenticator = authenticator();
    let must_strip = |name: &'static str, value: &'static str| {
        authenticator.must_strip(&http::HeaderName::from_static(name), &HeaderValue::from_static(value))
    };
    assert!(must_strip("x-backstop-token", "x") && must_strip("x-backstop-agent", "x"));
    assert!(must_strip("x-backstop-session", "x") && must_strip("x-backstop-user", "x"));
    assert!(must_strip("authorization", "Bearer coder-token") && must_strip("x-api-key", "open-sesame"));
    assert!(!must_strip("authorization", "Bearer sk-other") && !must_strip("x-api-key", "sk-other"));
    assert!(!format!("{authenticator:?}").contains("sesame"));
}
