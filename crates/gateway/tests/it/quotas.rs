//! How much one caller may ask, over real connections.

use std::sync::Arc;
use std::time::Duration;

use backstop_gateway::{Gateway, Metrics, Observers, Quota, Settings, Transparent};
use backstop_hooks::AgentId;
use backstop_store::{NewAccessToken, SqliteStore, Store, Timestamp};
use tokio::io::AsyncWriteExt as _;

use crate::support::*;

const STATIC: &str = "coder-token-0123456789";

fn at_once(most: u32) -> Quota {
    Quota { concurrent_requests: Some(most), ..Quota::default() }
}

fn a_minute(most: u32) -> Quota {
    Quota { requests_per_minute: Some(most), ..Quota::default() }
}

/// With an agent `coder`, whose token is [`STATIC`].
fn limited(upstream: &Upstream, quota: Quota) -> Settings {
    let mut settings = settings(upstream);
    settings.agents.insert(AgentId::new("coder"), secret(STATIC));
    settings.quotas.agents.insert(AgentId::new("coder"), quota);
    settings
}

fn as_coder(request: &str) -> String {
    request.replacen(TOKEN, STATIC, 1)
}

/// Streams for as long as somebody listens.
async fn streaming() -> Upstream {
    let events = vec!["event: ping\ndata: x\n\n"; 400];
    Upstream::start(move |_| Script::events(&events).paced(Duration::from_millis(50))).await
}

#[tokio::test]
async fn a_stream_holds_its_place_until_its_client_goes_or_it_ends() {
    let upstream = streaming().await;
    let gateway = gateway(limited(&upstream, at_once(2))).await;
    for path in ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/m:generateContent"]
    {
        let request = as_coder(&post(path, "{\"model\":\"m\"}"));
        let (mut one, mut two) = (connect(&gateway).await, connect(&gateway).await);
        for socket in [&mut one, &mut two] {
            socket.write_all(as_coder(&post("/v1/messages", "{}")).as_bytes()).await.unwrap();
            until(socket, "data: x").await;
        }
        let refused = talk(&gateway, &request).await;
        assert_eq!(refused.status(), 429, "{}", refused.text());
        assert!(refused.head().contains("retry-after: 1"), "{}", refused.head());
        assert!(refused.text().contains("this agent may have 2 requests at once"), "{}", refused.text());
        assert_eq!(talk_head(&gateway, &post(path, "{\"model\":\"m\"}")).await, 200, "others have room");
        drop(one);
        within(async { while talk_head(&gateway, &request).await == 429 {} }).await;
        drop(two);
    }
    within(async { while talk_head(&gateway, &as_coder(&post("/v1/messages", "{}"))).await == 429 {} }).await;
}

