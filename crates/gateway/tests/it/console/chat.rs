//! Talking with the own agent: who may, whose a conversation is, and what pages say.

use backstop_gateway::PersonIssuer;
use backstop_gateway::chat::{ChatLine, ChatPerson, ChatTool, ToolState};
use backstop_hooks::SessionKey;
use tokio::io::AsyncWriteExt as _;

use super::login::{Idp, Place, cookie_named, settings_with};
use super::talker::{Talker, WORK};
use super::*;

struct Talking {
    server: Server,
    talker: Arc<Talker>,
}

impl Talking {
    async fn start() -> Self {
        let house = House::new();
        let talker = Talker::new(&house.store);
        let mut settings = settings_of("http://127.0.0.1:9");
        settings.chat = Some(Arc::clone(&talker) as Arc<dyn backstop_gateway::chat::Chat>);
        Self { server: Server::of(house, settings, Observers::default()).await, talker }
    }

    async fn admin(&self, user: &str) -> Person {
        let (token, _) = self.server.token_of(user, &[Scope::Admin]).await;
        self.server.with(cookie_of(&self.server.sign_in(&token).await)).await
    }

    async fn look(&self, person: &Person, path: &str) -> Answer {
        self.server.get(path, &format!("cookie: {}\r\n", person.cookie)).await
    }

    async fn post(&self, person: &Person, path: &str, fields: &[(&str, &str)]) -> Answer {
        let fields = [&[("form", person.form.as_str())], fields].concat();
        self.server.post(path, &format!("{SAME}cookie: {}\r\n", person.cookie), &fields).await
    }

    /// Begins a conversation, and returns its address.
    async fn begin(&self, person: &Person) -> String {
        let begun = self.post(person, "/chat", &[]).await;
        assert_eq!(begun.status(), 303, "{}", begun.text());
        led_to(&begun)
    }

    async fn say(&self, person: &Person, chat: &str, message: &str) -> Answer {
        self.post(person, &format!("{chat}/say"), &[("message", message)]).await
    }
}

fn led_to(answer: &Answer) -> String {
    let head = answer.head();
    let line =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("location: ").map(str::to_owned));
    line.unwrap().strip_prefix("/-/console").unwrap().to_owned()
}

/// The id of a conversation, by its address.
fn id_of(chat: &str) -> String {
    chat.strip_prefix("/chat/").unwrap().to_owned()
}

fn call(tool: &str, state: ToolState, decided: &str) -> ChatLine {
    ChatLine::Tool(ChatTool {
        call: "call-1".to_owned(),
        tool: tool.to_owned(),
        about: String::new(),
        state,
        decided: decided.to_owned(),
        question: Some("ask-1".to_owned().into()),
    })
}

#[tokio::test]
async fn who_may_administer_talks_and_nobody_else() {
    let talking = Talking::start().await;
    let ann = talking.admin("ann").await;
    let page = talking.look(&ann, "/chat").await;
    assert!(page.status() == 200 && page.text().contains("scripted-model"), "{}", page.text());
    let chat = talking.begin(&ann).await;
    let said = talking.say(&ann, &chat, "good\r\nday").await;
    assert_eq!((said.status(), led_to(&said)), (303, chat.clone()));
    let page = talking.look(&ann, &chat).await.text();
    assert!(page.contains("You said: good\nday") && page.contains("The agent waits for you"), "{page}");
    let listed = talking.look(&ann, "/chat").await.text();
    assert!(listed.contains(&chat) && listed.contains("good day"), "{listed}");
    for scopes in [&[Scope::Read][..], &[Scope::Approve], &[Scope::Read, Scope::Approve]] {
        let other = talking.server.person(scopes).await;
        for path in ["/chat", chat.as_str(), &format!("{chat}/part")] {
            assert_eq!(talking.look(&other, path).await.status(), 403, "{path} {scopes:?}");
        }
        for path in
            ["/chat".to_owned(), format!("{chat}/say"), format!("{chat}/stop"), format!("{chat}/leave")]
        {
            let refused = talking.post(&other, &path, &[("message", "x")]).await;
            assert_eq!(refused.status(), 403, "{path} {scopes:?}");
        }
        let home = talking.look(&other, "/approvals").await.text();
        assert!(!home.contains("/-/console/chat"), "nobody is led where they may not go");
    }
    assert!(talking.look(&ann, "/approvals").await.text().contains("/-/console/chat"));
}

