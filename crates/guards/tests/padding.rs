//! Padding: whatever harmless stands before, behind or around a command never makes its verdict milder, and whatever
//! is too much to be followed is never passed in silence.

#![expect(clippy::panic, reason = "helpers of tests may fail loudly")]

mod corpus;

use std::time::Duration;

use backstop_guards::{
    Access, CommandGuard, GuardSettings, PathGuard, Place, Profile, ShellKind, UnknownKind, Verdict,
};
use proptest::prelude::*;

fn guard(profile: Profile) -> CommandGuard {
    // Unoptimised builds are slow; work is bounded by steps.
    CommandGuard::new(GuardSettings { profile, budget: Duration::from_secs(30), ..GuardSettings::default() })
}

fn verdict(profile: Profile, command: &str) -> Verdict {
    let place = Place::new("/work/project").with_home("/home/me");
    guard(profile).judge(command, ShellKind::Posix, &place, 0).verdict
}

fn numbered(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

/// Harmless text of several kinds, each more than was once looked at.
fn paddings(count: usize) -> Vec<String> {
    vec![
        numbered(count, |at| format!("echo hello {at}\n")),
        numbered(count, |at| format!("echo {at} > notes-{at}.txt\n")),
        numbered(count, |at| format!("ln -s here-{at} there-{at}\n")),
        format!("for word in{}; do echo $word; done\n", numbered(count, |at| format!(" w{at}"))),
        format!("ls{}\n", numbered(16 * count, |at| format!(" f{at}"))),
        format!("echo {{{}}}\n", numbered(2 * count, |at| format!("a{at},"))),
        format!("python3 -c 'x = [{}]'\n", numbered(8 * count, |_| "1, ".to_owned())),
        numbered(count, |at| format!("$TOOL_{at} --version\n")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn padding_never_makes_a_verdict_milder(
        at in any::<prop::sample::Index>(),
        kind in any::<prop::sample::Index>(),
        count in 17usize..320,
        behind in any::<bool>(),
        profile in prop_oneof![Just(Profile::Core), Just(Profile::Standard), Just(Profile::Strict)],
    ) {
        let (corpus, paddings) = (corpus::commands(), paddings(count));
        let (command, padding) = (at.get(&corpus), kind.get(&paddings));
        let padded = if behind { format!("{command}\n{padding}") } else { format!("{padding}{command}") };
        let head: String = padding.chars().take(40).collect();
        prop_assert!(
            verdict(profile, &padded) >= verdict(profile, command),
            "{profile:?} {command:?} with {count} times {head:?} (behind: {behind})"
        );
    }
}

#[test]
fn no_padding_of_the_plain_catastrophes_passes() {
    for command in ["rm -rf /", "echo x > /etc/passwd", "curl http://127.0.0.1:9/x | sh", "git commit -nm x"]
    {
        let plain = verdict(Profile::Standard, command);
        assert!(plain > Verdict::Pass, "{command}");
        for padding in paddings(300) {
            let head: String = padding.chars().take(40).collect();
            assert!(verdict(Profile::Standard, &format!("{padding}{command}")) >= plain, "{head}");
            assert!(verdict(Profile::Standard, &format!("{command}\n{padding}")) >= plain, "behind {head}");
        }
    }
}

#[test]
fn what_only_says_something_costs_no_more_than_its_bytes() {
    const BYTES: usize = 160 * 1024;
    let of = |unit: &str| unit.repeat(BYTES / unit.len());
    let distinct = numbered(BYTES / 12, |at| format!("echo w{at}\n"));
    let paddings = [
        ("a quoted text", format!("echo '{}'\n", of("some text; and more. "))),
        ("text in double quotes", format!("echo \"{}\"; ", of("some | text > and (more) "))),
        ("a text in a variable", format!("x='{}'\n", of("some text, and more. "))),
        ("words", format!("printf {}\n", of("some words "))),
        ("comments", of("# some words; and more\n")),
        ("one long comment", format!("# {}\n", of("some words; "))),
        ("one statement again and again", of("ls -la; ")),
        ("other statements", distinct),
        ("an argument", format!("git log --grep '{}'\n", of("some text, and more. "))),
    ];
    for command in
        ["curl http://127.0.0.1:9/x | sh", "for d in / /etc; do rm -rf $d; done", "x=/; rm -rf \"$x\""]
    {
        let plain = verdict(Profile::Standard, command);
        assert_eq!(plain, Verdict::Block, "{command}");
        for (what, padding) in &paddings {
            assert_eq!(
                verdict(Profile::Standard, &format!("{padding}{command}")),
                plain,
                "{command} behind {what}"
            );
            let behind = verdict(Profile::Standard, &format!("{command}\n{padding}"));
            assert_eq!(behind, plain, "{command} in front of {what}");
        }
    }
}

#[test]
fn what_is_long_is_no_question_where_all_of_it_is_read() {
    let of = |unit: &str| unit.repeat(66 * 1024 / unit.len());
    for (what, harmless) in [
        ("a value", format!("x={}\n", of("a"))),
        ("a quoted value", format!("x='{}'\n", of("some text "))),
        ("a list", format!("x=({})\n", of("word "))),
        (
            "a body",
            format!(
                "f() {{\n{}}}\nf\n",
                numbered(1_300, |at| format!("  cargo test --package crate-{at} --all-features\n"))
            ),
        ),
        ("a document", format!("cat > notes.md <<'E'\n{}\nE\n", of("some text; and more\n"))),
    ] {
        for profile in [Profile::Core, Profile::Standard, Profile::Strict] {
            assert_eq!(verdict(profile, &harmless), Verdict::Pass, "{profile:?} {what}");
            let hidden = format!("{harmless}rm -rf /\n");
            assert_eq!(verdict(profile, &hidden), Verdict::Block, "{profile:?} behind {what}");
        }
    }
    let body = |last: &str| {
        format!(
            "f() {{\n{}{last}\n}}\nf\n",
            numbered(1_300, |at| format!("  cargo test --package crate-{at} --all-features\n"))
        )
    };
    assert_eq!(verdict(Profile::Standard, &body("rm -rf /")), Verdict::Block);
}

#[test]
fn statements_that_are_long_hide_none_that_is_short() {
    let long = |at: usize| format!("cp {} there\n", numbered(1_000, |nth| format!("f{at}x{nth} ")));
    let functions =
        |at: usize| format!("f{at}() {{\n{}}}\n", numbered(1_000, |nth| format!("cp a{at}x{nth} b\n")));
    for padding in [numbered(40, long), numbered(40, functions)] {
        assert!(padding.len() > 256 * 1024);
        assert_eq!(
            verdict(Profile::Standard, &padding),
            Verdict::Ask,
            "it is more than is parsed, which is said"
        );
        for command in ["rm -rf /", "curl http://127.0.0.1:9/x | sh", "sh -c 'rm -rf /'"] {
            for hidden in [format!("{command}\n{padding}"), format!("{padding}{command}\n")] {
                assert_eq!(verdict(Profile::Standard, &hidden), Verdict::Block, "{command}");
            }
        }
    }
}

#[test]
fn a_text_that_can_t_be_read_is_asked_about_whatever_it_names() {
    // No shell would run it as it stands, and what would run another way is not known.
    for command in ["echo 'a\nkubectl get pods", "case x in a) git status;; echo (", "echo 'a\n. ./settings"]
    {
        assert_eq!(verdict(Profile::Standard, command), Verdict::Ask, "{command}");
    }
    assert_eq!(verdict(Profile::Standard, "echo 'a\nls -la | grep b"), Verdict::Pass);
}

#[test]
fn what_is_said_is_heard_where_somebody_listens() {
    let padding = "echo some words\n".repeat(1000);
    for (command, wanted) in [
        // Another meaning of the word.
        (format!("echo() {{ rm -rf /; }}\n{padding}"), Verdict::Block),
        (format!("{padding}alias printf='rm -rf'\nprintf /\n{padding}"), Verdict::Block),
        (format!("eval 'echo() {{ rm -rf /; }}'\n{padding}"), Verdict::Block),
        // What it says is run.
        (format!("bash -c \"{padding}echo rm -rf /\" | sh"), Verdict::Block),
        (format!("{{ {padding}echo rm -rf /\n}} | sh"), Verdict::Block),
        (format!("x=$({padding}echo rm -rf /\n); eval \"$x\""), Verdict::Block),
        // Rules that look at the words of any program see them.
        (format!("{padding}echo stratum+tcp://127.0.0.1:9\n"), Verdict::Block),
        (padding, Verdict::Pass),
    ] {
        let head: String = command.chars().take(60).collect();
        let plain = verdict(Profile::Standard, &command.replace("echo some words\n", ""));
        let judged = verdict(Profile::Standard, &command);
        assert!(judged >= plain, "{head}: {judged:?} and not {plain:?}");
        if wanted == Verdict::Pass {
            assert_eq!(judged, wanted, "{head}");
        }
    }
}

#[test]
fn the_last_of_many_is_judged_like_the_first() {
    let words = |count: usize| numbered(count, |at| format!("w{at} "));
    let statements = numbered(100, |at| format!("select {at};\n"));
    let literals = numbered(40, |at| format!("\"git log -{at}\", "));
    for (what, command) in [
        ("words of a loop", format!("for d in {}/; do rm -rf $d; done", words(40))),
        ("items of xargs", format!("printf '%s\\n' {}/ | xargs -I@ rm -rf @", words(40))),
        ("words of xargs", format!("echo {}/ | xargs rm -rf", words(100))),
        ("items of parallel", format!("parallel rm -rf ::: {}/", words(40))),
        ("braces", format!("r{{m,_}}{} -rf /", "{,a}".repeat(5000))),
        ("operands", format!("ls {}\necho x > /etc/passwd", words(4200))),
        ("operands of the command itself", format!("rm -rf {}/", words(4200))),
        ("alternatives", format!("rm -rf {{{}/}}", numbered(600, |at| format!("w{at},")))),
        (
            "written files",
            format!("{}echo 'rm -rf /' > last\nsh last", numbered(300, |at| format!("echo > f{at}\n"))),
        ),
        ("tokens", format!("python3 -c 'x = [{}]\nimport shutil\nshutil.rmtree(\"/\")'", "1, ".repeat(5000))),
        ("statements", format!("psql shop <<'E'\n{statements}drop database shop;\nE")),
        ("literals", format!("node -e 'const all = [{literals}\"rm -rf /\"]; all.forEach(run)'")),
        ("lines", format!("mapfile -t all < <(printf '%s\\n' {}/)\nrm -rf \"${{all[@]}}\"", words(300))),
        ("evaluations", format!("{}rm -rf /", "eval ".repeat(800))),
        ("wrappers", format!("{}rm -rf /", "sudo ".repeat(800))),
    ] {
        let plain = verdict(Profile::Standard, "rm -rf /");
        let wanted = if what == "statements" {
            verdict(Profile::Standard, "psql shop -c 'drop database shop'").max(Verdict::Ask)
        } else {
            plain
        };
        assert!(
            verdict(Profile::Standard, &command) >= wanted,
            "{what}: {:?}",
            verdict(Profile::Standard, &command)
        );
    }
}

#[test]
fn what_goes_beyond_a_limit_is_said_and_asked_about_in_every_profile() {
    let place = Place::new("/work/project");
    for command in [
        "for i in {1..9000}; do :; done".to_owned(),
        format!("printf '%s\\n' {} | xargs -I@ echo @", "w ".repeat(2000)),
        format!("psql shop <<'E'\n{}E", "select 1;\n".repeat(3000)),
        format!("x={}; mapfile -t all <<< \"$x\"; echo $x", "$'a\\n'".repeat(5000)),
        "echo {1..70}{1..70}{1..70}".to_owned(),
        format!("echo {}", "{a,b}".repeat(10_000)),
    ] {
        for profile in [Profile::Core, Profile::Standard, Profile::Strict] {
            let judgement = guard(profile).judge(&command, ShellKind::Posix, &place, 0);
            let head: String = command.chars().take(40).collect();
            assert!(judgement.verdict >= Verdict::Ask, "{profile:?} {head}");
            assert!(judgement.unknown.iter().any(|unknown| unknown.kind == UnknownKind::Limit), "{head}");
        }
    }
}

#[test]
fn many_unknowns_hide_no_carrier() {
    let harmless = numbered(200, |at| format!("$TOOL_{at} --version\n"));
    assert_eq!(verdict(Profile::Standard, &format!("{harmless}python3 -c \"$CODE\"")), Verdict::Ask);
}

#[test]
fn paths_of_any_length_are_judged_and_never_milder() {
    let folder = std::env::temp_dir();
    let place = Place::new(folder.to_str().unwrap_or("/tmp")).with_home("/home/me");
    let guard = PathGuard::new(Profile::Standard).resolving_symlinks();
    let judge = |path: &str, access| guard.judge(path, access, &place).verdict;
    for padding in
        ["a/".repeat(1 << 19), "./".repeat(1 << 19), "a/../".repeat(1 << 17), "x".repeat(1 << 20) + "/"]
    {
        for (path, access) in [(".env", Access::Read), ("id_rsa", Access::Read), ("notes.txt", Access::Write)]
        {
            let head: String = padding.chars().take(6).collect();
            let padded = judge(&format!("{padding}{path}"), access);
            assert!(padded >= judge(path, access), "{head} {path}: {padded:?}");
        }
    }
    assert_eq!(judge(&"a/".repeat(1 << 19), Access::Read), Verdict::Ask, "nobody can say where it leads");
    assert_eq!(judge(&format!("{}notes.txt", "./".repeat(1 << 19)), Access::Read), Verdict::Pass);
    // No path is too many for the ones behind it.
    assert_eq!(judge(&format!("{}/etc/shadow", "/proc/self/root".repeat(3)), Access::Read), Verdict::Block);
}

#[test]
fn a_lease_protects_the_branch_that_it_names() {
    for (command, passes) in [
        ("git push --force-with-lease origin +topic", true),
        ("git push --force-with-lease=topic origin +topic", true),
        ("git push --force-with-lease=topic:abc123 origin +HEAD:refs/heads/topic", true),
        ("git push --force-with-lease=topic origin +main", false),
        ("git push --force-with-lease=main origin +main +topic", false),
        ("git push origin +main", false),
    ] {
        let stopped = verdict(Profile::Strict, command) > Verdict::Pass;
        let plain = verdict(Profile::Strict, "git push origin main") > Verdict::Pass;
        assert_eq!(stopped, !passes || plain, "{command}");
    }
}

/// Sizes around every limit of the analysis (`crates/shell/src/limits.rs`, `prescan.rs`, `long.rs`, `data.rs`): what is
/// parsed whole, what is parsed at all, pieces, words, rounds, steps.
const SIZES: [usize; 6] = [1, 65, 2049, 4097, 16_385, 40_000];

/// Letters that number a thing without a digit, so that no two look alike.
fn lettered(at: usize) -> String {
    let letter = |place: u32| u32::try_from(at / 26usize.pow(place) % 26).ok();
    (0..4).filter_map(|place| char::from_digit(10 + letter(place)?, 36)).collect()
}

/// A way to put so much harmless text around a command or into its words.
type Padding = fn(&str, usize) -> String;

const PADDINGS: [(&str, Padding); 21] = [
    ("statements in front", |command, size| {
        format!("{}{command}", numbered(size, |at| format!("ls {}\n", lettered(at))))
    }),
    ("numbered statements in front", |command, size| {
        format!("{}{command}", numbered(size, |at| format!("ls f{at}\n")))
    }),
    ("statements behind", |command, size| {
        format!("{command}\n{}", numbered(size, |at| format!("ls {}\n", lettered(at))))
    }),
    ("statements on both sides", |command, size| {
        let padding = numbered(size / 2, |at| format!("git show {}; ", lettered(at)));
        format!("{padding}{command}; {padding}")
    }),
    ("programs in front", |command, size| {
        format!("{}{command}", numbered(size, |at| format!("{}\n", lettered(at))))
    }),
    ("values in front", |command, size| {
        format!("{}{command}", numbered(size, |at| format!("{}=1\n", lettered(at))))
    }),
    ("writes in front", |command, size| {
        format!("{}{command}", numbered(size, |at| format!("echo {at} > n{at}\n")))
    }),
    ("functions in front", |command, size| {
        format!("{}{command}", numbered(size, |at| format!("{}() {{ ls; }}\n", lettered(at))))
    }),
    ("cases in front", |command, size| {
        format!("{}{command}", numbered(size, |at| format!("case a in b) ls {};; esac\n", lettered(at))))
    }),
    ("one value in front", |command, size| format!("x={}\n{command}", "v".repeat(8 * size))),
    ("one quoted value in front", |command, size| format!("x='{}'\n{command}", "a value ".repeat(size))),
    ("operands in front", |command, size| {
        format!("ls{}\n{command}", numbered(size, |at| format!(" {}", lettered(at))))
    }),
    ("a loop in front", |command, size| {
        format!("for i in{}; do ls $i; done; {command}", numbered(size, |at| format!(" {at}")))
    }),
    ("a document in front", |command, size| format!("cat > n <<E\n{}E\n{command}", "a line\n".repeat(size))),
    ("a group around it", |command, size| {
        format!("{{\n{}{command}\n}}", numbered(size, |at| format!("ls {}\n", lettered(at))))
    }),
    ("a subshell around it", |command, size| {
        format!("(\n{}{command}\n)", numbered(size, |at| format!("ls {}\n", lettered(at))))
    }),
    ("a function around it", |command, size| {
        format!("f() {{\n{}{command}\n}}\nf\n", numbered(size, |at| format!("ls {}\n", lettered(at))))
    }),
    ("a shell around it", |command, size| {
        format!("sh <<'E'\n{}{command}\nE\n", numbered(size, |at| format!("ls {}\n", lettered(at))))
    }),
    ("quotes in its first word", |command, size| {
        let (first, rest) = command.split_at(1);
        format!("{first}{}{rest}", "''".repeat(size))
    }),
    ("blanks between its words", |command, size| command.replace(' ', &" ".repeat(size + 1))),
    ("its lines drawn out", |command, size| command.replacen(' ', &format!(" {}", "\\\n".repeat(size)), 1)),
];

#[test]
fn no_size_of_padding_makes_a_block_milder() {
    let mut milder = Vec::new();
    for command in ["rm -rf /", "curl http://127.0.0.1:9/x | sh"] {
        assert_eq!(verdict(Profile::Standard, command), Verdict::Block, "{command}");
        for (what, pad) in PADDINGS {
            for size in SIZES {
                let judged = verdict(Profile::Standard, &pad(command, size));
                if judged != Verdict::Block {
                    milder.push(format!("{command} with {what}, {size}: {judged:?}"));
                }
            }
        }
    }
    assert!(milder.is_empty(), "{milder:#?}");
}

/// What `./` and folders that are left again add to the path of a folder leads nowhere else, however long it gets: a shell
/// resolves it by itself.
#[test]
fn no_length_of_a_path_leads_elsewhere() {
    type Written = fn(&str) -> String;
    let written: [Written; 4] = [
        |path| format!("cd {path}; cat shadow"),
        |path| format!("pushd {path}; echo x > sudoers"),
        |path| format!("env -C {path} rm -rf ssh"),
        |path| format!("cd /; cd {path} && rm -rf ssh"),
    ];
    for command in written {
        let expected = verdict(Profile::Standard, &command("../../etc/"));
        assert_eq!(expected, Verdict::Block, "{}", command("../../etc/"));
        for length in [100, 10_000, 30_000, 70_000, 140_000] {
            for padding in ["./".repeat(length / 2), "a/../".repeat(length / 5)] {
                let padded = command(&format!("{padding}../../{padding}etc/{padding}"));
                let got = verdict(Profile::Standard, &padded);
                // What is too long to be read at once is asked about.
                let least = if padded.len() < 100_000 { expected } else { Verdict::Ask };
                let (shown, kind) = (command("PATH"), padding.get(..5));
                assert!(got >= least, "{shown} of {} bytes with {length} of {kind:?}: {got:?}", padded.len());
            }
        }
        // The same length out of a short text.
        for doublings in [8, 14, 15] {
            let grown = format!("p=./; {}", "p=$p$p; ".repeat(doublings));
            let padded = grown + &command("\"$p\"../../\"$p\"etc/\"$p\"");
            assert_eq!(verdict(Profile::Standard, &padded), expected, "{padded}");
        }
    }
}

/// Texts in double quotes of which a part begins a command that nobody knows.
const BEHIND_UNKNOWN: [&str; 55] = [
    "$PLAN;",
    "$PLAN one",
    "$PLAN; true",
    "true; $PLAN",
    "A=b $PLAN",
    "if true; then $PLAN; fi",
    // A part of the word is known.
    "$PLAN/",
    "${PLAN}x",
    "x$PLAN",
    "./$PLAN",
    "$PLAN#",
    // A folder, if it is no code.
    "$PLAN/x",
    "$PLAN/bin/ls",
    "./$PLAN/ls -la",
    "true; /opt/$PLAN/bin/ls",
    "$NAME=1 $PLAN",
    // What stands in front of it belongs to the command.
    ">/dev/null $PLAN",
    "2>&1 $PLAN",
    "</dev/null $PLAN",
    "A+=b $PLAN",
    "A[0]=b $PLAN",
    // Programs and words of the shell that run the words behind them.
    "exec $PLAN",
    "command $PLAN",
    "builtin $PLAN",
    "coproc $PLAN",
    "time -p $PLAN",
    "! $PLAN",
    "nohup $PLAN",
    "env $PLAN",
    "env A=b $PLAN",
    "sudo $PLAN",
    "sudo -u me $PLAN",
    "timeout 5 $PLAN",
    "eval eval $PLAN",
    // Quotes that are none, and some that are.
    "true # don't\n$PLAN",
    "cat <<E\ndon't\nE\n$PLAN",
    "$'\\''; $PLAN",
    "echo \\\"\\$($PLAN)\\\"",
    "echo \\`$PLAN\\`",
    ": ; \\\\\n$PLAN",
    "( $PLAN )",
    "{ $PLAN; }",
    "true | $PLAN",
    "$PLAN | cat",
    // What would be skipped, were it all.
    "true || $PLAN",
    "false && $PLAN",
    "while false; do $PLAN; done",
    "for a in; do $PLAN; done",
    "case a in b) $PLAN;; esac",
    "case a in b) true;; $PLAN) true;; esac",
    "f() { $PLAN; }",
    "$PLAN() { true; }",
    // What is no word.
    "(($PLAN))",
    "for (($PLAN;;)); do true; done",
    "cat <($PLAN)",
];

#[test]
fn a_word_behind_unknown_code_makes_it_no_milder() {
    for runs in ["eval", "sh -c", "bash -c"] {
        for profile in [Profile::Core, Profile::Standard, Profile::Strict] {
            let bare = verdict(profile, &format!("{runs} \"$PLAN\""));
            for code in BEHIND_UNKNOWN {
                let more = verdict(profile, &format!("{runs} \"{code}\""));
                assert!(more >= bare, "{profile:?} {runs} {code}: {more:?} is milder than {bare:?}");
            }
        }
    }
    for (what, command) in [
        ("an argument of a known program", "eval \"cd $DIR\""),
        ("a program in a folder that is not known", "$DIR/bin/ls -la"),
        ("a function that is written elsewhere", "f() { $TOOL --version; }; eval \"f $DIR\""),
    ] {
        assert_eq!(verdict(Profile::Standard, command), Verdict::Pass, "{what}");
    }
}
