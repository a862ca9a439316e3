use backstop_hooks::AgentId;
use serde_json::json;

use super::*;

const NOW: i64 = 1_800_000_000;

fn issuer() -> TokenIssuer {
    let mut issuer = TokenIssuer::new("https://login.example", "backstop");
    issuer.agent_claim = Some("azp".to_owned());
    issuer.agents.insert("client-1".to_owned(), AgentId::new("ci"));
    issuer.user_claim = Some("sub".to_owned());
    issuer.required.insert("groups".to_owned(), json!("models"));
    issuer
}

fn claims() -> Value {
    json!({
        "iss": "https://login.example", "aud": "backstop", "exp": NOW + 300, "iat": NOW - 5, "nbf": NOW - 5,
        "azp": "client-1", "sub": "alice", "groups": ["other", "models"],
    })
}

fn encoded(head: &str, claims: &str) -> String {
    format!("{}.{}.AA", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims))
}

fn said(issuer: &TokenIssuer, claims: &Value) -> Result<Said, Refused> {
    let text = encoded(r#"{"alg":"ES256","kid":"k"}"#, &claims.to_string());
    assert!(is_one(text.as_bytes()));
    Token::read(text.as_bytes())?.said(issuer, NOW)
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

#[test]
fn what_a_token_says_follows_from_its_claims() {
    let expected =
        Said { agent: Some(AgentId::new("ci")), user: Some("alice".to_owned()), ends_at: NOW + 360 };
    for claims in [
        claims(),
        without("nbf"),
        without("iat"),
        with("groups", json!("models")),
        with("aud", json!(["backstop"])),
        with("exp", json!(NOW as f64 + 300.75)),
        with("nbf", json!(NOW + 60)),
        with("more", json!({"nested": ["x"]})),
    ] {
        assert_eq!(said(&issuer(), &claims), Ok(expected.clone()), "{claims}");
    }
}

#[test]
fn every_claim_is_needed_in_its_type_and_value() {
    let cases = [
        (without("iss"), Refused::Issuer),
        (with("iss", json!("https://login.example/")), Refused::Issuer),
        (with("iss", json!(["https://login.example"])), Refused::Issuer),
        (without("aud"), Refused::Audience),
        (with("aud", json!("other")), Refused::Audience),
        (with("aud", json!([])), Refused::Audience),
        (with("aud", json!(["backstop", 7])), Refused::Audience),
        (with("aud", json!({"backstop": true})), Refused::Audience),
        (with("aud", json!(null)), Refused::Audience),
        (without("exp"), Refused::NoEnd),
        (with("exp", json!((NOW + 300).to_string())), Refused::Form),
        (with("exp", json!(null)), Refused::Form),
        (with("exp", json!(true)), Refused::Form),
        (with("exp", json!(-1)), Refused::Form),
        (with("exp", json!(1e300)), Refused::Form),
        (with("exp", json!(u64::MAX)), Refused::Form),
        (with("exp", json!(NOW - 60)), Refused::Expired),
        (with("nbf", json!(NOW + 61)), Refused::Early),
        (with("nbf", json!("0")), Refused::Form),
        (with("nbf", json!(1.5e17)), Refused::Form),
        (with("iat", json!(1.5e300)), Refused::Form),
        (with("iat", json!(NOW + 61)), Refused::Early),
        (with("iat", json!([NOW])), Refused::Form),
        (with("azp", json!(7)), Refused::Form),
        (with("azp", json!("client-2")), Refused::Agent),
        (without("azp"), Refused::NoName),
        (with("sub", json!(7)), Refused::NoName),
        (with("sub", json!("")), Refused::NoName),
        (with("sub", json!("a\nb")), Refused::NoName),
        (with("sub", json!("x".repeat(257))), Refused::NoName),
        (without("groups"), Refused::Required),
        (with("groups", json!(["other"])), Refused::Required),
        (with("groups", json!([["models"]])), Refused::Required),
        (with("groups", json!("models ")), Refused::Required),
    ];
    for (claims, refused) in cases {
        assert_eq!(said(&issuer(), &claims), Err(refused), "{claims}");
    }
    // The moments of the leeway itself.
    assert!(said(&issuer(), &with("exp", json!(NOW - 59))).is_ok());
}

#[test]
fn whoever_asked_for_a_token_for_several_is_part_of_whom_it_is_for() {
    let several = with("aud", json!(["backstop", "mail"]));
    assert_eq!(said(&issuer(), &several), Err(Refused::Party), "client-1 is none of our audiences");
    let mut ours = issuer();
    ours.authorized_parties = vec!["client-1".to_owned()];
    assert!(said(&ours, &several).is_ok());
    ours.authorized_parties = vec!["client-9".to_owned()];
    assert_eq!(said(&ours, &several), Err(Refused::Party));
    assert_eq!(said(&ours, &claims()), Err(Refused::Party), "with a list, one audience changes nothing");
    let mut users = issuer();
    (users.agent_claim, users.audiences) = (None, vec!["backstop".to_owned(), "app".to_owned()]);
    users.agents.clear();
    let mut claims = several;
    claims["azp"] = json!("app");
    assert!(said(&users, &claims).is_ok());
    claims.as_object_mut().unwrap().remove("azp");
    assert_eq!(said(&users, &claims), Err(Refused::Party));
}

#[test]
fn heads_are_read_strictly() {
    let good = claims().to_string();
    let refused = |head: &str, claims: &str| Token::read(encoded(head, claims).as_bytes()).err();
    for kind in ["JWT", "jwt", "at+jwt", "application/at+JWT"] {
        assert_eq!(refused(&format!(r#"{{"alg":"RS256","typ":"{kind}"}}"#), &good), None, "{kind}");
    }
    for (head, expected) in [
        (r#"{"alg":"ES256","crit":["exp"],"exp":1}"#, Refused::Critical),
        (r#"{"alg":"ES256","crit":[]}"#, Refused::Critical),
        (r#"{"alg":"ES256","b64":false,"crit":["b64"]}"#, Refused::Critical),
        (r#"{"alg":"ES256","typ":"logout+jwt"}"#, Refused::Kind),
        (r#"{"alg":"ES256","cty":"JWT"}"#, Refused::Kind),
        (r#"{"alg":"dir","enc":"A128GCM"}"#, Refused::Kind),
        (r#"{"alg":"ES256","typ":7}"#, Refused::Form),
        (r#"{"alg":["ES256"]}"#, Refused::Form),
        (r#"{"alg":"ES256","kid":7}"#, Refused::Form),
        (r#"{"alg":"ES256","alg":"none"}"#, Refused::Form),
        (r#"{"kid":"k"}"#, Refused::Form),
        (r#"["ES256"]"#, Refused::Form),
    ] {
        assert_eq!(refused(head, &good), Some(expected), "{head}");
    }
    let twice = r#"{"iss":"https://login.example","iss":"https://other.example"}"#;
    let nested = r#"{"a":{"b":[{"c":1,"c":2}]}}"#;
    for claims in [twice, nested, "{", "null", "{}x"] {
        assert_eq!(refused(r#"{"alg":"ES256"}"#, claims), Some(Refused::Form), "{claims}");
    }
    let mut long = claims();
    long["more"] = json!("x".repeat(LONGEST));
    assert_eq!(refused(r#"{"alg":"ES256"}"#, &long.to_string()), Some(Refused::TooLong));
    for alg in ["none", "None", "HS256", "hs256", "RS1", "es256", ""] {
        let text = encoded(&format!(r#"{{"alg":"{alg}"}}"#), &good);
        assert_eq!(Token::read(text.as_bytes()).unwrap().algorithm, None, "{alg}");
    }
}

#[test]
fn only_three_parts_of_letters_are_a_token() {
    let one = encoded(r#"{"alg":"ES256"}"#, "{}");
    assert!(is_one(one.as_bytes()));
    for other in [
        format!("{one}.AA"),
        format!("{one}=="),
        format!(" {one}"),
        format!("{one}\n"),
        "e..".replace("..", "."),
    ] {
        assert!(!is_one(other.as_bytes()), "{other}");
    }
    let ours = |claims: &Map<String, Value>| claims.contains_key("iss");
    let held = encoded("{}", r#"{"iss":1}"#);
    for text in [held.clone(), format!("a={held}; b"), format!("x/{held}?y"), format!("x.{held}.y")] {
        assert!(any_in(text.as_bytes(), ours), "{text}");
    }
    assert!(!any_in(b"a.b.c", ours));
}
