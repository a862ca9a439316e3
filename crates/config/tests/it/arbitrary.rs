//! No text makes the loader panic, hang or grow.

use crate::support::{FULL, TOKEN, load, operator, repository};
use proptest::prelude::*;

fn load_all(text: &str) {
    for source in [operator(text), repository(text)] {
        match load(std::slice::from_ref(&source)) {
            Ok(loaded) => {
                assert!(!format!("{loaded:?}{}", loaded.show()).contains(TOKEN), "the environment leaked");
            }
            Err(error) => {
                assert!(!error.problems().is_empty());
                assert!(!format!("{error} {error:?}").contains(TOKEN), "the environment leaked");
                assert!(
                    !error.to_string().chars().any(|c| c.is_control() && c != '\n'),
                    "control characters pass"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_loads_or_is_explained(text in any::<String>()) {
        load_all(&text);
    }

    #[test]
    fn any_yaml_like_text_loads_or_is_explained(text in "([-?:,\\[\\]{}#&*!|>'\"%@` \n\ta-z0-9$~.<]|hooks|guards|: |- |---\n){0,200}") {
        load_all(&text);
    }

    #[test]
    fn any_damaged_file_loads_or_is_explained(
        edits in proptest::collection::vec((0..FULL.len(), 0..20usize, "[-?:,\\[\\]{}&*!|>'\"%@`\\PC \n\t$]{0,4}"), 1..6)
    ) {
        let mut text: Vec<char> = FULL.chars().collect();
        for (at, cut, insert) in edits {
            let start = at.min(text.len());
            let end = (start + cut).min(text.len());
            text.splice(start..end, insert.chars());
        }
        load_all(&text.into_iter().collect::<String>());
    }
}

#[test]
fn large_and_deep_files_end() {
    let size = 1024 * 1024 - 64;
    let wide_map: String = (0..size / 12).map(|index| format!("k{index}: 1\n")).collect();
    let on_failure: String = (0..9_000).map(|index| format!("    h{index}: block\n")).collect();
    let texts = [
        "[".repeat(size),
        "{".repeat(size),
        "{a: ".repeat(size / 4),
        "- ".repeat(size / 2),
        "? ".repeat(size / 2),
        "a:\n ".repeat(size / 4),
        "\"".repeat(size),
        "'".repeat(size),
        "#".repeat(size),
        "&a ".repeat(size / 3),
        "!a ".repeat(size / 3),
        " ".repeat(size),
        "\n".repeat(size),
        format!("{}a: 1", " ".repeat(size)),
        format!("a: |\n{}", " x\n".repeat(size / 3)),
        format!("a: {}", "x".repeat(size)),
        wide_map,
        format!("hooks:\n  on_failure:\n{on_failure}"),
    ];
    // Whoever runs the tests gives up on one that does not end.
    for text in texts {
        load_all(&text);
    }
}
