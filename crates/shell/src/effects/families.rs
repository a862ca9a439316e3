//! Families of programs with the same effects.

use super::{Action, Touch};
use crate::marks::has_hole;
use crate::options::{Name, Options};
use crate::programs::{Formats, Operands, Programs, Touches};

/// Returns what `program` does to files when it gets `args`.
pub(crate) fn of_program(programs: &Programs, program: &str, args: &[&str]) -> Vec<Touch> {
    let options = Options::parse(args, programs.takes(program));
    if options.only_help() {
        return Vec::new();
    }
    if program == "type" && options.operands.iter().any(|path| path.contains(['/', '.', '\\'])) {
        return touches(Action::Read, &options.operands);
    }
    let Some(touched) = programs.touches(program) else { return readers(args) };
    match touched {
        Touches::Nothing => Vec::new(),
        // An agent's own tool takes the patch itself.
        Touches::Patches => touches(Action::Write, options.operands.get(..1).unwrap_or_default())
            .into_iter()
            .filter(|touch| !touch.path.contains('\n'))
            .collect(),
        Touches::Operands(operands) => each(operands, &options),
        Touches::Deletes => deletions(program, &options, args, false),
        Touches::DeletesAll => deletions(program, &options, args, true),
        Touches::Moves => moves(&options),
        Touches::Copies => copies(Action::Read, &options),
        Touches::Links => copies(Action::List, &options),
        Touches::Modes => modes(args, &options),
        Touches::AccessLists => access_lists(&options),
        Touches::Owners => owners(&options),
        Touches::Dd => dd(args),
        Touches::Sed => sed(args, &options),
        Touches::InPlace if options.short('i') => rewritten(args),
        Touches::InPlace => readers(args),
        Touches::Rsync => rsync(&options),
        Touches::Scp => scp(&options),
        Touches::Tar => tar(&options),
        Touches::Unpacks => unpacked(programs.fills(program, args), args),
        Touches::ContainerCopies if args.first() == Some(&"cp") => {
            touches(Action::Read, args.get(1..2).unwrap_or_default())
        }
        Touches::ContainerCopies => Vec::new(),
        Touches::Transfers => fetchers(program, &options),
        Touches::Git => git(args),
        Touches::Socat => socat(args),
        Touches::Openssl => openssl(args),
        Touches::Formats(what) => formats(what, args, &options),
    }
}

/// Returns the same action on each of the operands.
fn each(what: &Operands, options: &Options<'_>) -> Vec<Touch> {
    let skip = if what.unless.any_in(options) { 0 } else { what.skip };
    let action = if what.append.any_in(options) { Action::Append } else { what.action };
    let files = options.operands.get(skip..).unwrap_or_default();
    let files = what.most.and_then(|most| files.get(..most)).unwrap_or(files);
    let mut all = touches(action, files);
    all.extend(touches(action, &what.values.values_in(options)));
    all
}

fn touches(action: Action, paths: &[&str]) -> Vec<Touch> {
    paths.iter().filter(|path| !path.is_empty()).map(|path| Touch::new(action, *path)).collect()
}

/// A program without a reading of its own: every argument that could be a file, also behind `=`, `@`.
fn readers(args: &[&str]) -> Vec<Touch> {
    let mut all = Vec::new();
    for arg in args.iter().filter(|arg| **arg != "-") {
        let candidate = match arg.strip_prefix('-') {
            Some(rest) => match rest.split_once('=') {
                Some((_, value)) => value,
                // `-f.env`, `-f/etc/passwd`: a value attached to a short option.
                None if rest.len() > 2 && !rest.starts_with('-') => rest.get(1..).unwrap_or_default(),
                None => continue,
            },
            None => arg,
        };
        if candidate.starts_with("http://") || candidate.starts_with("https://") {
            continue;
        }
        let candidate = candidate.strip_prefix('@').unwrap_or(candidate);
        // Prose and commands given as one argument are not paths.
        if candidate.contains(' ')
            && !candidate.starts_with(['/', '~', '.'])
            && !candidate.starts_with("file:")
        {
            continue;
        }
        if !candidate.is_empty() {
            all.push(Touch::new(Action::Read, candidate));
        }
    }
    all
}