#[tokio::test]
async fn what_is_said_is_posted_by_a_page_of_the_session() {
    let talking = Talking::start().await;
    let ann = talking.admin("ann").await;
    let chat = talking.begin(&ann).await;
    let cookie = format!("cookie: {}\r\n", ann.cookie);
    let elsewhere = format!("sec-fetch-site: cross-site\r\n{cookie}");
    for step in ["say", "stop", "leave", "go-on"] {
        let path = format!("{chat}/{step}");
        for (headers, form) in [
            (&format!("{SAME}{cookie}"), ""),
            (&format!("{SAME}{cookie}"), "0"),
            (&elsewhere, ann.form.as_str()),
        ] {
            let refused = talking.server.post(&path, headers, &[("form", form), ("message", "forged")]).await;
            assert_eq!(refused.status(), 403, "{path}");
        }
        assert_eq!(talking.look(&ann, &path).await.status(), 405, "{path}");
    }
    assert_eq!(talking.server.post("/chat", &elsewhere, &[("form", &ann.form)]).await.status(), 403);
    let page = talking.look(&ann, &chat).await.text();
    assert!(!page.contains("forged"), "{page}");
}

#[tokio::test]
async fn a_conversation_is_there_for_its_person_alone() {
    let talking = Talking::start().await;
    let (ann, bob) = (talking.admin("ann").await, talking.admin("bob").await);
    let chat = talking.begin(&ann).await;
    talking.say(&ann, &chat, &format!("{WORK} secretly")).await;
    for path in [chat.clone(), format!("{chat}/part")] {
        let hidden = talking.look(&bob, &path).await;
        assert!(hidden.status() == 404 && !hidden.text().contains("secretly"), "{path}");
    }
    assert!(!talking.look(&bob, "/chat").await.text().contains(&chat));
    for step in ["say", "stop", "leave", "go-on"] {
        let refused = talking.post(&bob, &format!("{chat}/{step}"), &[("message", "x")]).await;
        assert_eq!(refused.status(), 404, "{step}");
    }
    let page = talking.look(&ann, &chat).await.text();
    assert!(page.contains("The agent works"), "somebody stopped it: {page}");
    // The same after a restart, where only its session says whose it is.
    talking.talker.restart();
    for (person, status) in [(&ann, 200), (&bob, 404)] {
        assert_eq!(talking.look(person, &chat).await.status(), status);
    }
    let closed = talking.look(&ann, &chat).await.text();
    assert!(closed.contains("Go on with it") && closed.contains("not open here"), "{closed}");
    assert_eq!(talking.post(&bob, &format!("{chat}/go-on"), &[]).await.status(), 404);
    assert_eq!(talking.say(&ann, &chat, "x").await.status(), 409, "it is not open");
    assert_eq!(talking.post(&ann, &format!("{chat}/go-on"), &[]).await.status(), 303);
    assert_eq!(talking.say(&ann, &chat, "here again").await.status(), 303);
    // A session of another host is nobody's here, and so is what can't be one.
    for id in ["s-none", "..%2f", &"a".repeat(200), "%3Cb%3E"] {
        assert_eq!(talking.look(&ann, &format!("/chat/{id}")).await.status(), 404, "{id}");
    }
}

