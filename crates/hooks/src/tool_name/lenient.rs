//! The name that a lenient client may take a tool's name for.
//!
//! Models put namespaces in front of names that they see in one, and clients take them off: OpenAI's models `functions.`
//! (vercel/ai#19067 on GitHub shows a call of `functions.<name>`), Gemini's `default_api:` or `default_api.` (tya5/reyn#1989). Clients
//! also trim names, and a name may hold letters that look like others or like nothing.
//!
//! Nobody knows what a client does, so such a reading is one more name for rules that deny or select, and never for one that allows.

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::CodePointSetData;
use icu_properties::props::DefaultIgnorableCodePoint;

/// What models see functions in.
const NAMESPACES: [&str; 3] = ["functions.", "default_api:", "default_api."];

/// The reading of a name; `None` if it is the name itself.
pub(super) fn reading(name: &str) -> Option<Box<str>> {
    if name.bytes().all(|byte| byte.is_ascii_graphic()) {
        let bare = bare(name);
        return (bare != name).then(|| bare.into());
    }
    // Compatible forms of a letter may be ignorable, and what is ignorable may keep letters apart that become one.
    let folded = ComposingNormalizerBorrowed::new_nfkc().normalize(&visible(name)).into_owned();
    let folded = visible(&folded);
    let bare = bare(&folded);
    (bare != name).then(|| bare.into())
}

/// A name without what nobody sees.
fn visible(name: &str) -> String {
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    name.chars().filter(|letter| !letter.is_control() && !ignorable.contains(*letter)).collect()
}

/// A name without namespaces and blanks around it.
fn bare(name: &str) -> &str {
    let mut bare = name.trim();
    while let Some(rest) = NAMESPACES.iter().find_map(|namespace| without(bare, namespace)) {
        bare = rest.trim_start();
    }
    bare
}

fn without<'a>(name: &'a str, namespace: &str) -> Option<&'a str> {
    let (front, rest) = name.split_at_checked(namespace.len())?;
    front.eq_ignore_ascii_case(namespace).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_lenient_clients_do() {
        for name in [
            "functions.evil_x",
            "default_api:evil_x",
            "default_api.evil_x",
            "Functions. default_api:evil_x",
            " evil_x\n",
            "evil\u{200b}_x",
            "e\u{ad}vil_x\u{2060}",
            "\u{ff45}vil\u{ff3f}x",
            "evil_\u{feff}\u{1d431}",
            "evil\u{0}_x",
            "\u{ff46}unctions.evil_x",
        ] {
            assert_eq!(reading(name).as_deref(), Some("evil_x"), "{name:?}");
        }
        for name in ["evil_x", "", "my.functions.x", "caf\u{e9}", "a b"] {
            assert_eq!(reading(name), None, "{name:?}");
        }
    }
}
