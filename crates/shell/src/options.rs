//! Option parsing as programs do it: clusters, attached values, abbreviated long options, `--`.

/// Which options of a program take a value.
#[derive(Debug, Clone, Copy)]
pub struct Takes<'a> {
    /// Short options with a value, one letter each.
    short: &'a str,
    /// Long options with a separate value, without the dashes.
    long: Words<'a>,
    /// The first operand ends the options (wrappers that start another program).
    stop_at_operand: bool,
}

#[derive(Debug, Clone, Copy)]
enum Words<'a> {
    /// Written in the code.
    Fixed(&'a [&'a str]),
    /// Written in an entry.
    Listed(&'a [String]),
}

impl Words<'_> {
    fn any(self, is: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Fixed(words) => words.iter().any(|word| is(word)),
            Self::Listed(words) => words.iter().any(|word| is(word)),
        }
    }
}

impl<'a> Takes<'a> {
    /// No option takes a value.
    pub(crate) const NOTHING: Self = Self::values("", &[]);

    /// These short and long options take a value.
    pub(crate) const fn values(short: &'a str, long: &'a [&'a str]) -> Self {
        Self { short, long: Words::Fixed(long), stop_at_operand: false }
    }

    /// Returns the same from an entry.
    pub(crate) const fn listed(short: &'a str, long: &'a [String]) -> Self {
        Self { short, long: Words::Listed(long), stop_at_operand: false }
    }

    /// Returns the same options, ending at the first operand.
    #[must_use]
    pub const fn until_operand(mut self) -> Self {
        self.stop_at_operand = true;
        self
    }

    /// Returns whether a letter takes a value.
    pub(crate) fn has_value(self, letter: char) -> bool {
        self.short.contains(letter)
    }

    /// As [`Takes::values`], for programs that run what follows their own options.
    pub(crate) const fn wrapper(short: &'a str, long: &'a [&'a str]) -> Self {
        Self::values(short, long).until_operand()
    }
}

/// The name of an option as it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    /// A letter after one dash.
    Short(char),
    /// A word after two dashes, without them.
    Long(&'a str),
}

/// Arguments, sorted into options and operands.
#[derive(Debug, Default)]
pub struct Options<'a> {
    given: Vec<(Name<'a>, Option<&'a str>)>,
    /// The arguments that are neither options nor values of options.
    pub operands: Vec<&'a str>,
    /// How many arguments were consumed before the operands of a wrapper.
    pub consumed: usize,
    /// How many operands came before `--`; `None` without one.
    pub dashes_at: Option<usize>,
}

impl<'a> Options<'a> {
    /// Parses the arguments after the program name.
    pub fn parse(args: &[&'a str], takes: Takes<'_>) -> Self {
        let mut options = Self::default();
        let mut at = 0;
        while let Some(&arg) = args.get(at) {
            at += 1;
            if arg == "--" {
                options.dashes_at = Some(options.operands.len());
                options.consumed = at;
                options.operands.extend(args.get(at..).unwrap_or_default());
                return options;
            }
            if let Some(long) = arg.strip_prefix("--") {
                match long.split_once('=') {
                    Some((name, value)) => options.given.push((Name::Long(name), Some(value))),
                    None => {
                        let wants = takes.long.any(|name| name == long)
                            || long.len() > 2 && takes.long.any(|name| name.starts_with(long));
                        let value = if wants { args.get(at).copied() } else { None };
                        at += usize::from(value.is_some());
                        options.given.push((Name::Long(long), value));
                    }
                }
            } else if let Some(cluster) = arg.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                at += options.cluster(cluster, args.get(at).copied(), takes);
            } else {
                if takes.stop_at_operand {
                    options.consumed = at - 1;
                    options.operands.extend(args.get(at - 1..).unwrap_or_default());
                    return options;
                }
                options.operands.push(arg);
            }
        }
        options.consumed = at;
        options
    }