#[tokio::test]
async fn a_name_at_the_provider_is_not_the_user_of_that_name() {
    let house = House::new();
    let talker = Talker::new(&house.store);
    let idp = Idp::start().await;
    let roles = [("admins".to_owned(), vec![Scope::Admin])].into();
    let mut settings = settings_with(PersonIssuer { roles, ..idp.settings() });
    settings.chat = Some(talker);
    let place = Place { server: Server::of(house, settings, Observers::default()).await, idp };
    let enters = async |email: &str, subject: &str| {
        let claims = json!({ "email": email, "sub": subject, "groups": ["admins"] });
        let cookie = place.enters(claims).await;
        let page = place.looks(&cookie, "/chat").await;
        assert_eq!(page.status(), 200, "{}", page.text());
        let form: String =
            page.text().split_once("name=\"form\" value=\"").unwrap().1.chars().take(64).collect();
        (cookie, form)
    };
    let (cookie, form) = enters("x@example.com", "subject-1").await;
    let posts = async |cookie: &str, form: &str, path: &str, message: &str| {
        let headers = format!("{SAME}cookie: {cookie}\r\n");
        place.post(path, &headers, &[("form", form), ("message", message)]).await
    };
    let begun = posts(&cookie, &form, "/chat", "").await;
    let chat = led_to(&begun);
    assert_eq!(posts(&cookie, &form, &format!("{chat}/say"), "mine").await.status(), 303);
    assert!(place.looks(&cookie, &chat).await.text().contains("You said: mine"));
    // The user of a token who has that very name, and whoever was given the address later.
    let (token, _) = place.server.token_of("x@example.com", &[Scope::Admin]).await;
    let by_token = place.post("/sign-in", SAME, &[("token", &token), ("to", "/-/console/chat")]).await;
    let by_token = cookie_named(&by_token, "__Host-backstop").unwrap();
    let (later, _) = enters("x@example.com", "subject-2").await;
    for other in [&by_token, &later] {
        let page = place.looks(other, &chat).await;
        assert!(page.status() == 404 && !page.text().contains("mine"), "{}", page.text());
        assert!(!place.looks(other, "/chat").await.text().contains(&chat));
    }
    // Whoever signs in again is the same, also under another address.
    let (again, _) = enters("new@example.com", "subject-1").await;
    assert!(place.looks(&again, &chat).await.text().contains("You said: mine"));
    // Who asks is told to hooks as it is proved.
    let at_provider = ChatPerson::signed_in("https://id.example", "s", "x").requester().clone();
    let of_token = ChatPerson::user("x").requester().clone();
    assert_eq!(at_provider.account_id.as_deref(), Some("https://id.example"));
    assert_eq!((of_token.account_id, of_token.sender_id.as_deref()), (None, Some("x")));
}

#[tokio::test]
async fn where_it_is_off_or_something_is_missing_the_page_says_so() {
    let server = Server::start().await;
    let person = server.person(&[Scope::Admin]).await;
    let cookie = format!("cookie: {}\r\n", person.cookie);
    let page = server.get("/chat", &cookie).await;
    assert!(
        page.status() == 200 && page.text().contains("gateway: {console: {chat: true}}"),
        "{}",
        page.text()
    );
    assert!(!page.text().contains("Begin a conversation"));
    let headers = format!("{SAME}{cookie}");
    for path in ["/chat", "/chat/s-1/say", "/chat/s-1/go-on"] {
        assert_eq!(server.post(path, &headers, &[("form", &person.form)]).await.status(), 404, "{path}");
    }
    assert_eq!(server.get("/chat/s-1", &cookie).await.status(), 404);
    let talking = Talking::start().await;
    *talking.talker.missing.lock().unwrap() = Some("no <i>provider</i> is chosen".to_owned());
    let ann = talking.admin("ann").await;
    let page = talking.look(&ann, "/chat").await.text();
    assert!(page.contains("no &lt;i&gt;provider&lt;/i&gt; is chosen") && page.contains("agent"), "{page}");
    assert!(!page.contains("Begin a conversation"), "{page}");
}

