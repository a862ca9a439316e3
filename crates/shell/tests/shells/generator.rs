//! Random shell programs over a vocabulary of stubs.
//!
//! Nothing a program can be made of reaches beyond its folder: the only programs are stubs, no word has a slash except
//! the fixed `./n1` and `/dev/stdin`, redirections go to fixed names in the folder, and no builtin is used that signals processes or
//! leaves the folder. Loops end and functions call only functions that were defined before them, so programs end.

use std::fmt;

use super::choices::Choices;

/// A shell whose language a program is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Bash,
    Dash,
    Zsh,
}

impl Dialect {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Bash, Self::Dash, Self::Zsh];

    /// The shell's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Dash => "dash",
            Self::Zsh => "zsh",
        }
    }

    /// How it is started, without files of its own, to run the text that follows.
    pub(crate) fn call(self) -> &'static [&'static str] {
        match self {
            Self::Bash => &["/bin/bash", "--norc", "--noprofile", "-c"],
            Self::Dash => &["/bin/dash", "-c"],
            Self::Zsh => &["/bin/zsh", "-f", "-c"],
        }
    }

    pub(crate) fn is_dash(self) -> bool {
        self == Self::Dash
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

pub(crate) const PROGRAMS: [&str; 8] =
    ["alpha", "beta", "gamma", "delta", "fails", "parity", "lines", "words"];
pub(crate) const LITERALS: [&str; 10] = ["a", "b", "one", "k1", "-n", "x=1", "a:b", "2", "w,z", "-x"];
pub(crate) const SINGLE: [&str; 8] = ["'s t'", "'*'", "'$x'", "'a;b'", "''", "'k?'", "'a\"b'", "'\\n'"];
pub(crate) const VARIABLES: [&str; 4] = ["x", "y", "z", "u"];
pub(crate) const VALUES: [&str; 16] = [
    "a",
    "alpha",
    "'a b'",
    "''",
    "'alpha q'",
    "'*'",
    "'k?'",
    "a:b",
    "3",
    "'  lead'",
    "\"$x\"",
    "$y",
    "y",
    "'beta \"c d\" $x'",
    "'a:b c'",
    "k1",
];
pub(crate) const FILES: [&str; 3] = ["n1", "n2", "n3"];
pub(crate) const DESCRIPTORS: [&str; 3] = ["3", "4", "5"];
pub(crate) const LINES: [&str; 6] = ["a b", "one", "alpha $x", "a:b:c", "  lead trail  ", "$(lines)"];
pub(crate) const PATTERNS: [&str; 7] = ["a", "*", "a*", "?", "[ab]*", "'*'", "one|b"];
pub(crate) const OPTIONS: [&str; 4] = ["set -e", "set -f", "set -u", "set +e"];

/// How deep statements stand in one another.
pub(crate) const DEEPEST: usize = 3;

/// Makes one program.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) choices: Choices,
    pub(crate) dialect: Dialect,
    pub(crate) depth: usize,
    /// Inside quotes or a substitution, where what is made must stand on one line.
    pub(crate) words: usize,
    pub(crate) functions: usize,
    pub(crate) counters: usize,
    pub(crate) inside_function: bool,
    /// Bodies of here-documents that begin on the next line.
    pub(crate) documents: Vec<String>,
    pub(crate) out: String,
}

/// The program that these decisions make.
pub(crate) fn program(choices: Choices, dialect: Dialect) -> (String, Vec<u32>) {
    let mut generator = Generator {
        choices,
        dialect,
        depth: 0,
        words: 0,
        functions: 0,
        counters: 0,
        inside_function: false,
        documents: Vec::new(),
        out: String::new(),
    };
    let count = 1 + generator.choices.below(7);
    for _ in 0..count {
        generator.statement();
    }
    (generator.out, generator.choices.into_given())
}

