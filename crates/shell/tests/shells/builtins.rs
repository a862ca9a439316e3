//! Builtins of generated programs: what changes the shell itself.

use super::generator::{DESCRIPTORS, Dialect, Generator, OPTIONS};

impl Generator {
    pub(crate) fn evaluated(&mut self) {
        let name = self.variable();
        let text = match self.choices.below(9) {
            0 => "eval 'alpha $x'".to_owned(),
            1 => format!("eval \"beta ${name}\""),
            2 => format!("eval ${name}"),
            3 => format!("eval \"{name}={}\"; gamma ${name}", self.choices.one(&["q", "'q r'", "\\$y"])),
            4 => format!("eval \"${name} a\" b"),
            5 => format!("echo 'alpha \"$1\" $x; {name}=sourced' > n1; . ./n1 p; beta ${name}"),
            6 => format!("eval \"\\${name}\""),
            7 => format!("eval 'f() {{ alpha \"$1\" ${name}; }}'; f r s"),
            _ => format!("eval \"eval 'delta ${name}'\""),
        };
        self.add(&text);
    }

    pub(crate) fn positional(&mut self) {
        let name = self.variable();
        let all = [
            "set -- a 'b c' d",
            "set -- $N",
            "set -- \"$N\" e",
            "shift",
            "shift 2",
            "set a b",
            "set -- k*",
            "set -- \"$@\" f",
            "set --",
        ];
        let text = self.choices.one(&all).replace('N', name);
        self.add(&text);
        if self.choices.once_in(3) {
            self.add("; alpha \"$@\" $1");
        }
    }

    pub(crate) fn declared(&mut self) {
        let name = self.variable();
        let value = self.value();
        let more = [
            "declare N=V",
            "typeset N=V",
            "declare -i N; N=2+3",
            "declare -r N=V",
            "typeset -u N; N=V",
            "typeset -l N=V",
            "export N",
        ];
        let bash = [
            "declare -n N=y",
            "declare -a v=(V b)",
            "declare -g N=V",
            "unset -v N",
            "declare -A m; m[a]=V; beta ${m[a]}",
        ];
        let text = match self.choices.below(12) {
            0 => "unset N",
            1 => "export N=V",
            2 => "readonly N=V",
            3 => "unset -f beta",
            4 | 5 if self.inside_function => {
                self.choices.one(&["local N=V", "local N", "local N=V y=$N", "local N; N=V"])
            }
            6..=8 if !self.dialect.is_dash() => self.choices.one(&more),
            9 | 10 if self.dialect == Dialect::Bash => self.choices.one(&bash),
            11 => "N=V; unset N; alpha ${N-gone}",
            _ => "N=V; export N",
        };
        let text = text.replace('N', name).replace('V', value);
        self.add(&text);
        self.add(&format!("; alpha \"${name}\""));
    }

    pub(crate) fn reading(&mut self) {
        let name = self.variable();
        let value = self.value();
        let posix = [
            "read N < k1",
            "read N y < k2",
            "IFS=: read N y < k2",
            "echo V > n2; read N < n2",
            "{ read N; read y; } < k1",
            "printf '%s\\n' V b | { read N; read y; beta \"$N\" $y; }",
            "echo V | while read N; do y=$N; done",
        ];
        let more = [
            "read N <<< V",
            "IFS=: read N y <<< V",
            "read -r N y <<< V",
            "read N < <(lines)",
            "echo V | read N",
            "read -d : N <<< V",
        ];
        let bash = [
            "read -a v <<< V",
            "mapfile -t v < k1; beta \"${v[@]}\"",
            "printf -v N '%s-%s' a V",
            "let 'N=3+4'",
            "readarray -t v <<< V; beta \"${v[@]}\"",
            "read -n 2 N <<< V",
            "shopt -s lastpipe; echo V | read N",
        ];
        let text = match self.choices.below(6) {
            3 | 4 if !self.dialect.is_dash() => self.choices.one(&more),
            5 if self.dialect == Dialect::Bash => self.choices.one(&bash),
            5 if self.dialect == Dialect::Zsh => {
                self.choices.one(&["read -A v <<< V", "let 'N=3+4'", "print V | read N"])
            }
            _ => self.choices.one(&posix),
        };
        let text = text.replace('N', name).replace('V', value);
        self.add(&format!("{text}; alpha \"${name}\" ${name}"));
    }

    pub(crate) fn descriptor(&mut self) {
        let number = self.choices.one(&DESCRIPTORS);
        let name = self.variable();
        let text = match self.choices.below(9) {
            0 => format!(
                "exec {number}< k1; read {name} <&{number}; alpha ${name}; read {name} <&{number}; beta ${name}"
            ),
            1 => format!(
                "exec {number}> n1; echo a b >&{number}; exec {number}>&-; read {name} < n1; alpha ${name}"
            ),
            2 => format!(
                "echo q > n3; exec {number}< n3; read {name} <&{number}; alpha ${name}; exec {number}<&-"
            ),
            3 => format!("{{ read {name} <&{number}; alpha ${name}; }} {number}< k2"),
            4 => format!("{{ echo a >&{number}; echo b; }} {number}> n1 | {{ read {name}; alpha ${name}; }}"),
            5 => "x=$(alpha a 2>&1 >n1); beta $x".to_owned(),
            6 if self.dialect == Dialect::Bash => {
                format!("read -u {number} {name} {number}<<< 'u v'; alpha ${name}")
            }
            7 if !self.dialect.is_dash() => format!("exec {{fd}}< k1; read {name} <&$fd; alpha ${name}"),
            _ => format!("while read {name} <&{number}; do alpha ${name}; done {number}< k1"),
        };
        self.add(&text);
    }