#[tokio::test]
async fn what_agents_and_people_write_is_text() {
    let talking = Talking::start().await;
    let ann = talking.admin("ann").await;
    let evil = "</pre><script>alert(1)</script>\u{202e}\u{1b}[2J'\"";
    *talking.talker.workspace.lock().unwrap() = evil.to_owned();
    let chat = talking.begin(&ann).await;
    talking.say(&ann, &chat, &format!("{WORK} {evil}")).await;
    talking.talker.show(
        &id_of(&chat),
        [
            ChatLine::Agent(evil.to_owned(), 7),
            ChatLine::Reasoning(evil.to_owned(), 0),
            ChatLine::Note(evil.to_owned()),
            ChatLine::Ended(evil.to_owned()),
            call(evil, ToolState::Denied, &format!("denied by `{evil}`: {evil}")),
            ChatLine::Tool(ChatTool {
                call: evil.to_owned(),
                tool: evil.to_owned(),
                about: evil.to_owned(),
                state: ToolState::Ran,
                decided: String::new(),
                question: Some(evil.to_owned().into()),
            }),
        ],
    );
    let big = format!("{evil}{}", "x".repeat(40 << 10));
    let refused = talking.say(&ann, &chat, &big).await;
    assert_eq!(refused.status(), 409, "{}", refused.text());
    assert!(
        refused.text().contains("32768 bytes at most") && refused.text().contains("xxxx</textarea>"),
        "what was typed is not lost"
    );
    let pages = [
        talking.look(&ann, "/chat").await.text(),
        talking.look(&ann, &chat).await.text(),
        talking.look(&ann, &format!("{chat}/part")).await.text(),
        refused.text(),
    ];
    for page in &pages {
        assert!(!page.contains("<script>alert") && !page.contains("</pre><script"), "{page}");
    }
    assert!(!pages[1].contains('\u{202e}') && !pages[1].contains('\u{1b}'), "{}", pages[1]);
    assert!(
        pages[1].contains("and 7 bytes more") && pages[1].contains("denied by `&lt;/pre"),
        "{}",
        pages[1]
    );
    // What a host can't do is told as text as well.
    for _ in 0..2 {
        talking.begin(&ann).await;
    }
    let full = talking.post(&ann, "/chat", &[]).await;
    assert!(full.status() == 409 && full.text().contains("&lt;b&gt;enough"), "{}", full.text());
}

#[tokio::test]
async fn a_call_is_shown_with_what_was_decided_on_it_and_its_question() {
    let talking = Talking::start().await;
    let ann = talking.admin("ann").await;
    let chat = talking.begin(&ann).await;
    talking.say(&ann, &chat, WORK).await;
    talking.talker.show(&id_of(&chat), [call("exec", ToolState::Denied, "denied by `gate`: not that")]);
    let page = talking.look(&ann, &chat).await.text();
    assert!(page.contains(">denied</span>") && page.contains("denied by `gate`: not that"), "{page}");
    assert!(page.contains("/-/console/approvals/ask-1"), "{page}");
    // One that waits leads to what waits, which is of this conversation alone.
    let record = talking.server.question().await;
    let mut waits = call("exec", ToolState::Judged, "");
    if let ChatLine::Tool(call) = &mut waits {
        (call.call, call.question) = (record.request.call.to_string(), None);
    }
    talking.talker.show(&id_of(&chat), [waits]);
    let page = talking.look(&ann, &chat).await.text();
    assert!(page.contains("being judged") && !page.contains(record.id.as_str()), "{page}");
    assert_ne!(record.request.session_key, SessionKey::new("console:user:ann"));
}

#[tokio::test]
async fn a_page_hears_of_news_and_a_run_ends_with_the_token_of_its_person() {
    let talking = Talking::start().await;
    let (token, made) = talking.server.token_of("ann", &[Scope::Admin]).await;
    let ann = talking.server.with(cookie_of(&talking.server.sign_in(&token).await)).await;
    let chat = talking.begin(&ann).await;
    let id = id_of(&chat);
    let open = async |person: &Person| {
        let mut socket = connect(&talking.server.gateway).await;
        let cookie = &person.cookie;
        let asked =
            format!("GET /-/console/events?chat={id} HTTP/1.1\r\nhost: {OWN}\r\ncookie: {cookie}\r\n\r\n");
        socket.write_all(asked.as_bytes()).await.unwrap();
        socket
    };
    // Two browsers of one person hear the same.
    let again = talking.admin("ann").await;
    let (mut one, mut other) = (open(&ann).await, open(&again).await);
    for socket in [&mut one, &mut other] {
        until(socket, "event: chat").await;
    }
    talking.say(&ann, &chat, WORK).await;
    for socket in [&mut one, &mut other] {
        until(socket, "event: chat").await;
    }
    let part = format!("{chat}/part");
    let (here, there) = tokio::join!(talking.look(&ann, &part), talking.look(&again, &part));
    assert!(here.text() == there.text() && here.text().contains("The agent works"), "{}", here.text());
    talking.server.house.store.revoke_access_token(&made.id, "a test", Timestamp::now()).await.unwrap();
    until(&mut one, "event: over").await;
    // The other token is good for the conversation; the run was the revoked one's.
    until(&mut other, "event: chat").await;
    let page = talking.look(&again, &chat).await.text();
    assert!(page.contains("The agent waits for you"), "{page}");
    assert_eq!(talking.look(&ann, &chat).await.status(), 401);
}
