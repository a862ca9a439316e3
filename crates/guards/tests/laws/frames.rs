//! What can stand around a command so that a shell still runs it.

use super::quoted;

/// A name, and a text in which `A` on a line of its own stands for the command, `QUOTED` for the command as one word.
pub(crate) type Frame = (&'static str, &'static str);

/// Whatever is put in their place runs.
pub(crate) const FRAMES: &[Frame] = &[
    ("behind", "ls notes\nA\n"),
    ("before", "A\nls notes\n"),
    ("and", "ls notes && {\nA\n}"),
    ("or", "ls notes || {\nA\n}"),
    ("subshell", "(\nA\n)"),
    ("group", "{\nA\n}"),
    ("two groups", "{ {\nA\n} ; }"),
    ("function", "around() {\nA\n}\naround\n"),
    ("function of a subshell", "around() (\nA\n)\naround\n"),
    ("function of bash", "function around {\nA\n}\naround\n"),
    ("function in a function", "around() {\ninside() {\nA\n}\ninside\n}\naround\n"),
    ("then", "if test -f notes; then\nA\nfi\n"),
    ("else", "if test -f notes; then\n:\nelse\nA\nfi\n"),
    ("elif", "if test -f notes; then\n:\nelif test -f more; then\nA\nfi\n"),
    ("condition", "if\nA\nthen\nls notes\nfi\n"),
    ("while", "while test -f notes; do\nA\ndone\n"),
    ("condition of while", "while\nA\ndo\nbreak\ndone\n"),
    ("until", "until test -f notes; do\nA\ndone\n"),
    ("for", "for each_around in notes; do\nA\ndone\n"),
    ("for of files", "for each_around in *.txt; do\nA\ndone\n"),
    ("counted", "for ((count_around = 0; count_around < 2; count_around++)); do\nA\ndone\n"),
    ("case", "case $around in\n*)\nA\n;;\nesac\n"),
    ("case of one", "case notes in\n*.txt) ls ;;\nnotes)\nA\n;;\nesac\n"),
    ("pipe from it", "{\nA\n} | cat\n"),
    ("pipe to it", "ls notes | {\nA\n}\n"),
    ("in the middle of a pipe", "ls notes | {\nA\n} | cat\n"),
    ("not", "! {\nA\n}\n"),
    ("time", "time {\nA\n}\n"),
    ("job", "{\nA\n} &\n"),
    ("job and wait", "{\nA\n} &\nwait\n"),
    ("coprocess", "coproc {\nA\n}\n"),
    ("named coprocess", "coproc AROUND {\nA\n}\n"),
    ("at the end", "trap QUOTED EXIT\nls notes\n"),
    ("at a signal", "trap QUOTED INT TERM\nls notes\n"),
    ("substitution", "echo \"$(\nA\n)\"\n"),
    ("bare substitution", "echo $(\nA\n)\n"),
    ("substitution in an assignment", "printed_around=$(\nA\n)\n"),
    ("substitution in a here-document", "cat <<AROUND\n$(\nA\n)\nAROUND\n"),
    ("substitution in arithmetic", "echo $(( $(\nA\n) + 1 ))\n"),
    ("substitution in a default", "echo \"${around:-$(\nA\n)}\"\n"),
    ("input process", "cat <(\nA\n)\n"),
    ("output process", "ls notes > >(\nA\n)\n"),
    ("input process of a descriptor", "exec 7< <(\nA\n)\n"),
    ("eval", "eval QUOTED\n"),
    ("bash -c", "bash -c QUOTED\n"),
    ("sh -c with words", "sh -ec QUOTED around notes\n"),
    ("here-document", "bash <<'AROUND'\nA\nAROUND\n"),
    ("here-string", "bash <<< QUOTED\n"),
    ("variable", "text_around=QUOTED\neval \"$text_around\"\n"),
    ("array", "array_around=(QUOTED)\neval \"${array_around[0]}\"\n"),
    ("positional", "set -- QUOTED\neval \"$1\"\n"),
    ("argument of a function", "around() { eval \"$1\"; }\naround QUOTED\n"),
    ("read", "IFS= read -r -d '' read_around <<'AROUND'\nA\nAROUND\neval \"$read_around\"\n"),
    ("script", "cat > around.sh <<'AROUND'\nA\nAROUND\nsh around.sh\n"),
    ("sourced", "cat > around.sh <<'AROUND'\nA\nAROUND\n. ./around.sh\n"),
    ("descriptor", "exec 7<<'AROUND'\nA\nAROUND\nbash <&7\n"),
    ("descriptor of the command", "bash /dev/fd/7 7<<'AROUND'\nA\nAROUND\n"),
    ("descriptor of a process", "exec 7< <(cat <<'AROUND'\nA\nAROUND\n)\nbash <&7\n"),
    ("named descriptor", "exec {opened_around}<<'AROUND'\nA\nAROUND\nbash <&$opened_around\n"),
    ("printed to a shell", "printf '%s\\n' QUOTED | sh\n"),
    ("printed by cat", "cat <<'AROUND' | sh\nA\nAROUND\n"),
    ("descriptor to a process", "exec 5> >(sh)\nprintf '%s\\n' QUOTED >&5\n"),
    (
        "named descriptor to a process",
        "exec {opened_around}> >(sh)\nprintf '%s\\n' QUOTED >&$opened_around\n",
    ),
    ("descriptor of a group to a process", "{\nprintf '%s\\n' QUOTED >&5\n} 5> >(sh)\n"),
    ("everything printed to a process", "exec > >(sh) 2>&1\nprintf '%s\\n' QUOTED\n"),
    ("errors printed to a process", "exec 2> >(sh)\nprintf '%s\\n' QUOTED >&2\n"),
    ("process behind a process", "printf '%s\\n' QUOTED > >(cat) | sh\n"),
    ("written to a coprocess", "coproc sh\nprintf '%s\\n' QUOTED >&\"${COPROC[1]}\"\n"),
    (
        "written to a coprocess by its path",
        "coproc AROUND { cat | sh; }\nprintf '%s\\n' QUOTED > /dev/fd/${AROUND[1]}\n",
    ),
    ("read back from a coprocess", "coproc cat\nprintf '%s\\n' QUOTED >&${COPROC[1]}\nsh <&${COPROC[0]}\n"),
    ("startup file", "bash --rcfile <(printf '%s\\n' QUOTED) -i\n"),
    ("startup file of the home", "printf '%s\\n' QUOTED > .bashrc\nHOME=$PWD bash -i\n"),
    ("exported startup file", "printf '%s\\n' QUOTED > around.sh\nexport BASH_ENV=around.sh\nbash -c true\n"),
    ("sourced input", "printf '%s\\n' QUOTED | . /dev/fd/0\n"),
    ("sourced input of some number", "printf '%s\\n' QUOTED | source /proc/self/fd/$around\n"),
    ("script that is the input", "printf '%s\\n' QUOTED | sh /proc/$$/fd/0\n"),
    ("input by its path", "printf '%s\\n' QUOTED | cat /dev/stdin | sh\n"),
    ("soft link made before", "ln -s around.sh link.sh\nprintf '%s\\n' QUOTED > around.sh\nsh link.sh\n"),
    (
        "hard link made before",
        "touch around.sh\nln around.sh link.sh\nprintf '%s\\n' QUOTED > around.sh\nsh link.sh\n",
    ),
    ("link of a folder", "ln -s . folder\nprintf '%s\\n' QUOTED > around.sh\nsh folder/around.sh\n"),
    ("copied as a link", "cp -s around.sh link.sh\nprintf '%s\\n' QUOTED > around.sh\nsh link.sh\n"),
    (
        "copied with others",
        "printf '%s\\n' QUOTED > around.sh\ncp notes around.sh folder/\nsh folder/around.sh\n",
    ),
    (
        "copied in a folder",
        "printf '%s\\n' QUOTED > folder/around.sh\ncp -r folder other\nsh other/around.sh\n",
    ),
    ("found by its name", "printf '%s\\n' QUOTED > around.sh\nPATH=.:$PATH around.sh\n"),
    ("found by the name of another", "printf '%s\\n' QUOTED > bin/ls\nexport PATH=\"$PWD/bin:$PATH\"\nls\n"),
    ("sent to a shell elsewhere", "ssh host.example <<'AROUND'\ncd /work/project\nA\nAROUND\n"),
    ("sent to a shell of another user", "su - <<< QUOTED\n"),
    ("prompt of a trace", "PS4='$(eval \"$around\")'\naround=QUOTED\nset -x\n"),
    ("printed into an element", "printf -v 'array_around[1]' %s QUOTED\neval \"${array_around[1]}\"\n"),
    ("element by a word", "declare -A table_around\ntable_around[k1]=QUOTED\neval \"${table_around[k1]}\"\n"),
    ("chosen", "select text_around in QUOTED; do eval \"$text_around\"; done\n"),
    ("expanded again", "set -- QUOTED\ntext_around='$(eval \"$1\")'\n: \"${text_around@P}\"\n"),
    ("subscript", "set -- QUOTED\nsubscript_around='array_around[$(eval \"$1\")]'\n(( subscript_around ))\n"),
    ("subscript of a name", "set -- QUOTED\nread 'array_around[$(eval \"$1\")]' <<< x\n"),
    ("subscript in a test", "set -- QUOTED\n[[ -v 'array_around[$(eval \"$1\")]' ]]\n"),
    ("callback", "around() {\nA\n}\nmapfile -C around -c 1 < notes\n"),
    ("completion", "complete -C QUOTED ls\n"),
    ("table of aliases", "BASH_ALIASES[around]=QUOTED\neval around\n"),
    ("table of functions", "functions[around]=QUOTED\naround\n"),
    ("hook", "precmd() {\nA\n}\n"),
    ("list of hooks", "chpwd_functions=(around)\naround() {\nA\n}\n"),
    ("history", "history -s QUOTED\nfc -s\n"),
    ("repeated", "repeat 2 eval QUOTED\n"),
    ("through sed", "printf '%s\\n' QUOTED | sed -e 's/QUITE ELSE/else/' | sh\n"),
    ("through cut", "printf '%s\\n' QUOTED | cut -c1-9000 | sh\n"),
    ("through a program", "printf '%s\\n' QUOTED | some-filter | sh\n"),
    (
        "branches to other folders",
        "if test -f notes; then cd /work/project; else cd /work/project/lib; fi\nA\n",
    ),
    ("sent to a shell of root", "sudo -s <<< QUOTED\n"),
];

/// The command in the frame; `None` where it can't stand there as text.
pub(crate) fn framed(frame: &str, command: &str) -> Option<String> {
    let as_line = frame.contains("\nA\n") || frame.starts_with("A\n");
    // A line of its own ends whatever document has that line for its end.
    if as_line && command.contains("AROUND") {
        return None;
    }
    let mut text = String::new();
    for line in frame.split_inclusive('\n') {
        if line == "A\n" {
            text.push_str(command);
            text.push('\n');
        } else {
            text.push_str(&line.replace("QUOTED", &quoted(command)));
        }
    }
    Some(text)
}
