//! What is made to be slow to read: a megabyte of it ends by what is counted, without a look at the clock, and where
//! something of it was left out somebody is asked.

use std::time::Duration;

use backstop_guards::{CommandGuard, GuardSettings, Place, Profile, ShellKind, UnknownKind, Verdict};

const MEGABYTE: usize = 1024 * 1024;

/// A guard that no clock stops.
fn guard(profile: Profile) -> CommandGuard {
    CommandGuard::new(GuardSettings { profile, budget: Duration::MAX, ..GuardSettings::default() })
}

fn shapes() -> Vec<(&'static str, String)> {
    let of = |unit: &str| unit.repeat(MEGABYTE / unit.len());
    vec![
        ("braces", of("{a,b}")),
        ("commas in braces", format!("{{{}}}", of("a,"))),
        ("pipes", of("a|")),
        ("quotes", of("'\"`")),
        ("substitutions", of("$(")),
        ("expansions", of("${@")),
        ("backslashes", of("\\")),
        ("here-documents", of("cat <<E\n")),
        ("patterns", of("*?[")),
        ("patterns apart", of("* ")),
        ("functions", of("f() { ")),
        ("whole functions", of("f() { a; }; ")),
        ("conditions", of("if a; then ")),
        ("variables", of("$a ")),
        ("words", of("a ")),
        ("substitutions apart", of("`a` ")),
        ("calculations", of("$((1+1)) ")),
        ("folders", format!("cat {}", of("a/"))),
        ("NUL", of("\0")),
        ("folders with a name of their own", format!("cat {}", of("hooks/"))),
        ("values that double", format!("x=a; {}", numbered("x=$x$x; "))),
        ("long ranges", numbered("echo {1..%}; ")),
        ("long ranges of values", numbered("x%=$(echo {1..4000}); ls $x%; ")),
        ("elements", numbered("a[%]=x; ")),
        ("cases", format!("case $x in {} esac", numbered("a%) ls b%;; "))),
        ("redirections", format!("ls {}", numbered(">f% "))),
        ("copied descriptors", format!("ls {}", of("2>&1 "))),
        ("statements of a database", format!("psql -c '{}'", numbered("select a% from b; "))),
        ("quotes in substitutions", numbered("echo \"$(a \"b%\")\"; ")),
    ]
}

/// A megabyte of a text in which `%` is a number.
fn numbered(unit: &str) -> String {
    let mut text = String::new();
    for at in 0.. {
        if text.len() >= MEGABYTE {
            break;
        }
        text += &unit.replace('%', &at.to_string());
    }
    text
}

#[test]
fn a_megabyte_of_anything_ends_by_counting_and_is_asked_about() {
    for (what, command) in shapes() {
        let judgement =
            guard(Profile::Core).judge(&command, ShellKind::Posix, &Place::new("/work/project"), 0);
        assert!(judgement.verdict >= Verdict::Ask, "{what}: {:?}", judgement.verdict);
        assert!(judgement.unknown.iter().any(|unknown| unknown.kind == UnknownKind::Limit), "{what}");
        assert!(judgement.processes.len() <= 4096, "{what}: {} processes", judgement.processes.len());
    }
}

#[test]
fn what_is_dangerous_in_front_of_it_is_found_all_the_same() {
    for (what, command) in shapes() {
        let command = format!("rm -rf /\n{command}");
        let judgement =
            guard(Profile::Core).judge(&command, ShellKind::Posix, &Place::new("/work/project"), 0);
        assert_eq!(judgement.verdict, Verdict::Block, "{what}");
    }
}

#[test]
fn what_is_too_much_to_be_written_out_hides_nothing_that_is_short() {
    for command in
        ["x=a; x=$x$x; x=$x$x; rm -rf /", "x=/; rm -rf $x", "rm -rf {a,b,/}", "a=(/); rm -rf ${a[0]}"]
    {
        let doubled = "x=aaaaaaaa; x=$x$x; x=$x$x; x=$x$x; x=$x$x; x=$x$x; x=$x$x; x=$x$x; x=$x$x; x=$x$x;";
        let padded = format!("{doubled} {} {command}", "x=$x$x; y=$x; ls $y; x=${x%a}; ".repeat(100));
        let judgement =
            guard(Profile::Core).judge(&padded, ShellKind::Posix, &Place::new("/work/project"), 0);
        assert_eq!(judgement.verdict, Verdict::Block, "{command}");
        let said = |text: &str| judgement.unknown.iter().any(|unknown| unknown.reason.contains(text));
        assert!(said("bytes come out of expansions"), "{command}: {:?}", judgement.unknown);
    }
}