fn deletions(program: &str, options: &Options<'_>, args: &[&str], all: bool) -> Vec<Touch> {
    let switch = |arg: &str| {
        let letters = arg.strip_prefix('/').unwrap_or_default();
        !letters.is_empty() && letters.split('/').all(|letter| letter.len() == 1)
    };
    let slashed = args.iter().any(|arg| switch(arg) && arg.to_ascii_lowercase().contains(['s', 'q']));
    let windows = matches!(program, "del" | "erase" | "rd") || program == "rmdir" && slashed;
    let cmdlet = matches!(program, "remove-item" | "ri");
    let has = |name: &str| args.iter().any(|arg| switch(arg) && arg.to_ascii_lowercase().contains(name));
    let prefixed =
        |name: &str| args.iter().any(|arg| arg.len() > 2 && name.starts_with(&arg.to_ascii_lowercase()));
    let recursive = options.has('r', "recursive")
        || options.short('R')
        || all
        || windows && has("/s")
        || cmdlet && prefixed("-recurse");
    let force = options.has('f', "force")
        || matches!(program, "shred" | "gshred")
        || all
        || windows && (has("/q") || has("/f"))
        || cmdlet && prefixed("-force");
    let operands: Vec<&str> = if windows {
        options.operands.iter().copied().filter(|arg| !switch(arg)).collect()
    } else if cmdlet {
        args.iter().copied().filter(|arg| !arg.starts_with('-')).collect()
    } else {
        options.operands.clone()
    };
    let mut all = touches(Action::Delete, &operands);
    for touch in &mut all {
        touch.recursive = recursive;
        touch.force = force;
    }
    all
}

fn moves(options: &Options<'_>) -> Vec<Touch> {
    let target = options.value(Some('t'), "target-directory");
    let (last, sources) = match (target, options.operands.split_last()) {
        (Some(target), _) => (Some(target), options.operands.as_slice()),
        (None, Some((last, sources))) => (Some(*last), sources),
        (None, None) => (None, &[][..]),
    };
    let mut all = touches(Action::Move, sources);
    for touch in &mut all {
        touch.recursive = true;
    }
    all.extend(placed(target.is_some(), last, sources));
    all
}

/// Returns where copies and moves arrive: at the last operand, and in it under their own names where it is known to be a
/// folder.
fn placed(named_as_folder: bool, last: Option<&str>, sources: &[&str]) -> Vec<Touch> {
    let Some(last) = last else { return Vec::new() };
    let mut all = vec![Touch::new(Action::Place, last)];
    let by_name = matches!(last, "." | ".." | "~")
        || last.ends_with(['/', '\\'])
        || last.ends_with("/..")
        || last.ends_with("/.");
    if named_as_folder || by_name || sources.len() > 1 {
        let name =
            |source: &&str| source.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        let names = sources.iter().map(name).filter(|name| !name.is_empty() && name != "." && name != "..");
        all.extend(
            names.map(|name| Touch::new(Action::Place, format!("{}/{name}", last.trim_end_matches('/')))),
        );
    }
    all
}

fn copies(action: Action, options: &Options<'_>) -> Vec<Touch> {
    let target = options.value(Some('t'), "target-directory");
    let (last, sources) = match (target, options.operands.split_last()) {
        (Some(target), _) => (Some(target), options.operands.as_slice()),
        (None, Some((last, sources))) => (Some(*last), sources),
        (None, None) => (None, &[][..]),
    };
    let mut all = touches(action, sources);
    all.extend(placed(target.is_some(), last, sources));
    all
}

fn access_lists(options: &Options<'_>) -> Vec<Touch> {
    let mut all = touches(Action::Mode, &options.operands);
    all.iter_mut().for_each(|touch| touch.recursive = options.has('R', "recursive"));
    all
}

fn modes(args: &[&str], options: &Options<'_>) -> Vec<Touch> {
    // A mode may look like an option (`-w`, `-rwx`).
    let mut words = args.iter().copied().filter(|arg| {
        let is_option = arg.strip_prefix('-').is_some_and(|rest| rest.chars().all(|c| "RvcfHLP".contains(c)));
        !arg.starts_with("--") && !is_option
    });
    let referenced = options.value(None, "reference").is_some();
    let mode = if referenced { "" } else { words.next().unwrap_or_default() };
    let exposes = mode_exposes(mode);
    let mut all = touches(if exposes { Action::Expose } else { Action::Mode }, &words.collect::<Vec<_>>());
    for touch in &mut all {
        touch.recursive = options.short('R') || options.long("recursive");
    }
    all
}

