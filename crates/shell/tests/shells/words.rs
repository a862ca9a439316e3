//! Words of generated programs: literals, quotes and expansions.

use super::generator::{DEEPEST, Dialect, Generator, LITERALS, SINGLE};

impl Generator {
    pub(crate) fn word(&mut self) {
        let parts = 1 + usize::from(self.choices.once_in(4));
        for _ in 0..parts {
            self.part();
        }
    }

    pub(crate) fn part(&mut self) {
        match self.choices.below(22) {
            0..=3 => {
                let text = self.choices.one(&LITERALS);
                self.add(text);
            }
            4 => {
                let text = self.choices.one(&SINGLE);
                self.add(text);
            }
            5 | 6 => {
                self.add("\"");
                for _ in 0..1 + self.choices.below(2) {
                    self.quoted_part();
                }
                self.add("\"");
            }
            7..=10 => {
                let name = self.variable();
                self.add(&format!("${name}"));
            }
            11 | 12 => self.parameter(),
            13 | 14 => self.substitution(),
            15 => self.arithmetic(),
            16 => {
                let text =
                    self.choices.one(&["$1", "\"$@\"", "$@", "$*", "\"$*\"", "$#", "$2", "${1}x", "\"$1\""]);
                self.add(text);
            }
            17 => {
                let text = self.choices.one(&["{a,b}", "{1..3}", "x{a,'b c'}y", "{a,{b,c}}", "{$x,b}"]);
                self.add(text);
            }
            18 => {
                let text = self.choices.one(&["k?", "k*", "[k]1", "*", "n*", "k[!1]", "q*"]);
                self.add(text);
            }
            19 => {
                let text = self.choices.one(&["a\\ b", "\\$x", "\\*", "\\\"", "a\\\nb"]);
                self.add(text);
            }
            20 => {
                let all = ["$HOME", "~", "$PWD", "$?", "$-", "\"$PWD\"", "$$"];
                let text = self.choices.one(&all);
                self.add(text);
            }
            _ => self.extended_part(),
        }
    }

    /// What only some of the shells know.
    pub(crate) fn extended_part(&mut self) {
        if self.dialect.is_dash() {
            return self.add("e");
        }
        let all = [
            "$'a\\tb'",
            "$'a\\x41'",
            "${v[1]}",
            "\"${v[@]}\"",
            "${v[@]}",
            "${#v[@]}",
            "\"${v[*]}\"",
            "${v[0]}",
            "$v",
            "\"$v\"",
            "${v[2]}",
            "${v[@]:1}",
            "${v[-1]}",
            "$'\\''",
        ];
        let text = self.choices.one(&all);
        self.add(text);
    }

    pub(crate) fn quoted_part(&mut self) {
        match self.choices.below(8) {
            0 => self.add("q r"),
            1..=3 => {
                let name = self.variable();
                self.add(&format!("${name}"));
            }
            4 => self.parameter(),
            5 => self.substitution(),
            6 => self.arithmetic(),
            _ => {
                let text = self.choices.one(&["\\$x", "'", "*", "\\\\", " ", "$1", "$@", "$*"]);
                self.add(text);
            }
        }
    }

    pub(crate) fn parameter(&mut self) {
        let name = self.variable();
        let posix = [
            "{}",
            "{:-d e}",
            "{-d}",
            "{:=d}",
            "{:+d}",
            "{+d}",
            "{#a}",
            "{##*a}",
            "{%b}",
            "{%%:*}",
            "{:-$y}",
            "{:-\"d e\"}",
            "{:?}",
            "{:-'d e'}",
        ];
        let more = [
            "{/a/b}",
            "{//[ab]/c}",
            "{:1}",
            "{:0:2}",
            "{:1:1}",
            "{/#a/b}",
            "{/%b/c}",
            "{: -2}",
            "{//a}",
            "{/a/$y}",
        ];
        let bash = ["{^}", "{^^}", "{,,}", "{,}", "{@Q}", "{@U}", "{^^[ab]}"];
        let text = match self.choices.below(if self.dialect.is_dash() { 5 } else { 8 }) {
            0..=3 => self.choices.one(&posix),
            5 | 6 => self.choices.one(&more),
            7 if self.dialect == Dialect::Bash => self.choices.one(&bash),
            7 => self.choices.one(&["{(U)}", "{(L)}", "{=}", "{(s.:.)}", "{(q)}"]),
            _ => return self.add(&format!("${{#{name}}}")),
        };
        let body = text.strip_prefix('{').unwrap_or(text);
        let (flags, body) = match body.split_once(')') {
            Some((flags, rest)) if body.starts_with('(') => (format!("{flags})"), rest),
            _ if body == "=}" => ("=".to_owned(), "}"),
            _ => (String::new(), body),
        };
        self.add(&format!("${{{flags}{name}{body}"));
    }

    pub(crate) fn substitution(&mut self) {
        if self.words >= 2 {
            return self.add("$(words)");
        }
        let backquoted = self.words == 0 && self.choices.once_in(4);
        let documents = std::mem::take(&mut self.documents);
        let depth = std::mem::replace(&mut self.depth, DEEPEST + 1);
        self.words += 1;
        self.add(if backquoted { "`" } else { "$(" });
        match self.choices.below(8) {
            0 => self.add("lines"),
            1 => self.add("words a"),
            2 => {
                let text = format!("echo {}", self.value());
                self.add(&text);
            }
            3 => {
                let text = format!("printf '%s\\n' {} b", self.value());
                self.add(&text);
            }
            4 if !backquoted => {
                let name = self.variable();
                self.add(&format!("echo \"${name}\""));
            }
            5 => {
                let text = format!("{}={}; alpha ${}", self.variable(), self.value(), self.variable());
                self.add(&text);
            }
            6 if !backquoted => self.simple(),
            _ => self.add("echo a | cat"),
        }
        self.add(if backquoted { "`" } else { ")" });
        self.words -= 1;
        self.depth = depth;
        self.documents = documents;
    }

    pub(crate) fn arithmetic(&mut self) {
        let name = self.variable();
        let all = [
            "1+2", "N", "N+1", "3*(2-1)", "N?4:5", "$N+1", "N=7", "N++", "1<2&&3", "010", "0x1f", "-7/2",
            "7%-3",
        ];
        let text = self.choices.one(&all).replace('N', name);
        self.add(&format!("$(({text}))"));
    }
}