    pub(crate) fn trap(&mut self) {
        let name = self.variable();
        let all = [
            "trap 'alpha $N' EXIT",
            "trap \"beta $N\" EXIT",
            "trap 'gamma; exit' 0",
            "trap - EXIT",
            "(trap 'alpha sub $N' EXIT; N=late)",
            "trap 'delta $N' USR1",
        ];
        let text = self.choices.one(&all).replace('N', name);
        self.add(&text);
    }

    pub(crate) fn alias(&mut self) {
        if self.dialect == Dialect::Bash && self.choices.once_in(2) {
            self.add("shopt -s expand_aliases");
            self.end_line();
        }
        let all = [
            "alias la='alpha x'",
            "alias la='alpha '",
            "alias la='x=1 beta'",
            "alias la=gamma lb='a b'",
            "alias beta='beta -q'",
            "alias la='alpha;'",
            "alias la='echo a | while read x; do alpha $x; done;'",
        ];
        let text = self.choices.one(&all);
        self.add(text);
        self.end_line();
        let call = self.choices.one(&["la b", "la lb", "\\la b", "beta c", "la; unalias la", "x=la; $x b"]);
        self.add(call);
    }

    pub(crate) fn array(&mut self) {
        if self.dialect.is_dash() {
            return self.assignment();
        }
        let value = self.value();
        let all = [
            "v=(a 'b c' d)",
            "v=(V $x)",
            "v+=(V)",
            "v=(); alpha \"${v[@]}\" e",
            "v[1]=V",
            "v=($x)",
            "v=(k*)",
            "v=(alpha V); \"${v[@]}\"",
            "unset 'v[1]'",
            "for x in \"${v[@]}\"; do alpha \"$x\"; done",
        ];
        let text = self.choices.one(&all).replace('V', value);
        self.add(&text);
        self.add("; beta \"${v[@]}\" ${v[1]}");
    }

    pub(crate) fn counted_loop(&mut self) {
        self.counters += 1;
        let counter = format!("i{}", self.counters);
        match self.choices.below(4) {
            3 if !self.dialect.is_dash() => {
                self.add(&format!("for (({counter}=0; {counter}<3; {counter}++)); do\nalpha ${counter}\n"));
            }
            2 => self
                .add(&format!("{counter}=0\nuntil [ ${counter} -ge 2 ]; do\n{counter}=$(({counter}+1))\n")),
            _ => self.add(&format!(
                "{counter}=0\nwhile [ ${counter} -lt 3 ]; do\n{counter}=$(({counter}+1))\nalpha ${counter}\n"
            )),
        }
        self.block();
        if self.choices.once_in(3) {
            let text = self.choices.one(&["break", "continue", "x=$x$x; y=$x", "if parity; then break; fi"]);
            self.add(text);
            self.end_line();
        }
        self.add("done");
    }

    pub(crate) fn leaving(&mut self) {
        self.add("if ");
        self.condition();
        self.add("; then ");
        let way = match self.choices.below(5) {
            0 if self.inside_function => "return 1",
            1 => "exec alpha gone",
            2 => "exit 3",
            3 if self.inside_function => "return",
            _ => "alpha stays",
        };
        self.add(way);
        self.add("; fi");
    }

    pub(crate) fn special(&mut self) {
        let name = self.variable();
        let text = match self.choices.below(12) {
            0 => self.choices.one(&OPTIONS).to_owned(),
            1 => format!("IFS=:; alpha ${name}"),
            2 => "alpha a & wait".to_owned(),
            3 => format!("{{ {name}=bg; alpha ${name}; }} & wait; beta \"${name}\""),
            4 if !self.dialect.is_dash() => "cat <(lines) <(echo a)".to_owned(),
            5 if !self.dialect.is_dash() => "lines > >(while read x; do alpha $x; done); wait".to_owned(),
            6 if self.dialect == Dialect::Bash => {
                let option = self.choices.one(&["nullglob", "extglob", "dotglob", "nocasematch"]);
                format!("shopt -s {option}; alpha q* k*")
            }
            6 if self.dialect == Dialect::Zsh => {
                let option = self.choices.one(&[
                    "sh_word_split",
                    "ksh_arrays",
                    "null_glob",
                    "glob_subst",
                    "no_nomatch",
                ]);
                format!("setopt {option}; alpha ${name} ${{v[1]}}")
            }
            7 if self.dialect == Dialect::Bash => format!("alpha ${{!{name}}}"),
            7 if self.dialect == Dialect::Zsh => format!("alpha ${{(P){name}}} $=x ${{~y}}"),
            8 => format!("unset IFS; alpha ${name}"),
            9 => format!("type {name}; command -v alpha; hash -r; beta $(command -v gamma)"),
            10 => "f() { alpha \"$#\" \"$@\"; }; f $x \"$y\"".to_owned(),
            11 => "! fails; alpha $?".to_owned(),
            _ => format!("alpha \"${{{name}:-$(words)}}\""),
        };
        self.add(&text);
    }
}
