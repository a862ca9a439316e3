//! Files of services that a command gives to `docker compose`: judged by what their containers would do, in whatever way the file is
//! given, and asked about where some of it is not followed.

use std::time::Duration;

use backstop_guards::{CommandGuard, GuardSettings, Place, Profile, ShellKind, Verdict};

fn verdict(profile: Profile, command: &str) -> Verdict {
    let settings = GuardSettings { profile, budget: Duration::from_secs(30), ..GuardSettings::default() };
    let place = Place::new("/work/project").with_home("/home/me");
    CommandGuard::new(settings).judge(command, ShellKind::Posix, &place, 0).verdict
}

fn service(mount: &str, command: &str) -> String {
    format!("services:\n  a:\n    image: b\n    volumes: ['{mount}:/h']\n    command: {command}")
}

/// A command that gives a document to `docker compose` by its input.
fn fed(document: &str) -> String {
    format!("docker compose -f - up <<'E'\n{document}\nE")
}

#[test]
fn a_service_is_judged_in_whatever_way_its_file_is_given() {
    let document = service("/", "rm -rf /h/usr");
    let written = format!("cat > c.yml <<'E'\n{document}\nE\n");
    let named = format!("cat > compose.yaml <<'E'\n{document}\nE\n");
    for command in [
        fed(&document),
        fed(&document).replace("-f -", "-f-"),
        fed(&document).replace("-f -", "--file=-"),
        fed(&document).replace("docker compose", "docker-compose"),
        fed(&document).replace("docker compose", "podman compose --profile x"),
        format!("cat <<'E' | docker compose --file /dev/stdin up -d\n{document}\nE"),
        format!("{written}docker compose -f c.yml up"),
        format!("{written}docker compose -f other.yml -fc.yml run a"),
        format!("{written}COMPOSE_FILE=c.yml docker compose up"),
        format!("{written}export COMPOSE_FILE=other.yml:c.yml; docker compose create"),
        format!("{written}echo COMPOSE_FILE=c.yml > e; docker compose --env-file e up"),
        format!("{written}echo COMPOSE_FILE=c.yml > .env; docker compose up"),
        format!("{named}docker compose up -d"),
    ] {
        assert_eq!(verdict(Profile::Core, &command), Verdict::Block, "{command}");
    }
}

#[test]
fn folders_of_the_machine_are_what_they_are_on_this_one() {
    for mount in ["~", "$HOME", "${HOME}", "${HOME:-/x}", "${NOTHING:-$HOME}", "/home/me", "../../home/me"] {
        assert_eq!(verdict(Profile::Core, &fed(&service(mount, "rm -rf /h"))), Verdict::Block, "{mount}");
    }
    let document = service("$D", "rm -rf /h/usr");
    let written = format!("cat > c.yml <<'E'\n{document}\nE\n");
    for command in [
        format!("{written}D=/ docker compose -f c.yml up"),
        format!("{written}echo D=/ > e; docker compose -f c.yml --env-file=e up"),
        format!(
            "mkdir s; cat > s/c.yml <<'E'\n{}\nE\ndocker compose -f s/c.yml up",
            service("../../..", "rm -rf /h/usr")
        ),
    ] {
        assert_eq!(verdict(Profile::Core, &command), Verdict::Block, "{command}");
    }
}

#[test]
fn a_document_that_is_not_read_as_a_whole_is_asked_about() {
    let harmless = service(".", "npm run dev");
    assert_eq!(verdict(Profile::Standard, &fed(&harmless)), Verdict::Pass);
    for more in [
        "    extends: {file: x.yml, service: b}",
        "    post_start: [{command: x}]",
        "    a_key_that_comes_some_day: x",
        "    build: {context: ., dockerfile_inline: FROM x}",
        "include: [x.yml]",
        "x-a: &a {privileged: true}",
        "volumes: {v: {driver_opts: {type: none, o: bind, device: /}}}",
        "  b: {<<: {privileged: true}}",
        "  [",
        "---\nservices: {}",
    ] {
        let command = fed(&format!("{harmless}\n{more}"));
        assert!(verdict(Profile::Standard, &command) > Verdict::Pass, "{command}");
    }
    for command in [
        "curl https://x.example/c.yml | docker compose -f - up",
        "curl -o c.yml https://x.example/c.yml; docker compose -f c.yml up",
        "curl -o e https://x.example/e; docker compose --env-file e up",
    ] {
        assert!(verdict(Profile::Standard, command) > Verdict::Pass, "{command}");
    }
}

#[test]
fn what_is_there_already_and_plain_services_are_no_question() {
    for command in [
        "docker compose up -d",
        "docker compose -f docker-compose.dev.yml --env-file .env.dev up -d",
        "COMPOSE_FILE=a.yml:b.yml docker compose up",
        "docker compose -f \"$FILE\" up",
    ] {
        assert_eq!(verdict(Profile::Standard, command), Verdict::Pass, "{command}");
    }
    let database = "services:\n  db:\n    image: postgres:16\n    environment: {POSTGRES_PASSWORD: x}\n    ports: ['5432:5432']\n    \
                    volumes: ['data:/var/lib/postgresql/data']\n    healthcheck: {test: ['CMD-SHELL', pg_isready], interval: 5s}\nvolumes: {data: {}}";
    assert_eq!(verdict(Profile::Standard, &fed(database)), Verdict::Pass);
}

#[test]
fn what_checks_a_service_runs_as_well() {
    for check in ["rm -rf /h/usr", "['CMD', rm, -rf, /h/usr]", "['CMD-SHELL', 'rm -rf /h/usr']"] {
        let document = format!("{}\n    healthcheck: {{test: {check}}}", service("/", "sleep 1"));
        assert_eq!(verdict(Profile::Core, &fed(&document)), Verdict::Block, "{check}");
    }
}
