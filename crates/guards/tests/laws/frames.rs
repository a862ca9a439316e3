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