    fn cluster(&mut self, cluster: &'a str, next: Option<&'a str>, takes: Takes<'_>) -> usize {
        for (at, c) in cluster.char_indices() {
            if !takes.short.contains(c) {
                self.given.push((Name::Short(c), None));
                continue;
            }
            let attached = cluster.get(at + c.len_utf8()..).filter(|rest| !rest.is_empty());
            self.given.push((Name::Short(c), attached.or(next)));
            return usize::from(attached.is_none() && next.is_some());
        }
        0
    }

    /// Returns whether the short option was given.
    pub fn short(&self, c: char) -> bool {
        self.given.iter().any(|(name, _)| *name == Name::Short(c))
    }

    /// Returns whether the long option was given, possibly abbreviated, and not negated by its `no-` form.
    pub fn long(&self, full: &str) -> bool {
        let negation = full.strip_prefix("no-");
        self.given
            .iter()
            .rev()
            .find_map(|(name, _)| match name {
                Name::Long(given) if abbreviates(given, full) => Some(true),
                Name::Long(given) => match negation {
                    Some(positive) => (*given == positive).then_some(false),
                    None => given.strip_prefix("no-").filter(|rest| abbreviates(rest, full)).map(|_| false),
                },
                Name::Short(_) => None,
            })
            .unwrap_or(false)
    }

    /// Returns whether either spelling was given.
    pub fn has(&self, short: char, long: &str) -> bool {
        self.short(short) || self.long(long)
    }

    /// Returns the last value of an option.
    pub fn value(&self, short: Option<char>, long: &str) -> Option<&'a str> {
        self.values(short, long).last()
    }

    /// Returns all values of an option.
    pub fn values(&self, short: Option<char>, long: &str) -> impl Iterator<Item = &'a str> {
        self.given.iter().filter_map(move |(name, value)| match name {
            Name::Short(c) if Some(*c) == short => *value,
            Name::Long(given) if !long.is_empty() && abbreviates(given, long) => *value,
            _ => None,
        })
    }

    /// Returns every option value that was given.
    pub fn every_value(&self) -> impl Iterator<Item = (Name<'a>, &'a str)> {
        self.given.iter().filter_map(|(name, value)| value.map(|value| (*name, value)))
    }

    /// Returns every option name that was given.
    pub fn names(&self) -> impl Iterator<Item = Name<'a>> {
        self.given.iter().map(|(name, _)| *name)
    }

    /// Returns whether the program only prints help.
    pub fn only_help(&self) -> bool {
        self.given.iter().any(|(name, _)| matches!(name, Name::Long("help" | "version" | "longhelp")))
    }
}

/// Returns whether `given` is `full` or an unambiguous-looking beginning of it.
fn abbreviates(given: &str, full: &str) -> bool {
    given == full
        || !given.is_empty() && full.starts_with(given) && given.len() < full.len() && !is_word(given)
}

/// Options that are words of their own and not abbreviations of longer ones.
fn is_word(given: &str) -> bool {
    matches!(
        given,
        "no" | "force" | "all" | "delete" | "exec" | "recursive" | "output" | "file" | "data" | "help"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(args: &[&'a str], takes: Takes<'_>) -> Options<'a> {
        Options::parse(args, takes)
    }

    #[test]
    fn clusters_values_and_dashes() {
        let takes = Takes::values("m", &["message"]);
        let options = parse(&["-nm", "text", "-a", "--", "-x"], takes);
        assert!(options.short('n') && options.short('a') && !options.short('x'));
        assert_eq!(options.value(Some('m'), "message"), Some("text"));
        assert_eq!(options.operands, ["-x"]);
    }

    #[test]
    fn abbreviations_and_negations() {
        let options = parse(&["--forc", "--no-verify"], Takes::NOTHING);
        assert!(options.long("force") && options.long("no-verify") && !options.long("verify"));
        let options = parse(&["--force", "--no-force"], Takes::NOTHING);
        assert!(!options.long("force"));
        let options = parse(&["--force"], Takes::NOTHING);
        assert!(!options.long("force-with-lease"));
    }
}