/// True for modes that let everybody write, nobody in, or anybody be the owner.
fn mode_exposes(mode: &str) -> bool {
    if !mode.is_empty() && mode.bytes().all(|b| b.is_ascii_digit()) {
        let digits: Vec<u32> = mode.chars().filter_map(|c| c.to_digit(8)).collect();
        let special = digits.len() > 3 && digits.iter().rev().nth(3).is_some_and(|d| d & 6 != 0);
        let all_write = digits.last().is_some_and(|others| others & 2 != 0);
        let nobody = digits.iter().all(|digit| *digit == 0);
        return special || all_write || nobody;
    }
    mode.split(',').any(|clause| {
        let Some(at) = clause.find(['+', '=', '-']) else { return false };
        let (who, change) = clause.split_at_checked(at).unwrap_or((clause, ""));
        let adds = change.starts_with(['+', '=']);
        let all = who.is_empty() && change.starts_with("+w") || who.contains(['a', 'o']);
        let nothing = change == "=" || who.contains('a') && change == "-rwx";
        adds && (all && change.contains('w') || change.contains('s')) || nothing
    })
}

fn owners(options: &Options<'_>) -> Vec<Touch> {
    let skip = usize::from(options.value(None, "reference").is_none());
    let mut all = touches(Action::Own, options.operands.get(skip..).unwrap_or_default());
    for touch in &mut all {
        touch.recursive = options.short('R') || options.long("recursive");
    }
    all
}

fn dd(args: &[&str]) -> Vec<Touch> {
    let mut all = Vec::new();
    for arg in args {
        if let Some(path) = arg.strip_prefix("of=") {
            all.push(Touch::new(Action::Write, path));
        } else if let Some(path) = arg.strip_prefix("if=") {
            all.push(Touch::new(Action::Read, path));
        }
    }
    all
}

/// Returns the files behind the code that rewrites them.
fn rewritten(args: &[&str]) -> Vec<Touch> {
    let code = args.iter().position(|arg| arg.starts_with('-') && arg.ends_with('e')).map_or(0, |at| at + 2);
    let files = args.get(code..).unwrap_or_default().iter().copied();
    touches(Action::Write, &files.filter(|arg| !arg.starts_with('-')).collect::<Vec<_>>())
}

fn sed(args: &[&str], options: &Options<'_>) -> Vec<Touch> {
    let in_place = args.iter().any(|arg| {
        arg.starts_with("--in-place") || arg.starts_with('-') && !arg.starts_with("--") && arg.contains('i')
    });
    let scripted =
        options.value(Some('e'), "expression").is_some() || options.value(Some('f'), "file").is_some();
    let action = if in_place { Action::Write } else { Action::Read };
    touches(action, options.operands.get(usize::from(!scripted)..).unwrap_or_default())
}

/// True for `host:path` and `rsync://` forms.
pub(crate) fn is_remote(path: &str) -> bool {
    if path.contains("://") {
        return true;
    }
    match path.split_once(':') {
        Some((host, _)) => !host.is_empty() && !host.contains('/') && host.len() > 1,
        None => false,
    }
}

fn rsync(options: &Options<'_>) -> Vec<Touch> {
    if options.has('n', "dry-run") || options.long("list-only") {
        return Vec::new();
    }
    let Some((last, sources)) = options.operands.split_last() else { return Vec::new() };
    let local: Vec<&str> = sources.iter().copied().filter(|path| !is_remote(path)).collect();
    let mut all = touches(Action::Read, &local);
    let deletes = options.names().any(|name| matches!(name, Name::Long(long) if long.starts_with("del")));
    if !is_remote(last) {
        let mut touch = Touch::new(if deletes { Action::Delete } else { Action::Place }, *last);
        touch.recursive = deletes;
        touch.force = deletes;
        all.push(touch);
    }
    if options.long("remove-source-files") {
        all.extend(touches(Action::Move, &local));
    }
    all
}

fn scp(options: &Options<'_>) -> Vec<Touch> {
    let Some((last, sources)) = options.operands.split_last() else { return Vec::new() };
    let mut all = touches(Action::Read, sources);
    all.extend(Some(*last).filter(|path| !is_remote(path)).map(|path| Touch::new(Action::Place, path)));
    all
}