impl Generator {
    pub(crate) fn add(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Ends a line; the documents that were announced on it follow.
    pub(crate) fn end_line(&mut self) {
        self.out.push('\n');
        for document in std::mem::take(&mut self.documents) {
            self.out.push_str(&document);
        }
    }

    pub(crate) fn block(&mut self) {
        self.depth += 1;
        let count = 1 + self.choices.below(3);
        for _ in 0..count {
            self.statement();
        }
        self.depth -= 1;
    }

    pub(crate) fn statement(&mut self) {
        if self.depth > DEEPEST {
            self.simple();
        } else {
            match self.choices.below(38) {
                0..=3 => self.simple(),
                4..=6 => self.assignment(),
                7 => self.joined(),
                8 | 9 => self.pipeline(),
                10 | 11 => self.conditional(),
                12 | 13 => self.words_loop(),
                14 | 15 => self.lines_loop(),
                16 => self.case(),
                17 | 18 => self.function(),
                19 => self.group(),
                20 => self.document(),
                21 => self.evaluated(),
                22 => self.positional(),
                23 | 24 => self.declared(),
                25 | 26 => self.reading(),
                27 => self.descriptor(),
                28 => self.trap(),
                29 => self.alias(),
                30 => self.array(),
                31 => self.counted_loop(),
                32 => self.leaving(),
                33 | 34 => self.process(),
                35 | 36 => self.by_itself(),
                _ => self.special(),
            }
        }
        self.end_line();
    }

    /// `NAME=value stub words > file`
    pub(crate) fn simple(&mut self) {
        if self.choices.once_in(8) {
            let text = format!("{}={} ", self.variable(), self.value());
            self.add(&text);
        }
        match self.choices.below(14) {
            0..=9 => {
                let program = self.program_name();
                self.add(program);
            }
            10 => self.add("\"alpha\""),
            11 => self.add("be''ta"),
            12 => {
                let name = self.variable();
                self.add(&format!("${name}"));
            }
            _ => self.add("command gamma"),
        }
        self.arguments();
        self.redirection();
    }

    pub(crate) fn program_name(&mut self) -> &'static str {
        let at = self.choices.below(PROGRAMS.len() + 4);
        PROGRAMS.get(at).copied().unwrap_or("alpha")
    }

    pub(crate) fn arguments(&mut self) {
        for _ in 0..self.choices.below(4) {
            self.add(" ");
            self.word();
        }
    }

    pub(crate) fn redirection(&mut self) {
        match self.choices.below(16) {
            13 => {
                let text = format!(" > {}", self.choices.one(&FILES));
                self.add(&text);
            }
            14 => {
                let text = format!(" >> {}", self.choices.one(&FILES));
                self.add(&text);
            }
            15 => self.add(" 2>&1"),
            _ => {}
        }
    }

