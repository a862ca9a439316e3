//! Processes behind descriptors, and code that a shell runs by itself, in generated programs.

use super::generator::{DESCRIPTORS, Dialect, Generator};

impl Generator {
    /// `>(...)`, `coproc`, `exec` with redirections alone.
    pub(crate) fn process(&mut self) {
        let number = self.choices.one(&DESCRIPTORS);
        let name = self.variable();
        let value = self.value();
        let posix = [
            "exec D< k1; read N <&D; alpha \"$N\"; exec D<&-",
            "{ echo V >&D; } D> n1; read N < n1; alpha \"$N\"",
            "{ echo V >&2; } 2> n2; read N < n2; beta $N",
            "exec D> n3; echo V >&D; exec D>&-; cat n3 | while read N; do alpha $N; done",
            "echo 'alpha a' | . /dev/stdin",
            "echo 'beta $x' | cat /dev/stdin | { read N; eval \"$N\"; }",
            "( exec < k1; read N; alpha $N; read N y; beta $y )",
            "( exec > n1; echo V; gamma a ); read N < n1; alpha $N",
        ];
        let more = [
            "exec D> >(while read N; do alpha \"$N\"; done); echo V >&D; exec D>&-; wait",
            "{ echo V >&D; echo b; } D> >(read N; beta $N); wait",
            "{ echo V; gamma; } > >(while read N; do alpha $N; done); wait",
            "exec {fd}> >(read N; alpha \"$N\"); echo V >&$fd; exec {fd}>&-; wait",
            "echo V > >(cat) | { read N; alpha $N; }",
        ];
        let bash = [
            "coproc { read N; alpha \"$N\"; }; echo V >&${COPROC[1]}; wait",
            "coproc W { while read N; do beta $N; done; }; echo V >&${W[1]}",
            "coproc cat; echo V >&${COPROC[1]}; read N <&${COPROC[0]}; alpha \"$N\"",
        ];
        let text = match self.choices.below(6) {
            0..=2 => self.choices.one(&posix),
            5 if self.dialect == Dialect::Bash => self.choices.one(&bash),
            3.. if !self.dialect.is_dash() => self.choices.one(&more),
            _ => self.choices.one(&posix),
        };
        let text = text.replace('N', name).replace('V', value).replace('D', number);
        self.add(&text);
    }

    /// Prompts, subscripts, hooks, tables and lists of choices.
    pub(crate) fn by_itself(&mut self) {
        let name = self.variable();
        let value = self.value();
        let bash = [
            "PS4='$(alpha p)'; set -x; beta a; set +x",
            "N='$(alpha e)'; beta \"${N@P}\"",
            "N='v[$(alpha s)]'; (( N )); beta",
            "[[ -v 'v[$(alpha t)]' ]]; unset 'v[$(beta u)]'",
            "printf -v 'v[1]' '%s' V; alpha \"${v[1]}\"",
            "declare -A m; m[k1]=V; m[b]=c; beta \"${m[k1]}\" \"${m[b]}\"",
            "declare -a w='(V b)'; alpha \"${w[@]}\"",
            "N=1; v=(a b); v[N]=V; alpha \"${v[1]}\" \"${v[@]}\"",
            "f9() { alpha \"$1\"; }; mapfile -t -C f9 -c 1 v < k1",
            "shopt -s expand_aliases; BASH_ALIASES[la]='alpha V'; eval la",
            "compgen -C 'alpha c' w > n1",
            "N=V; beta \"${N@Q}\"; eval \"y=${N@Q}\"; alpha \"$y\"",
            "command_not_found_handle() { alpha \"$@\"; }; nowhere a",
        ];
        let zsh = [
            "N='$(alpha e)'; beta ${(e)N}",
            "chpwd_functions=(f9); f9() { alpha; }; cd .",
            "functions[f9]='alpha V'; f9",
            "repeat 2 alpha V",
            "alias -g Q=V; alpha Q",
            "alpha ${:-V}",
            "typeset -A m; m[k1]=V; beta \"${m[k1]}\"",
            "command_not_found_handler() { alpha \"$@\"; }; nowhere a",
        ];
        let more = [
            "select N in a V; do alpha $N; break; done <<< 2",
            "select N in a b; do beta \"$N\"; break; done < k3",
        ];
        let text = match self.choices.below(4) {
            0 if !self.dialect.is_dash() => self.choices.one(&more),
            _ if self.dialect == Dialect::Bash => self.choices.one(&bash),
            _ if self.dialect == Dialect::Zsh => self.choices.one(&zsh),
            _ => "alpha $((x + 1))",
        };
        let text = text.replace('N', name).replace('V', value);
        self.add(&text);
    }
}
