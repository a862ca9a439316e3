//! What a client could say in one place to be understood in another, or to be paid for by somebody else.

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Cloud, Credential, Family, Settings};
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome};
use serde_json::{Value, json};

use super::frames::{bytes, events, read};
use super::{body, in_cloud, line};
use crate::inspect::support::House;
use crate::support::{
    EVENTS_HEAD, End, Script, Upstream, chunk, gateway, post, provider, secret, settings, start, talk,
};

const DEPLOYMENT: &str = "/openai/deployments/large/chat/completions?api-version=2024-10-21";
const INVOKE: &str = "/model/m/invoke";
const STREAM: &str = "/model/m/invoke-with-response-stream";
const PUBLISHERS: &str = "/v1/projects/theirs/locations/us-east5/publishers";

async fn answering() -> Upstream {
    Upstream::start(|_| Script::json("200 OK", "{}")).await
}

fn bedrock() -> Cloud {
    Cloud::Bedrock { region: "us-east-1".to_owned() }
}

fn vertex() -> Cloud {
    Cloud::Vertex { project: "ours".to_owned(), region: "us-east5".to_owned() }
}

fn azure() -> Cloud {
    Cloud::Azure { api_version: None }
}

/// Settings whose providers are in no cloud, and have a key of their own.
fn at_makers(upstream: &Upstream) -> Settings {
    let mut settings = settings(upstream);
    for family in Family::ALL {
        let own = provider(family, &upstream.url(), Credential::Key(secret("maker-key")));
        settings.providers.insert(family.as_str().to_owned(), own);
    }
    settings
}

fn with(request: &str, header: &str) -> String {
    request.replacen("host: localhost", &format!("host: localhost\r\n{header}"), 1)
}