fn tar(options: &Options<'_>) -> Vec<Touch> {
    let creates = options.has('c', "create") || options.has('r', "append") || options.has('u', "update");
    let extracts = options.has('x', "extract") || options.long("get");
    let mut all = Vec::new();
    let members = options.operands.as_slice();
    let archive = options.value(Some('f'), "file");
    let directory = options.value(Some('C'), "directory");
    if creates {
        let inside = |member: &&str| match directory {
            Some(directory) if !member.starts_with(['/', '~']) => format!("{directory}/{member}"),
            _ => (*member).to_owned(),
        };
        let members = members.iter().filter(|member| !member.is_empty());
        all.extend(members.map(|member| Touch::new(Action::Read, inside(member))));
        all.extend(
            archive
                .filter(|path| *path != "-" && !is_remote(path))
                .map(|path| Touch::new(Action::Place, path)),
        );
    } else {
        all.extend(archive.filter(|path| *path != "-").map(|path| Touch::new(Action::Read, path)));
        if extracts {
            all.push(directory.map_or_else(|| Touch::new(Action::Place, "."), filled));
            // The members that are asked for, and those that may lie anywhere.
            let folder = directory.unwrap_or(".");
            let placed = members.iter().filter(|member| !member.contains('='));
            all.extend(placed.map(|member| Touch::new(Action::Place, format!("{folder}/{member}"))));
            if options.has('P', "absolute-names") {
                all.push(filled("/"));
            }
        }
        if !extracts && archive.is_none() {
            all.extend(touches(Action::Read, members));
        }
    }
    if creates && options.long("remove-files") {
        all.extend(touches(Action::Move, members));
    }
    all
}

/// A directory that an archive is unpacked into.
fn filled(directory: &str) -> Touch {
    let mut touch = Touch::new(Action::Place, directory);
    touch.recursive = true;
    touch
}

fn unpacked(into: Option<&str>, args: &[&str]) -> Vec<Touch> {
    let mut all = readers(args);
    all.push(into.map_or_else(|| Touch::new(Action::Place, "."), filled));
    all
}

fn fetchers(program: &str, options: &Options<'_>) -> Vec<Touch> {
    let mut all = Vec::new();
    if let Some(name) = remote_name(program, options) {
        all.push(Touch::new(Action::Place, name));
    }
    for path in options.values(Some('o'), "output").chain(options.values(Some('O'), "output-document")) {
        if path != "-" {
            all.push(Touch::new(Action::Place, path));
        }
    }
    let folders = options.values(None, "output-dir").chain(options.values(Some('P'), "directory-prefix"));
    all.extend(folders.map(|folder| Touch::new(Action::Place, folder)));
    for (name, value) in options.every_value() {
        let Some(file) = sent_file(name, value) else { continue };
        all.extend(
            file.split([',', ';'])
                .next()
                .filter(|f| !f.is_empty() && *f != "-")
                .map(|file| Touch::new(Action::Read, file)),
        );
    }
    for long in ["upload-file", "post-file", "body-file", "config"] {
        let short = (long == "upload-file").then_some('T');
        all.extend(options.values(short, long).map(|path| Touch::new(Action::Read, path)));
    }
    all.extend(
        options
            .operands
            .iter()
            .filter(|url| url.starts_with("file:"))
            .map(|url| Touch::new(Action::Read, *url)),
    );
    all
}

/// Returns the file that a value of an option names whose content is sent: `@file`, `name=@file`, `name=<file`; `name@file`
/// of what encodes, and a cookie that is none.
fn sent_file<'a>(name: Name<'_>, value: &'a str) -> Option<&'a str> {
    let attached = value.split_once("=@").or_else(|| value.split_once("=<")).map(|(_, file)| file);
    let encoded = || {
        let encodes = matches!(name, Name::Long("data-urlencode" | "url-query" | "variable"));
        value.split_once('@').filter(|(front, _)| encodes && !front.contains('=')).map(|(_, file)| file)
    };
    let cookie = || {
        let is_cookie = matches!(name, Name::Short('b') | Name::Long("cookie"));
        Some(value).filter(|value| is_cookie && !value.contains('='))
    };
    value.strip_prefix('@').or(attached).or_else(encoded).or_else(cookie)
}

/// Returns the name that a fetched file has at its source, where it is stored under that.
fn remote_name<'a>(program: &str, options: &Options<'a>) -> Option<&'a str> {
    let is_stored = match program {
        "curl" => options.has('O', "remote-name"),
        _ => options.value(Some('O'), "output-document").is_none() && !options.long("spider"),
    };
    let url = options.operands.first().filter(|_| is_stored)?;
    let name = url.split(['?', '#']).next()?.rsplit('/').next()?;
    Some(name).filter(|name| url.contains('/') && !name.is_empty() && !name.starts_with('-'))
}