/// The status of a request whose answer nobody reads to its end.
async fn talk_head(gateway: &Gateway, request: &str) -> u16 {
    let mut socket = connect(gateway).await;
    socket.write_all(request.as_bytes()).await.unwrap();
    let head = until(&mut socket, "\r\n\r\n").await;
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn requests_that_fail_give_their_place_back() {
    let upstream = Upstream::start(|number| match number % 3 {
        0 => Script::json("500 Internal Server Error", "{}"),
        1 => Script::whole("nonsense").ending(End::Close),
        _ => Script::json("200 OK", "{}"),
    })
    .await;
    let gateway = gateway(limited(&upstream, at_once(1))).await;
    let statuses = [
        (post("/v1/messages", "{}"), 500),
        (post("/v1/messages", "{}"), 502),
        (post("/p/nobody/v1/messages", "{}"), 404),
        (post("/v1/messages", "{}"), 200),
        (post("/v1/messages/../x", "{}"), 400),
    ];
    for (request, status) in statuses {
        let answer = talk(&gateway, as_coder(&request)).await;
        assert_eq!(answer.status(), status, "{request} {}", answer.text());
    }
    let mut gone = connect(&gateway).await;
    let unfinished = as_coder(&post("/v1/messages", "{}")).replace("content-length: 2", "content-length: 9");
    gone.write_all(unfinished.as_bytes()).await.unwrap();
    within(async { while talk(&gateway, as_coder(&post("/v1/messages", "{}"))).await.status() != 429 {} })
        .await;
    drop(gone);
    within(async { while talk(&gateway, as_coder(&post("/v1/messages", "{}"))).await.status() == 429 {} })
        .await;
}

#[tokio::test]
async fn a_minute_has_so_many_requests_whatever_name_is_given() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = limited(&upstream, a_minute(3));
    settings.quotas.shared_token = a_minute(2);
    let gateway = gateway(settings.clone()).await;
    // Also what no hook looks at: lists of models.
    for (path, expected) in
        [("/v1/messages", 200), ("/v1/models", 200), ("/v1/messages", 200), ("/v1/models", 429)]
    {
        assert_eq!(talk(&gateway, as_coder(&post(path, "{}"))).await.status(), expected, "{path}");
    }
    let refused = talk(&gateway, as_coder(&post("/v1/messages", "{}"))).await;
    let wait =
        refused.head().lines().find_map(|line| line.strip_prefix("retry-after: ")?.parse::<u64>().ok());
    assert!((1..=60).contains(&wait.unwrap()), "{}", refused.head());
    for (name, expected) in [("/a/one", 200), ("/a/two", 200), ("/a/three", 429), ("", 429)] {
        assert_eq!(
            talk(&gateway, post(&format!("{name}/v1/messages"), "{}")).await.status(),
            expected,
            "{name}"
        );
    }
    assert_eq!(talk(&gateway, post("/a/coder/v1/messages", "{}")).await.status(), 403);
    // Another configuration starts no other minute.
    gateway.reload(&settings, Arc::new(Transparent)).unwrap();
    assert_eq!(talk(&gateway, as_coder(&post("/v1/messages", "{}"))).await.status(), 429);
    settings.quotas.agents.insert(AgentId::new("coder"), a_minute(4));
    gateway.reload(&settings, Arc::new(Transparent)).unwrap();
    for expected in [200, 429] {
        assert_eq!(talk(&gateway, as_coder(&post("/v1/messages", "{}"))).await.status(), expected);
    }
}

#[tokio::test]
async fn a_token_may_name_a_user_whose_quota_and_metrics_count() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let make = async |agent: &str, user: Option<&str>| {
        let day = Duration::from_hours(24);
        let (token, mut made) =
            NewAccessToken::make(AgentId::new(agent), "a test".to_owned(), Timestamp::now(), day);
        made.user = user.map(str::to_owned);
        store.add_access_token(made).await.unwrap();
        token.expose().clone()
    };
    let (one, two) = (make("one", Some("alice")).await, make("two", Some("alice")).await);
    let (bob, nobody) = (make("two", Some("bob")).await, make("two", None).await);
    let mut settings = settings(&upstream);
    settings.store = Some(Arc::clone(&store));
    settings.operator_token = Some(secret("watch-0123456789abcdef"));
    settings.quotas.users.insert("alice".to_owned(), a_minute(2));
    let observers = Observers { metrics: Some(Metrics::new("0")), ..Observers::default() };
    let gateway = Gateway::observed(settings, Arc::new(Transparent), observers).await.unwrap();
    let request = post("/v1/messages", "{}");
    for (token, expected) in [(&one, 200), (&two, 200), (&one, 429), (&two, 429), (&bob, 200), (&nobody, 200)]
    {
        // Whatever user a client says.
        let said = request.replacen(TOKEN, token, 1).replacen(
            "connection:",
            "x-backstop-user: carol\r\nconnection:",
            1,
        );
        assert_eq!(talk(&gateway, said).await.status(), expected);
    }
    let scrape = "GET /-/metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer watch-0123456789abcdef\r\n\r\n";
    let text = talk(&gateway, scrape).await.text();
    for line in [
        "backstop_user_requests_total{user=\"alice\",outcome=\"answered\"} 2",
        "backstop_user_requests_total{user=\"alice\",outcome=\"over_quota\"} 2",
        "backstop_user_requests_total{user=\"other\",outcome=\"answered\"} 1",
        "agent=\"one\",outcome=\"over_quota\"} 1",
        "agent=\"two\",outcome=\"answered\"} 3",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("bob") && !text.contains("carol"), "{text}");
}
