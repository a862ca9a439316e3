//! Programs that print tokens.

use backstop_gateway::{Cloud, CredentialSource, Family, TokenCommand};

use super::{Place, SESAME, answering, asked, bearer, log, paid, refused_for_now, renewed, soon, vertex};
use crate::support::{Script, Upstream, eventually, gateway, post, talk};

fn of(command: TokenCommand) -> backstop_gateway::Renewed {
    renewed(CredentialSource::Command(command))
}

#[tokio::test]
async fn a_program_is_started_once_with_what_it_is_given_and_nothing_else() {
    let (place, upstream) = (Place::new(), answering().await);
    let mut command = place.program(
        r#"echo run >> runs; env > environment; printf '%s\n' "$@" > arguments; [ -t 0 ] || cat > input; echo a-token"#,
    );
    command.arguments = ["--scope", "$HOME; touch made", "*"].map(Into::into).into();
    command.environment.insert("GIVEN".into(), "yes".into());
    let gateway = gateway(paid(&upstream, Family::Anthropic, vertex(), of(command))).await;
    for number in 0..3 {
        assert_eq!(talk(&gateway, asked()).await.status(), 200);
        assert_eq!(bearer(&upstream.request(number)), "a-token");
    }
    assert_eq!(place.read("runs"), "run\n");
    assert_eq!(place.read("arguments"), "--scope\n$HOME; touch made\n*\n");
    assert_eq!(place.read("input"), "");
    let environment = place.read("environment");
    let names: Vec<&str> = environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let ours = ["BACKSTOP_CREDENTIALS", "GIVEN", "PATH"];
    // A shell adds what is its own.
    let of_shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    assert!(ours.iter().all(|name| names.contains(name)), "{names:?}");
    assert!(names.iter().all(|name| ours.contains(name) || of_shell.contains(name)), "{names:?}");
}

#[tokio::test]
async fn only_a_program_that_was_looked_up_is_started() {
    for (name, why) in [
        ("./program", "has a relative path"),
        ("program", "`program` is not there"),
        ("/of-others", "is not started: it belongs to another user"),
    ] {
        let (place, upstream) = (Place::new(), answering().await);
        let mut command = place.program("echo run >> runs; echo found");
        command.environment.insert("PATH".into(), place.0.path().into());
        command.program = name.into();
        let gateway = gateway(paid(&upstream, Family::Anthropic, vertex(), of(command))).await;
        refused_for_now(&talk(&gateway, asked()).await, why);
        assert_eq!((place.read("runs").as_str(), upstream.count()), ("", 0));
    }
}

#[tokio::test]
async fn a_program_that_fails_is_named_and_what_it_said_is_not() {
    for (text, why) in [
        ("echo SESAME; echo SESAME >&2; exit 3", "failed: exit status: 3"),
        ("kill -s KILL $$", "failed: signal: 9"),
        ("true", "said nothing"),
        ("echo SESAME and more", "more than a token"),
        (r#"echo '{"access_token":"SESAME","expires_in":-1}'"#, "has expired already"),
        (r#"echo '{"SESAME":'"#, "no JSON"),
        ("while :; do echo SESAMESESAMESESAME; done", "printed more than 65536 bytes"),
        ("echo SESAME; exec sleep 60", "did not come within"),
    ] {
        let (place, upstream) = (Place::new(), answering().await);
        let command = place.program(&text.replace("SESAME", SESAME));
        let program = command.program.to_string_lossy().into_owned();
        let patience = of(command);
        let source = if why.contains("within") { soon(patience) } else { patience };
        let gateway = gateway(paid(&upstream, Family::Anthropic, vertex(), source)).await;
        let answer = talk(&gateway, asked()).await;
        refused_for_now(&answer, why);
        assert!(why.contains("within") || log::said().contains(&program), "{}", log::said());
        assert!(!answer.text().contains(&program), "{}", answer.text());
        assert_eq!(upstream.count(), 0, "{text}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_that_is_given_up_ends_with_what_it_started() {
    let (place, upstream) = (Place::new(), answering().await);
    let command = place.program("sleep 60 & echo $! > child; echo $$ > parent; wait");
    let gateway = gateway(paid(&upstream, Family::Anthropic, vertex(), soon(of(command)))).await;
    refused_for_now(&talk(&gateway, asked()).await, "did not come within");
    let ended = |name: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", place.read(name).trim()));
        stat.map_or(true, |stat| stat.contains(") Z"))
    };
    assert!(!place.read("child").is_empty());
    eventually("both ended", || ended("child") && ended("parent")).await;
}

#[tokio::test]
async fn azure_is_asked_with_a_token_in_place_of_a_key() {
    let (place, upstream) = (Place::new(), Upstream::start(|_| Script::json("200 OK", "{}")).await);
    let said = r#"echo '{"accessToken":"entra","expires_on":4102444800,"expiresOn":"2100-01-01 00:00:00","tokenType":"Bearer"}'"#;
    let cloud = Cloud::Azure { api_version: None };
    let gateway = gateway(paid(&upstream, Family::OpenAi, cloud, of(place.program(said)))).await;
    let body = r#"{"model":"gpt","messages":[{"role":"user","content":"hi"}]}"#;
    for header in ["authorization: Bearer client-key", "api-key: client-key"] {
        let request = post("/v1/chat/completions", body).replacen(
            "host: localhost",
            &format!("host: localhost\r\n{header}"),
            1,
        );
        assert_eq!(talk(&gateway, request).await.status(), 200);
        let sent = upstream.request(upstream.count() - 1);
        assert_eq!(bearer(&sent), "entra");
        assert!(!sent.contains("client-key") && !sent.contains("api-key:"), "{sent}");
    }
}