/// An address that two readers could take for two models is asked of nobody.
#[tokio::test]
async fn an_address_names_one_model_of_gemini() {
    let upstream = answering().await;
    for cloud in [Some(vertex()), None] {
        let mut settings = at_makers(&upstream);
        let gemini = settings.providers.get_mut("gemini").unwrap();
        gemini.models = vec!["cheap".to_owned()];
        gemini.cloud = cloud;
        let gateway = gateway(settings).await;
        for path in [
            "/v1beta/models/cheap/large:generateContent",
            "/v1beta/Model%73/cheap/large:streamGenerateContent",
            "/v1beta/models/large/models/cheap:generateContent",
            "/v1/projects/ours/locations/us-east5/models/cheap/large:generateContent",
        ] {
            let answer = talk(&gateway, post(path, "{}")).await;
            assert_eq!(answer.status(), 403, "{path}: {}", answer.text());
        }
    }
    assert_eq!(upstream.count(), 0);
    let gateway = gateway(in_cloud(&upstream, &vertex(), &[Family::Gemini])).await;
    for path in ["/x/y/models/cheap:generateContent", "/v1beta/tunedModels/cheap:generateContent"] {
        assert_eq!(talk(&gateway, post(path, "{}")).await.status(), 400, "{path}");
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn an_object_of_countless_fields_is_refused() {
    let upstream = answering().await;
    let fields: Vec<String> = (0..600).map(|number| format!("\"{number}\":0")).collect();
    let large = format!("{{\"model\":\"small\",{}}}", fields.join(","));
    let mut settings = in_cloud(&upstream, &azure(), &[Family::OpenAi]);
    settings.providers.get_mut("openai").unwrap().models = vec!["small".to_owned(), "large".to_owned()];
    let gateway = gateway(settings).await;
    for path in [INVOKE, DEPLOYMENT] {
        let answer = talk(&gateway, post(path, &large)).await;
        assert!(answer.status() == 400 && answer.text().contains("512 fields"), "{}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn azures_credentials_go_to_azure_and_those_of_others_do_not() {
    let upstream = answering().await;
    let to_maker = gateway(settings(&upstream)).await;
    let mut at_azure = in_cloud(&upstream, &azure(), &[Family::OpenAi]);
    at_azure.providers.get_mut("openai").unwrap().credential = Credential::Client;
    let to_azure = gateway(at_azure).await;
    let chat = r#"{"model":"large","messages":[]}"#;
    for header in ["api-key: mine", "authorization: Bearer mine", "x-api-key: mine"] {
        for path in [DEPLOYMENT, "/openai/responses?api-version=1", "/v1/responses?a&api%2Dversion=1"] {
            let answer = talk(&to_maker, with(&post(path, chat), header)).await;
            assert_eq!(answer.status(), 400, "{path} {header}");
            assert!(answer.text().contains("no credentials of its own"), "{}", answer.text());
        }
        let answer = talk(&to_azure, with(&post("/v1/chat/completions", chat), header)).await;
        assert_eq!(answer.status(), 400, "{header}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
    for path in [DEPLOYMENT, "/openai/v1/chat/completions"] {
        assert_eq!(talk(&to_azure, with(&post(path, chat), "api-key: mine")).await.status(), 200, "{path}");
        assert!(upstream.request(upstream.count() - 1).contains("\r\napi-key: mine\r\n"));
    }
    // Servers of no cloud have this address, too.
    let request = with(&post("/openai/v1/chat/completions", chat), "authorization: Bearer mine");
    assert_eq!(talk(&to_maker, request).await.status(), 200);
}

#[tokio::test]
async fn other_addresses_of_clouds_go_to_nobody() {
    let upstream = answering().await;
    for settings in
        [settings(&upstream), in_cloud(&upstream, &bedrock(), &[Family::Anthropic]), at_makers(&upstream)]
    {
        let gateway = gateway(settings).await;
        for path in [
            "/model/m/other",
            "/Mode%6c/m/invoke/more",
            "/model/m/async/invoke",
            "/v1/projects/p/locations/l",
            "/v1beta1/projects/p/Locations/l/endpoints/openapi/chat/completions",
            "/projects/p/locations/l/cachedContents",
        ] {
            let answer = talk(&gateway, with(&post(path, "{}"), "authorization: Bearer mine")).await;
            assert_eq!(answer.status(), 403, "{path}: {}", answer.text());
        }
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_signature_for_amazon_goes_to_nobody_else() {
    let upstream = answering().await;
    let gateway = gateway(settings(&upstream)).await;
    for path in ["/v1/messages", "/foundation-models"] {
        for header in ["authorization: AWS4-HMAC-SHA256 mine", "authorization: aws4-ecdsa-p256-sha256 mine"] {
            assert_eq!(talk(&gateway, with(&post(path, "{}"), header)).await.status(), 400, "{path}");
        }
        let presigned = format!("{path}?a=b&X-Amz-Signature=mine");
        assert_eq!(talk(&gateway, post(&presigned, "{}")).await.status(), 400, "{path}");
    }
    assert_eq!(upstream.count(), 0);
    let request = with(&post("/v1/messages", "{}"), "x-amz-security-token: mine\r\nx-api-key: key");
    assert_eq!(talk(&gateway, request).await.status(), 200);
    let sent = upstream.request(0);
    assert!(sent.contains("x-api-key: key") && !sent.contains("mine"), "{sent}");
}

/// A header in which Azure takes another deployment, of which no list, budget or hook would know.
#[tokio::test]
async fn a_deployment_that_nobody_reads_is_refused() {
    let upstream = answering().await;
    let images = "x-ms-oai-image-generation-deployment: dear";
    let at_azure = || in_cloud(&upstream, &azure(), &[Family::OpenAi]);
    let response = ("/openai/v1/responses", r#"{"model":"m","input":"x"}"#);
    for (settings, (path, body), named) in [
        (settings(&upstream), response, images.to_owned()),
        (at_azure(), ("/openai/v1/chat/completions", r#"{"model":"m","messages":[]}"#), images.to_owned()),
        (at_azure(), response, format!("{images}\r\n{images}")),
        (at_azure(), response, format!("{images}, cheap")),
        (at_azure(), response, "x-ms-oai-image-generation-deployment: ".to_owned()),
        (at_azure(), response, "x-ms-oai-future: dear".to_owned()),
    ] {
        let gateway = gateway(settings).await;
        let answer = talk(&gateway, with(&post(path, body), &named)).await;
        assert_eq!(answer.status(), 400, "{named}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
}

/// The one that draws pictures is a model that the request names besides.
#[tokio::test]
async fn a_deployment_for_pictures_is_a_model_of_the_request() {
    let upstream = answering().await;
    let request = |images: &str| {
        let named = format!("x-ms-oai-image-generation-deployment: {images}");
        with(&post("/openai/v1/responses", r#"{"model":"m","input":"x"}"#), &named)
    };
    let mut settings = in_cloud(&upstream, &azure(), &[Family::OpenAi]);
    settings.providers.get_mut("openai").unwrap().models = vec!["m".to_owned(), "cheap".to_owned()];
    let listed = gateway(settings.clone()).await;
    assert_eq!(talk(&listed, request("dear")).await.status(), 404);
    assert_eq!(upstream.count(), 0);
    assert_eq!(talk(&listed, request("cheap")).await.status(), 200);
    assert!(upstream.request(0).contains("x-ms-oai-image-generation-deployment: cheap"));

    let house = House::new();
    house.judge::<BeforeLlmCall>("lists", |event| {
        let others = event.other_models.clone().unwrap_or_default();
        others.contains(&"cheap".to_owned()).then(|| BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some("no pictures".into()),
            ..Default::default()
        })
    });
    let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
    let judged = start(settings, hooks).await.unwrap();
    assert!(talk(&judged, request("cheap")).await.text().contains("no pictures"));
    assert_eq!(upstream.count(), 1);
}

/// Bodies that are made for a cloud are in memory beside those that came.
#[tokio::test]
async fn bodies_that_are_made_count() {
    let upstream = answering().await;
    let text = "x".repeat(1000);
    let plain = json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
    for (most, status) in [(1_500, 503), (4_000, 200)] {
        let mut settings = in_cloud(&upstream, &bedrock(), &[Family::Anthropic]);
        settings.limits.buffered_bytes = most;
        let gateway = gateway(settings).await;
        for _ in 0..3 {
            assert_eq!(talk(&gateway, post("/v1/messages", &plain)).await.status(), status, "{most}");
        }
    }
    assert_eq!(upstream.count(), 3);
}

#[tokio::test]
async fn what_a_query_says_to_one_cloud_stays_there() {
    let upstream = answering().await;
    let (to_makers, to_vertex) = (
        gateway(at_makers(&upstream)).await,
        gateway(in_cloud(&upstream, &vertex(), &[Family::Gemini])).await,
    );
    let more = "alt=sse&access_token=mine&userProject=mine&%24alt=json&key=mine";
    let verb = "gemini:streamGenerateContent";
    let ours = "/v1/projects/ours/locations/us-east5/publishers";
    for (gateway, path, expected) in [
        (&to_makers, format!("{INVOKE}?{more}"), "/v1/messages".to_owned()),
        (&to_makers, format!("{PUBLISHERS}/anthropic/models/m:rawPredict?{more}"), "/v1/messages".to_owned()),
        (
            &to_makers,
            format!("{PUBLISHERS}/google/models/{verb}?{more}"),
            format!("/v1beta/models/{verb}?alt=sse&%24alt=json"),
        ),
        (
            &to_vertex,
            format!("/v1beta/models/{verb}?{more}"),
            format!("{ours}/google/models/{verb}?alt=sse&%24alt=json"),
        ),
    ] {
        assert_eq!(talk(gateway, post(&path, "{}")).await.status(), 200, "{path}");
        let sent = upstream.request(upstream.count() - 1);
        assert_eq!(line(&sent), format!("POST {expected} HTTP/1.1"));
    }
}

#[tokio::test]
async fn what_is_not_for_everybody_is_asked_for_wherever_it_stands() {
    let upstream = answering().await;
    let gateway = gateway(in_cloud(&upstream, &bedrock(), &[Family::Anthropic])).await;
    let ask = |betas: Value| {
        let plain = json!({"model": "m", "messages": [], "anthropic_beta": betas}).to_string();
        with(&post("/v1/messages", &plain), "anthropic-beta: b-1, b-2")
    };
    assert_eq!(talk(&gateway, ask(json!(["b-2", "b-3"]))).await.status(), 200);
    assert_eq!(body(&upstream.request(0))["anthropic_beta"], json!(["b-1", "b-2", "b-3"]));
    for unclear in
        [json!("b"), json!([1]), json!(["a,b"]), json!(["a\nb"]), json!([""]), json!({}), json!(null)]
    {
        let answer = talk(&gateway, ask(unclear.clone())).await;
        assert_eq!(answer.status(), 400, "{unclear}: {}", answer.text());
        assert!(answer.text().contains("anthropic-beta"), "{}", answer.text());
    }
    assert_eq!(upstream.count(), 1);
}

/// A stream of a maker's, as a client of Bedrock gets its end.
#[tokio::test]
async fn a_stream_that_ends_too_early_says_so_in_frames() {
    let stop = json!({"type": "message_stop"});
    let whole = format!("event: message_stop\ndata: {stop}\n\n");
    let half = "event: message_stop\ndata: {\"type\":\"mess";
    for (rest, ends_well) in [(whole.trim_end(), true), (":\n", true), (half, false), ("event: mess", false)]
    {
        let script = Script::events(&[&whole, rest]);
        let upstream = Upstream::start(move |_| script.clone()).await;
        let gateway = gateway(at_makers(&upstream)).await;
        let answer = talk(&gateway, post(STREAM, r#"{"messages":[]}"#)).await;
        let said = events(&answer);
        assert_eq!(said[0], stop, "{rest}");
        if ends_well {
            assert!(said.iter().all(|event| *event == stop), "{rest}: {said:?}");
            assert_eq!(said.len(), if rest.starts_with(':') { 1 } else { 2 }, "{rest}");
        } else {
            assert!(said[1]["message"].as_str().unwrap().contains("middle of an event"), "{said:?}");
        }
    }
    // Half an event, and then nothing more: the failure is an exception of its own.
    let pieces = [EVENTS_HEAD.as_bytes().to_vec(), chunk(whole.as_bytes()), chunk(half.as_bytes())];
    let mut script = Script::whole("").ending(End::Close);
    script.pieces = pieces.to_vec();
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = gateway(at_makers(&upstream)).await;
    let said = read(&bytes(&talk(&gateway, post(STREAM, r#"{"messages":[]}"#)).await));
    assert_eq!((said.len(), said[1].0.as_str()), (2, "internalServerException"), "{said:?}");
    assert!(said[1].1["message"].as_str().unwrap().contains("broke"), "{said:?}");
}
