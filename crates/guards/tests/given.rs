//! Commands that are handed to programs which nobody knows.

use std::time::Duration;

use backstop_guards::{CommandGuard, GuardSettings, Place, Profile, ShellKind, Verdict};

fn verdict(profile: Profile, command: &str) -> Verdict {
    let guard = CommandGuard::new(GuardSettings {
        profile,
        budget: Duration::from_secs(10),
        ..GuardSettings::default()
    });
    guard.judge(command, ShellKind::Posix, &Place::new("/work/project").with_home("/home/me"), 0).verdict
}

/// Ways in which a program that nobody knows, or code, is given a command.
const WAYS: [&str; 15] = [
    "starter {words}",
    "starter --quiet -n 3 {words}",
    "starter -- {words}",
    "starter '{words}' check",
    "./tools/starter {words}",
    "starter '{words}'",
    "starter -c '{words}'",
    "starter --command='{words}'",
    "starter sh -c '{words}'",
    "starter env A=1 {words}",
    "starter one | starter {words}",
    "python3 -c 'use(sys.argv)' '{words}'",
    "python3 tools/start.py {words}",
    "node -e 'use(process.argv)' '{words}'",
    "X='{words}' python3 -c 'use(os.environ)'",
];

#[test]
fn a_catastrophe_is_asked_about_wherever_an_unknown_program_gets_it() {
    for danger in ["rm -rf /", "dd if=/dev/zero of=/dev/sda", "sudo rm -rf --no-preserve-root /"] {
        for way in WAYS {
            let command = way.replace("{words}", danger);
            for profile in [Profile::Core, Profile::Standard, Profile::Strict] {
                assert!(verdict(profile, &command) >= Verdict::Ask, "{profile:?}: {command}");
            }
        }
    }
}

#[test]
fn what_is_asked_about_is_asked_about_where_a_command_begins() {
    for way in [
        "starter -- {words}",
        "starter exec {words}",
        "starter run -e A=1 -- {words}",
        "starter -c '{words}'",
    ] {
        let command = way.replace("{words}", "git push --force origin main");
        assert_eq!(verdict(Profile::Standard, &command), Verdict::Ask, "{command}");
    }
}

#[test]
fn more_than_is_looked_at_is_asked_about() {
    let many = "'a b' ".repeat(70);
    assert_eq!(verdict(Profile::Standard, &format!("starter {many}")), Verdict::Ask);
    let long = "word ".repeat(4000);
    assert_eq!(verdict(Profile::Standard, &format!("starter '{long}'")), Verdict::Ask);
}

#[test]
fn words_and_texts_of_everyday_work_pass() {
    for command in [
        "starter build --release",
        "starter rm old-entry",
        "starter 'add a test for the parser'",
        "starter run -- cargo test",
        "starter --message 'remove the cache and start again'",
        "git commit -m 'never run rm -rf / here'",
        "echo 'rm -rf /'",
        "printf '%s' 'rm -rf /'",
        "grep -rn 'rm -rf /' docs",
        "hg commit -m 'warn of rm -rf /'",
        "whiptail --msgbox 'rm -rf / is bad' 8 40",
        "python3 -c 'print(1)' 'a b c'",
        "node -e 'console.log(process.argv)' 'one two'",
        "python3 tools/report.py --title 'weekly report' --out report.html",
        "./target/debug/judge check 'rm -rf /'",
        "npx some-linter explain --json 'rm -rf /'",
        "node dist/linter.js parse 'rm -rf /'",
        "MESSAGE='a b' python3 tools/report.py",
    ] {
        for profile in [Profile::Core, Profile::Standard] {
            assert_eq!(verdict(profile, command), Verdict::Pass, "{profile:?}: {command}");
        }
    }
}
