use serde_json::json;

use super::*;

/// RFC 7515, A.2 (RS256) and A.3 (ES256): the same claims.
const CLAIMS: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const RS256: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
const ES256: &str = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

fn rsa() -> Value {
    json!({"kty": "RSA", "kid": "rsa", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"})
}

fn p256() -> Value {
    json!({"kty": "EC", "crv": "P-256", "kid": "p256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})
}

/// RFC 8037, A.2.
fn ed25519() -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})
}

/// Whether the key checks this signature under this algorithm.
fn fits(key: &Value, algorithm: TokenAlgorithm, signed: &str, signature: &str) -> Result<(), Unfit> {
    let (keys, left_out) = Keys::read(json!({"keys": [key]}).to_string().as_bytes()).unwrap();
    assert_eq!(left_out, 0);
    keys.check(key["kid"].as_str(), algorithm, signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
}

/// The published examples, and two that OpenSSL signed (PS256 with the key of the tests of Google's accounts, ES384).
#[test]
fn published_signatures_fit_their_keys_and_no_other_algorithm() {
    let rs256 = format!("eyJhbGciOiJSUzI1NiJ9.{CLAIMS}");
    let es256 = format!("eyJhbGciOiJFUzI1NiJ9.{CLAIMS}");
    let ed = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc".to_owned();
    let ed_signature =
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let other = json!({"kty": "RSA", "kid": "other", "e": "AQAB", "n": "qiAGc57tOZ4Rs832CfATrhMOPquenVolM3a8mPq-m_6nGizoNvxUhdVRjPGmMr1ZOVYiq2PO0WXco0GDgBroXsDw77sEsURNheVqidw3aPTJE18G95wCe49QWauzOAR--CbcM4VgFN-eK9cYS_gitZAedMFfu392Yj5O6GN9lAoMYfj-CzISSL1J2741P47tsHRLlyHA4Jtf1Pv1t4mRiM-5iVf_OdTSvi4W0eZoz8PQ_NNnlzacUvpZjQLzwVVqE9PIyUrJ_7cUee2MQ83Fbew8HTktymH1EDLj-wpSWzf5J76GWHMh-bhadCezEW7uxXFuAQTbowwCOCV3Z-f6iQ"});
    let ps256 = "jXz1mT4vrYQHTO3npgh18caCFzMFppRkcGX4IbtvyVFNIujhGTMKJ6bwZTphPD03atesiw5ID2w6937_xxsuX34T8wYIohrszGrzUvI9paa8hVGqEPbtvW5q6UEUF5z4MlRVlen4tJOff4jScUkiq7q9UpnHV_t1sKPdjjQQtrHKrWhkVAx55dmP6toYlzFE2lIonjjWKyO3hjl_Wc-zc_REdnVyoKXGCoO2pwcnezpOiSWnn45fYWGgosSeGyxQSvIKhGyc_9JK_IajeHACaUdp5PK0ZpjtjAX6fIaazc_vcrkDSwFlnQkpE-EJzrYvwF4v8T_PEUibQFoRWx8zNw";
    let p384 = json!({"kty": "EC", "crv": "P-384", "kid": "p384", "x": "0Z60ePs-4cQP2zn-BW_TRcd7vf3f_b5-CMm8A9NWbqs7HX6QsmS9wWUgc97VwJKb", "y": "fJRYm2KAsrGPynLvd99ngCYvttSwIWYXz8kNV1vFCCZp9xaIbrHpzsYvCddNWZfO"});
    let es384 = "dG9-n3YXIhhPUNtVtbGH0C590mXbWzwlQUviTbozr7jMrVIdDeP51UsFMnrNqrOWfdYcG4zamg4W3K9NrNy28snAb20jK66eMu6hoWOOg1gAdOhATvEXwkSZBiZuf-aF";
    let cases = [
        (rsa(), TokenAlgorithm::Rs256, rs256, RS256),
        (p256(), TokenAlgorithm::Es256, es256, ES256),
        (ed25519(), TokenAlgorithm::EdDsa, ed, ed_signature),
        (other, TokenAlgorithm::Ps256, "eyJhbGciOiJQUzI1NiJ9.eyJpc3MiOiJqb2UifQ".to_owned(), ps256),
        (p384, TokenAlgorithm::Es384, "eyJhbGciOiJFUzM4NCJ9.eyJpc3MiOiJqb2UifQ".to_owned(), es384),
    ];
    for (key, algorithm, signed, signature) in &cases {
        assert_eq!(fits(key, *algorithm, signed, signature), Ok(()), "{algorithm:?}");
        for another in TokenAlgorithm::ALL.into_iter().filter(|another| another != algorithm) {
            assert!(fits(key, another, signed, signature).is_err(), "{algorithm:?} as {another:?}");
        }
        // One bit of what was signed, or of the signature.
        let flipped = signed.replacen("eyJ", "eyI", 1);
        assert_eq!(fits(key, *algorithm, &flipped, signature), Err(Unfit::Signature));
        let mut bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
        bytes[7] ^= 1;
        assert_eq!(fits(key, *algorithm, signed, &URL_SAFE_NO_PAD.encode(bytes)), Err(Unfit::Signature));
        assert_eq!(fits(key, *algorithm, signed, ""), Err(Unfit::Signature));
    }
}

#[test]
fn keys_that_can_not_check_signatures_are_left_out() {
    let with = |name: &str, value: Value| {
        let mut key = p256();
        key[name] = value;
        key
    };
    let bad = [
        json!({"kty": "oct", "kid": "s", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T"}),
        with("d", json!("jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI")),
        with("use", json!("enc")),
        with("key_ops", json!(["encrypt"])),
        with("key_ops", json!("verify")),
        with("alg", json!("HS256")),
        with("alg", json!("RS256")),
        with("alg", json!(["ES256"])),
        with("crv", json!("secp256k1")),
        with("kid", json!(7)),
        with("kid", json!("x".repeat(257))),
        with("x", json!("AA")),
        with("kty", json!("RSA")),
        json!({"kty": "OKP", "crv": "X25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}),
    ];
    for key in bad {
        let set = json!({"keys": [key, ed25519()]}).to_string();
        let (keys, left_out) = Keys::read(set.as_bytes()).unwrap();
        assert_eq!((keys.0.len(), left_out), (1, 1), "{key}");
        let (keys, left_out) = Keys::read(json!({"keys": [key]}).to_string().as_bytes()).unwrap();
        assert!(keys.is_empty() && left_out == 1 && !keys.knows(None) && !keys.knows(Some("k1")));
    }
    for key in [with("use", json!("sig")), with("key_ops", json!(["verify"])), with("alg", json!("ES256"))] {
        assert!(Keys::read(json!({"keys": [key]}).to_string().as_bytes()).is_ok());
    }
}

#[test]
fn sets_are_bounded_and_read_in_one_way() {
    for text in [
        "",
        "[]",
        "{}",
        r#"{"keys":{}}"#,
        r#"{"keys":[],"keys":[]}"#,
        r#"{"keys":[{"kty":"EC","kty":"RSA"}]}"#,
    ] {
        assert_eq!(Keys::read(text.as_bytes()).unwrap_err(), NoKeys::Form, "{text}");
    }
    let many = |count| json!({"keys": vec![p256(); count]}).to_string();
    assert!(Keys::read(many(MOST_KEYS).as_bytes()).is_ok());
    assert_eq!(Keys::read(many(MOST_KEYS + 1).as_bytes()).unwrap_err(), NoKeys::TooMany);
}

#[test]
fn a_token_without_the_id_of_a_key_needs_a_single_one() {
    let signed = format!("eyJhbGciOiJFUzI1NiJ9.{CLAIMS}");
    let signature = URL_SAFE_NO_PAD.decode(ES256).unwrap();
    let check = |keys: Value, id| {
        let (keys, _) = Keys::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap();
        keys.check(id, TokenAlgorithm::Es256, signed.as_bytes(), &signature)
    };
    let mut second = p256();
    second["kid"] = json!("second");
    assert_eq!(check(json!([p256()]), None), Ok(()));
    assert_eq!(check(json!([p256(), rsa()]), None), Ok(()), "the other has another algorithm");
    assert_eq!(check(json!([p256(), second]), None), Err(Unfit::Unnamed));
    assert_eq!(check(json!([p256(), second]), Some("second")), Ok(()));
    assert_eq!(check(json!([p256()]), Some("third")), Err(Unfit::Unknown));
    assert_eq!(check(json!([rsa()]), Some("rsa")), Err(Unfit::Algorithm));
}