fn git(args: &[&str]) -> Vec<Touch> {
    // Blobs by revision: `git show HEAD:.ssh/id_rsa`, `git cat-file -p HEAD:x`.
    let reads = args.iter().any(|arg| matches!(*arg, "show" | "cat-file" | "archive"));
    let mut all = Vec::new();
    for arg in args.iter().filter(|arg| reads && !arg.starts_with('-')) {
        if let Some((_, path)) =
            arg.split_once(':').filter(|(_, path)| !path.is_empty() && !path.starts_with('/'))
        {
            all.push(Touch::new(Action::Read, path));
        }
    }
    if let Some(at) = args.iter().position(|arg| *arg == "--no-index") {
        all.extend(touches(Action::Read, args.get(at + 1..).unwrap_or_default()));
    }
    all
}

fn socat(args: &[&str]) -> Vec<Touch> {
    args.iter()
        .filter_map(|arg| arg.split_once(':'))
        .filter(|(kind, _)| matches!(kind.to_ascii_uppercase().as_str(), "OPEN" | "FILE" | "GOPEN"))
        .map(|(_, rest)| Touch::new(Action::Read, rest.split(',').next().unwrap_or(rest)))
        .collect()
}

/// Returns all arguments that could be read, without those that are written.
fn openssl(args: &[&str]) -> Vec<Touch> {
    let writes = |arg: &&str| matches!(*arg, "-out" | "-keyout" | "-CAserial");
    let behind = |at: usize| at.checked_sub(1).and_then(|before| args.get(before));
    let kept = args.iter().enumerate().filter(|(at, _)| !behind(*at).is_some_and(&writes));
    readers(&kept.map(|(_, arg)| *arg).collect::<Vec<_>>())
}

fn formats(what: &Formats, args: &[&str], options: &Options<'_>) -> Vec<Touch> {
    let any = |words: &[String]| args.iter().any(|arg| is_one_of(arg, words)) || given(words, options);
    let pretends = any(&what.pretends);
    if pretends || only_looks(&what.looks, options) || !what.only.is_empty() && !any(&what.only) {
        return Vec::new();
    }
    let bare = |arg: &str| !what.bare.is_empty() && arg.starts_with(&*what.bare);
    // A letter that takes a value with one program is a switch with another that is called nearly the same, so a disk
    // counts wherever it stands, but as a label.
    let labelled = |at: usize| at.checked_sub(1).and_then(|front| args.get(front)) == Some(&"-L");
    let written = args.iter().enumerate().filter(|(at, _)| !labelled(*at)).map(|(_, arg)| arg);
    let disks = written.filter(|arg| arg.starts_with("/dev/") && !options.operands.contains(arg));
    let operands = options.operands.iter().chain(disks).copied();
    operands
        .filter(|arg| arg.contains('/') || has_hole(arg) || arg.ends_with(':') || bare(arg))
        .map(|path| {
            let is_bare = bare(path) && !path.contains('/');
            Touch::new(Action::Format, if is_bare { format!("/dev/{path}") } else { path.to_owned() })
        })
        .collect()
}

/// Returns whether an argument is one of the words, in small letters; a `*` at the end of a word stands for any ending.
fn is_one_of(arg: &str, words: &[String]) -> bool {
    let arg = arg.to_ascii_lowercase();
    words.iter().any(|word| match word.strip_suffix('*') {
        Some(beginning) => arg.starts_with(&beginning.to_ascii_lowercase()),
        None => !word.starts_with('-') && arg.eq_ignore_ascii_case(word),
    })
}

/// Returns whether one of the words is an option that was given.
fn given(words: &[String], options: &Options<'_>) -> bool {
    words.iter().any(|word| is_option(word, |short| options.short(short), |long| options.long(long)))
}

fn is_option(word: &str, short: impl Fn(char) -> bool, long: impl Fn(&str) -> bool) -> bool {
    match word.strip_prefix("--") {
        Some(name) => long(name),
        None => word.strip_prefix('-').and_then(|letter| letter.chars().next()).is_some_and(short),
    }
}

/// Returns whether a program was told to show something, and nothing else: by its options, or behind the disk.
fn only_looks(looks: &[String], options: &Options<'_>) -> bool {
    let listed = |name: Name<'_>| {
        looks
            .iter()
            .any(|word| is_option(word, |short| name == Name::Short(short), |long| name == Name::Long(long)))
    };
    let told = options.operands.get(1..).unwrap_or_default();
    options.names().all(listed)
        && told.iter().all(|word| is_one_of(word, looks))
        && (options.names().next().is_some() || !told.is_empty())
}