    pub(crate) fn variable(&mut self) -> &'static str {
        self.choices.one(&VARIABLES)
    }

    pub(crate) fn value(&mut self) -> &'static str {
        self.choices.one(&VALUES)
    }

    pub(crate) fn assignment(&mut self) {
        let name = self.variable();
        self.add(name);
        match self.choices.below(8) {
            0..=4 => {
                let text = format!("={}", self.value());
                self.add(&text);
            }
            5 => {
                self.add("=");
                self.word();
            }
            6 => {
                self.add("=");
                self.substitution();
            }
            _ if self.dialect.is_dash() => {
                let text = format!("=${name}{}", self.value());
                self.add(&text);
            }
            _ => {
                let text = format!("+={}", self.value());
                self.add(&text);
            }
        }
        if self.choices.once_in(6) {
            let text = format!(" {}={}", self.variable(), self.value());
            self.add(&text);
        }
    }

    pub(crate) fn condition(&mut self) {
        let name = self.variable();
        match self.choices.below(10) {
            0 => self.add("true"),
            1 => self.add("false"),
            2 => self.add("parity a"),
            3 => self.add("fails"),
            4 => self.simple(),
            5 => self.add(&format!("[ -n \"${name}\" ]")),
            6 => self.add(&format!("test \"${name}\" = a")),
            7 => self.add(&format!("[ \"${name}\" != alpha ] && parity")),
            _ if self.dialect.is_dash() => self.add("! fails"),
            8 => self.add(&format!("[[ ${name} == a* ]]")),
            _ => self.add("(( x > 2 ))"),
        }
    }

    pub(crate) fn joined(&mut self) {
        if self.choices.once_in(2) {
            self.condition();
        } else {
            self.assignment();
        }
        let operator = self.choices.one(&[" && ", " || ", "; ", " & "]);
        self.add(operator);
        if self.choices.once_in(2) {
            self.simple();
        } else {
            self.assignment();
        }
        if self.choices.once_in(2) {
            let operator = self.choices.one(&[" && ", " || ", "; "]);
            self.add(operator);
            self.simple();
        }
    }

    pub(crate) fn pipeline(&mut self) {
        match self.choices.below(7) {
            0 => self.add("lines"),
            1 => {
                let text = format!("echo {}", self.value());
                self.add(&text);
            }
            2 => {
                let text = format!("printf '%s\\n' {} {}", self.value(), self.value());
                self.add(&text);
            }
            3 => {
                self.add("cat");
                self.announce_document();
            }
            4 => self.simple(),
            5 => self.add("cat k1"),
            _ => {
                let name = self.variable();
                self.add(&format!("echo \"${name}\""));
            }
        }
        if self.choices.once_in(4) {
            self.add(" | cat");
        }
        self.add(" | ");
        let name = self.variable();
        match self.choices.below(8) {
            0 => self.simple(),
            1 | 2 => {
                let raw = self.choices.one(&["", "-r "]);
                self.add(&format!("while read {raw}{name}; do alpha \"${name}\" ${name}; done"));
            }
            3 => self.add(&format!("read {name}")),
            4 => self.add(&format!("{{ read {name}; alpha ${name}; }}")),
            5 => self.add(&format!("( read {name} y; beta \"${name}\" $y )")),
            6 => {
                self.add("{\n");
                self.depth += 1;
                self.block();
                self.depth -= 1;
                self.add("}");
            }
            _ => self.add(&format!("{name}=piped")),
        }
    }

    pub(crate) fn conditional(&mut self) {
        self.add("if ");
        self.condition();
        self.add("; then\n");
        self.block();
        if self.choices.once_in(4) {
            self.add("elif ");
            self.condition();
            self.add("; then\n");
            self.block();
        }
        if self.choices.once_in(2) {
            self.add("else\n");
            self.block();
        }
        self.add("fi");
    }

    pub(crate) fn words_loop(&mut self) {
        let name = self.variable();
        self.add(&format!("for {name}"));
        if !self.choices.once_in(6) {
            self.add(" in ");
            self.word();
            self.arguments();
        }
        self.add("; do\n");
        self.block();
        self.add("done");
        self.redirection();
    }

    pub(crate) fn lines_loop(&mut self) {
        let name = self.variable();
        let flags = self.choices.one(&["", "-r ", "IFS= "]);
        let read = match flags {
            "IFS= " => format!("IFS= read -r {name}"),
            flags => format!("read {flags}{name}"),
        };
        let more = self.choices.one(&["", " y", " y z"]);
        self.add(&format!("while {read}{more}; do\n"));
        self.block();
        self.add("done");
        match self.choices.below(4) {
            0 => self.announce_document(),
            1 => self.add(" < k1"),
            2 if self.dialect.is_dash() => self.add(" < k2"),
            2 => self.add(" <<< 'a b'"),
            _ if self.dialect.is_dash() => self.add(" < k3"),
            _ => self.add(" < <(lines)"),
        }
    }

    pub(crate) fn case(&mut self) {
        self.add("case ");
        let name = self.variable();
        let word = self.choices.one(&["\"$N\"", "$N", "a", "$1"]).replace('N', name);
        self.add(&word);
        self.add(" in\n");
        for _ in 0..1 + self.choices.below(3) {
            let pattern = self.choices.one(&PATTERNS);
            self.add(&format!("{pattern})\n"));
            self.block();
            let end =
                if self.dialect == Dialect::Bash { self.choices.one(&[";;", ";&", ";;&"]) } else { ";;" };
            self.add(&format!("{end}\n"));
        }
        self.add("esac");
    }

    pub(crate) fn function(&mut self) {
        if self.choices.once_in(6) {
            let stub = self.choices.one(&["beta", "words"]);
            self.add(&format!("{stub}() {{ command alpha from-{stub} \"$@\"; }}"));
            self.end_line();
            self.add(stub);
            return self.arguments();
        }
        let number = self.functions + 1;
        let outer = std::mem::replace(&mut self.inside_function, true);
        let open = match self.choices.below(4) {
            3 if !self.dialect.is_dash() => format!("function f{number} {{\n"),
            2 => format!("f{number}() (\n"),
            _ => format!("f{number}() {{\n"),
        };
        self.add(&open);
        self.block();
        self.add(if open.ends_with("(\n") { ")" } else { "}" });
        self.inside_function = outer;
        // Only what is complete can be called, so nothing calls itself.
        self.functions = self.functions.max(number);
        self.end_line();
        self.add(&format!("f{number}"));
        self.arguments();
    }

    pub(crate) fn group(&mut self) {
        let (open, close) = if self.choices.once_in(2) { ("(\n", ")") } else { ("{\n", "}") };
        self.add(open);
        self.block();
        self.add(close);
        self.redirection();
    }

    /// `<<E`, whose text follows at the end of the line.
    pub(crate) fn announce_document(&mut self) {
        let (mark, end) = match self.choices.below(3) {
            0 => ("<<E", "E"),
            1 => ("<<'E'", "E"),
            _ => ("<<-E", "\tE"),
        };
        let mut text = String::new();
        for _ in 0..1 + self.choices.below(3) {
            text.push_str(self.choices.one(&LINES));
            text.push('\n');
        }
        self.documents.push(format!("{text}{end}\n"));
        self.add(&format!(" {mark}"));
    }

    pub(crate) fn document(&mut self) {
        match self.choices.below(5) {
            0 => self.add("cat"),
            1 => {
                let name = self.variable();
                self.add(&format!("read {name} y"));
            }
            2 => self.add("{ read x; read y; alpha \"$x\" \"$y\"; }"),
            3 => {
                self.add("exec 3");
                self.announce_document();
                // The mark belongs to the number.
                self.out = self.out.replace("exec 3 <<", "exec 3<<");
                self.end_line();
                return self.add("read x <&3; alpha \"$x\"; read y <&3; beta $y");
            }
            _ => self.add("while read x; do beta $x; done"),
        }
        self.announce_document();
    }
}
