//! Where a program moves data: from file to file, to the network, from the network to a shell.

use super::data::{Data, Taint};
use super::limits::{self, Bounded};
use super::trace::{Fact, program_name};
use super::walk::{Shell, slices};
use crate::effects::{Action, Touch};
use crate::marks::STAR;
use crate::options::{Options, Takes};
use crate::programs::{Does, Touches};

/// Addresses of `socat` that reach another machine or another program.
const ADDRESSES: &[&str] = &[
    "TCP",
    "TCP4",
    "TCP6",
    "UDP",
    "UDP4",
    "SSL",
    "OPENSSL",
    "TCP-CONNECT",
    "OPENSSL-CONNECT",
    "SCTP",
    "PROXY",
    "SOCKS4",
    "SOCKS4A",
    "DTLS",
    "FD",
    "VSOCK-CONNECT",
    "UDP-SENDTO",
    "UDP-CONNECT",
    "SSL-CONNECT",
    "EXEC",
    "SYSTEM",
];

/// Arguments with which a program sends its input.
const INPUT_UPLOADS: &[&str] = &[
    "-T-",
    "--upload-file=-",
    "--post-file=-",
    "--body-file=-",
    "--post-file=/dev/stdin",
    "@/dev/stdin",
    "-T.",
];

/// More files than this are looked through for those that are named twice.
const FEW: usize = 32;

/// Returns how high a path may lie: what is most dangerous to be named comes first.
fn height(path: &str) -> usize {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let leads_out = path.starts_with(['/', '~']) || path.contains("..") || !path.chars().all(is_plain);
    let depth = path.split('/').filter(|name| !name.is_empty()).count();
    if leads_out { depth } else { usize::MAX }
}

impl Shell<'_> {
    /// Reports what the program touches and where its data goes.
    pub(crate) fn transfer(&mut self, program: &str, args: &[String], stdin: &Data, process: usize) {
        let is_tar = matches!(self.programs.touches(program), Some(Touches::Tar));
        let spelled = is_tar.then(|| unbundled(args, self.programs.takes(program))).flatten();
        let args = spelled.as_deref().unwrap_or(args);
        let refs = slices(args);
        let mut read = self.word_taint;
        for mut touch in self.touches_of(program, &refs) {
            touch.streamed = self.open_ended
                && args.last().is_some_and(|last| {
                    touch.path == *last || touch.path.contains(STAR) || touch.path.contains(super::word::HOLE)
                });
            if touch.action == Action::Read {
                let data = self.content_of(&touch.path);
                read |= data.taint.without(Taint::FILE | Taint::UNREAD | Taint::INPUT);
            }
            self.touch_by(Some(process), touch);
        }
        if matches!(program, "remove-item" | "ri") && stdin.marked().is_some() {
            // Which words are values of options is not known here: what is piped is deleted in any case.
            let mut piped: Vec<&str> = refs.iter().copied().filter(|arg| arg.starts_with('-')).collect();
            piped.extend(stdin.marked().into_iter().flat_map(str::lines));
            for touch in crate::effects::of_program(self.programs, program, &piped) {
                self.touch_by(Some(process), touch);
            }
        }
        read |= self.read_listed(program, &refs, stdin, process);
        self.patch(program, &refs, stdin, process);
        self.store(program, &refs, stdin, read);
        self.fetch(program, &refs, stdin);
        self.install(program, &refs, process);
        self.send(program, &refs, stdin, read, process);
        self.listen(program, &refs, process);
        let connects = matches!(program, "nc" | "ncat" | "netcat" | "socat" | "telnet")
            || program == "openssl" && refs.first() == Some(&"s_client");
        if connects && stdin.is_dialogue() {
            self.trace.facts.push(Fact::NetworkShell { process });
        }
        self.hooks(program, &refs, stdin, process);
    }

    /// Reports the files that a list names which the program is told to take its operands from, and what they hold.
    fn read_listed(&mut self, program: &str, args: &[&str], stdin: &Data, process: usize) -> Taint {
        let Some(entry) = self.programs.get(program) else { return Taint::NONE };
        let options = Options::parse(args, entry.values.takes());
        let mut lists: Vec<Data> = Vec::new();
        for file in entry.lists.values_in(&options) {
            lists.push(if matches!(file, "-" | "/dev/stdin") {
                stdin.clone()
            } else {
                self.content_of(file)
            });
        }
        if entry.lists_input.any_in(&options) {
            lists.push(stdin.clone());
        }
        let texts = lists.iter().filter_map(|list| self.text_of(list)).collect::<Vec<_>>();
        let names = texts.into_iter().flat_map(|text| text.split(['\n', '\0']));
        let names: Vec<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut read = Taint::NONE;
        for name in Bounded::of(&limits::TOUCHES, names).reported(&mut self.trace) {
            read |= self.content_of(&name).taint.without(Taint::FILE | Taint::UNREAD | Taint::INPUT);
            self.touch_by(Some(process), Touch::new(Action::Read, name));
        }
        read
    }

    /// Reports the files that a patch names.
    fn patch(&mut self, program: &str, args: &[&str], stdin: &Data, process: usize) {
        let takes = self.programs.takes(program);
        let (folder, files, takes) = match self.programs.touches(program) {
            Some(Touches::Patches) => {
                (Options::parse(args, takes).value(Some('d'), "directory"), args, takes)
            }
            Some(Touches::Git) => {
                let globals = Options::parse(args, takes.until_operand());
                match args.get(globals.consumed..) {
                    Some([sub @ ("apply" | "am"), files @ ..]) => {
                        (globals.value(Some('C'), ""), files, self.programs.takes_of(program, sub))
                    }
                    _ => return,
                }
            }
            _ => return,
        };
        self.with_directory(folder.map(str::to_owned), |shell| {
            shell.patch_files(program, &Options::parse(files, takes), stdin, process);
        });
    }

    /// Reports the files that a patch names, from the folder in which it is applied.
    fn patch_files(&mut self, program: &str, options: &Options<'_>, stdin: &Data, process: usize) {
        let named = options.operands.iter().skip(usize::from(program != "git"));
        let named: Vec<&str> = named.copied().chain(options.value(Some('i'), "input")).collect();
        let mut texts: Vec<String> = self.text_of(stdin).map(str::to_owned).into_iter().collect();
        // An agent's own tool takes the patch itself.
        texts.extend(
            options.operands.iter().filter(|text| text.contains('\n')).map(|text| (*text).to_owned()),
        );
        for file in named {
            let content = self.content_of(file);
            texts.extend(self.text_of(&content).map(str::to_owned));
        }
        let below = options.value(None, "directory").filter(|_| program == "git");
        let stripped = options.value(Some('p'), "strip").and_then(|count| count.parse().ok()).unwrap_or(1);
        for text in texts {
            for (action, path) in crate::effects::patched(&text) {
                // Whether the first folder is one of the two that git puts there is not known.
                for cut in 1..=path.split('/').count().min(stripped).max(1) {
                    let path = path.splitn(cut, '/').last().unwrap_or_default();
                    let path = below.map_or_else(|| path.to_owned(), |folder| format!("{folder}/{path}"));
                    self.touch_by(Some(process), Touch::new(action, path));
                }
            }
        }
    }

    /// Returns what the program does to files, each once.
    fn touches_of(&mut self, program: &str, args: &[&str]) -> Vec<Touch> {
        let mut touches = crate::effects::of_program(self.programs, program, args);
        if touches.len() > FEW {
            let mut met = std::collections::HashSet::with_capacity(touches.len());
            let new = touches.iter().map(|touch| met.insert((touch.action, &*touch.path, touch.recursive)));
            let mut new = new.collect::<Vec<bool>>().into_iter();
            touches.retain(|_| new.next().unwrap_or(true));
        }
        if touches.len() > limits::TOUCHES.most {
            touches.sort_by_cached_key(|touch| height(&touch.path));
        }
        Bounded::of(&limits::TOUCHES, touches).reported(&mut self.trace)
    }

    /// Remembers directories that the program fills with what came over the network.
    fn fetch(&mut self, program: &str, args: &[&str], stdin: &Data) {
        let options = Options::parse(args, self.programs.takes(program));
        if program == "gh" && args.starts_with(&["release", "download"]) {
            let folder = after(args, "-D").or_else(|| after(args, "--dir")).unwrap_or(".");
            for name in after(args, "-p").into_iter().chain(after(args, "--pattern")) {
                self.write_file(&format!("{folder}/{name}"), &Data::unknown(Taint::NET));
            }
        }
        let into = match program {
            "git" | "gh" | "hg" | "svn" => {
                let words: Vec<&str> = options
                    .operands
                    .iter()
                    .copied()
                    .skip_while(|word| *word != "clone" && *word != "checkout")
                    .collect();
                match words.as_slice() {
                    ["clone", url] if crate::effects::is_remote(url) || program == "gh" => {
                        let name = url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(url);
                        Some(name.trim_end_matches(".git").to_owned())
                    }
                    ["clone", url, folder, ..] if crate::effects::is_remote(url) || program == "gh" => {
                        Some((*folder).to_owned())
                    }
                    _ => None,
                }
            }
            _ if matches!(self.programs.touches(program), Some(Touches::Tar | Touches::Unpacks)) => {
                let from_net = stdin.taint.has(Taint::NET)
                    || args.iter().any(|arg| {
                        let path = arg.trim_start_matches("-f");
                        self.state
                            .disk
                            .file(&self.resolve(path))
                            .is_some_and(|data| data.taint.has(Taint::NET))
                    });
                from_net.then(|| self.programs.fills(program, args).unwrap_or(".").to_owned())
            }
            // A copy of a site lies in a folder called like its host.
            "wget" | "wget2" if options.has('r', "recursive") || options.has('m', "mirror") => {
                let host = options.operands.first().and_then(|url| super::credentials::host_of(url));
                let folder = options.value(Some('P'), "directory-prefix").unwrap_or(".");
                host.map(|host| format!("{folder}/{host}"))
            }
            _ => None,
        };
        if let Some(folder) = into {
            let folder = self.resolve(&folder);
            let over = self.state.disk.fetch_into(folder);
            self.trace.note(over);
        }
    }

    /// A package that came over the network runs its own scripts when it is installed.
    fn install(&mut self, program: &str, args: &[&str], process: usize) {
        if !self.programs.does(program, Does::Installs) {
            return;
        }
        let fetched = args.iter().filter(|arg| !arg.starts_with('-')).any(|arg| {
            self.state.disk.file(&self.resolve(arg)).is_some_and(|data| data.taint.has(Taint::NET))
                || matches!(program, "rpm" | "dnf" | "yum" | "msiexec") && arg.contains("://")
        });
        if fetched {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::FETCHED });
        }
    }

    /// Reports data that leaves the machine.
    fn send(&mut self, program: &str, args: &[&str], stdin: &Data, read: Taint, process: usize) {
        let piped = read | stdin.taint;
        let first = args.first().copied().unwrap_or_default();
        self.send_batch(program, args, stdin, process);
        let options = || Options::parse(args, self.programs.takes(program));
        let (sends, what) = match program {
            "curl" | "wget" | "wget2" | "http" | "https" | "xh" | "httpie" => {
                let targets = options().operands;
                let remote = targets.is_empty() || !targets.iter().all(|url| is_local(url));
                (remote, if uploads_input(program, args) { piped } else { read })
            }
            "scp" | "rsync" | "sftp" => {
                let leaves =
                    |target: &&str| crate::effects::is_remote(target) || target.contains(super::word::HOLE);
                (options().operands.last().is_some_and(leaves), read)
            }
            "tar" | "gtar" => match self.remote_members(args) {
                Some(members) => (true, read | members),
                None => (false, read),
            },
            "openssl" => (first == "s_client", piped),
            "socat" => (args.iter().any(|arg| is_address(arg)), piped),
            "gh" => (matches!(first, "gist" | "api"), piped | self.published(args)),
            _ => (self.programs.sends(program, args), piped),
        };
        if sends {
            self.sends(what.without_credentials(), process);
        }
        if sends || program == "git" {
            self.send_credentials(what, program, args, process);
        }
    }

    /// Reports credentials that go to another host than that of their service.
    fn send_credentials(&mut self, what: Taint, program: &str, args: &[&str], process: usize) {
        let hosts: Vec<String> = args.iter().filter_map(|arg| super::credentials::host_of(arg)).collect();
        let bare = || args.iter().rev().find(|arg| !arg.starts_with('-') && arg.contains('.')).copied();
        let hosts = match bare() {
            Some(host) if hosts.is_empty() && !self.programs.does(program, Does::BelongsToService) => {
                let host = host.split(['/', ':']).next().unwrap_or(host);
                vec![host.rsplit('@').next().unwrap_or(host).to_ascii_lowercase()]
            }
            _ => hosts,
        };
        let own =
            hosts.is_empty() && (program == "git" || self.programs.does(program, Does::BelongsToService));
        if !own && super::credentials::is_for_another(what, &hosts) {
            self.trace.facts.push(Fact::Sends { process, what: Taint::CREDENTIAL });
        }
    }

    /// Reports data that leaves, where it is not everybody's.
    fn sends(&mut self, what: Taint, process: usize) {
        if what.has(Taint::SECRET) || what.has(Taint::ENVIRONMENT) {
            self.trace.facts.push(Fact::Sends { process, what });
        }
    }

    /// Returns what the files hold that `gh gist` publishes.
    fn published(&mut self, args: &[&str]) -> Taint {
        let ["gist", "create" | "edit", files @ ..] = args else { return Taint::NONE };
        files.iter().filter(|file| !file.starts_with('-')).fold(Taint::NONE, |taint, file| {
            taint | self.content_of(file).taint.without(Taint::FILE | Taint::UNREAD | Taint::INPUT)
        })
    }

    /// Reports the files that the commands of a transfer send.
    fn send_batch(&mut self, program: &str, args: &[&str], stdin: &Data, process: usize) {
        let programs = self.programs;
        let Some(flags) = programs.get(program).and_then(|entry| entry.batch.as_ref()) else { return };
        let options = Options::parse(args, flags.takes());
        let mut batch = self.text_of(stdin).unwrap_or_default().to_owned();
        for value in flags.values_in(&options) {
            batch.push('\n');
            batch.push_str(value);
        }
        for file in batch.split(['\n', ';']).filter_map(|line| sent_by_line(line.trim())) {
            let taint = self.content_of(file).taint;
            self.sends(taint, process);
        }
    }

    /// Returns what `tar` puts into an archive on another machine; `None` when it makes none there.
    fn remote_members(&mut self, args: &[&str]) -> Option<Taint> {
        let extra = self.environment_of("TAR_OPTIONS");
        let tape = self.environment_of("TAPE");
        let words: Vec<&str> = extra.split_whitespace().chain(args.iter().copied()).collect();
        let options = Options::parse(&words, self.programs.takes("tar"));
        let archive =
            options.value(Some('f'), "file").or(Some(tape.as_str()).filter(|tape| !tape.is_empty()));
        if !archive.is_some_and(crate::effects::is_remote) || options.long("force-local") {
            return None;
        }
        // Without `-c` in the arguments the members were not recognised as read.
        let members = options.operands.iter().map(|member| self.content_of(member).taint);
        Some(members.fold(Taint::NONE, |all, taint| all | taint))
    }

    pub(super) fn environment_of(&self, name: &str) -> String {
        self.environment
            .iter()
            .find(|(given, _)| given == name)
            .map(|(_, value)| value.clone())
            .or_else(|| self.state.assigned(name).map(|value| value.scalar().to_owned()))
            .unwrap_or_default()
    }

    /// Finds shells behind sockets.
    fn listen(&mut self, program: &str, args: &[&str], process: usize) {
        let programs = self.programs;
        let runs_shell = |text: &str| {
            let text = text.trim_start_matches("exec ").trim_start_matches("env ");
            text.split([' ', ',', ':', '=', '\'', '"']).any(|word| {
                let name = program_name(word);
                programs.does(&name, Does::SpeaksShell)
                    || matches!(
                        name.as_str(),
                        "cmd" | "powershell" | "pwsh" | "login" | "su" | "python" | "python3" | "perl"
                    )
            })
        };
        let found = match program {
            "nc" | "ncat" | "netcat" | "nc.traditional" | "nc.openbsd" | "netcat.traditional" => {
                let options = Options::parse(args, self.programs.takes("nc"));
                let wired = options
                    .values(Some('e'), "exec")
                    .chain(options.values(Some('c'), "sh-exec"))
                    .any(runs_shell);
                wired
                    && (options.operands.iter().any(|arg| !arg.is_empty())
                        || options.short('l')
                        || options.long("listen")
                        || options.short('p'))
            }
            "socat" => {
                let networked = args.iter().any(|arg| {
                    let upper = arg.to_ascii_uppercase();
                    ["TCP", "UDP", "SSL", "OPENSSL", "SCTP", "UNIX", "VSOCK", "DTLS", "ABSTRACT"]
                        .iter()
                        .any(|kind| upper.starts_with(kind))
                });
                networked
                    && args.iter().any(|arg| {
                        let upper = arg.to_ascii_uppercase();
                        upper == "SHELL"
                            || upper.starts_with("SHELL:")
                            || (upper.starts_with("EXEC:") || upper.starts_with("SYSTEM:"))
                                && runs_shell(arg.split_once(':').map_or("", |(_, rest)| rest))
                    })
            }
            "telnetd" | "in.telnetd" | "dropbear" => args.iter().any(|arg| runs_shell(arg)),
            _ => false,
        };
        if found {
            self.trace.facts.push(Fact::NetworkShell { process });
        }
    }
}

/// Arguments of `tar` as options, where they begin with letters without a dash: each letter that takes a value has that in one of
/// the words behind them, in their order (GNU tar 1.35, "Old Option Style"). `None` where they are options already.
fn unbundled(args: &[String], takes: Takes<'_>) -> Option<Vec<String>> {
    let (letters, rest) = args.split_first().filter(|(first, _)| !first.starts_with('-'))?;
    let is_letters = letters.chars().all(|c| c.is_ascii_alphanumeric()) && letters.contains(MODES);
    let mut rest = rest.iter().cloned();
    let mut options = Vec::new();
    for letter in letters.chars().filter(|_| is_letters) {
        options.push(format!("-{letter}"));
        options.extend(takes.has_value(letter).then(|| rest.next()).flatten());
    }
    is_letters.then(|| options.into_iter().chain(rest).collect())
}

/// The letters of which `tar` is given one.
const MODES: [char; 7] = ['A', 'c', 'd', 'r', 't', 'u', 'x'];

/// True for addresses that never leave the machine.
fn is_local(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    url.starts_with("file:")
        || host.starts_with("[::1]")
        || matches!(host.split(':').next().unwrap_or(host), "localhost" | "127.0.0.1" | "0.0.0.0")
}

/// Returns whether the program sends its input along.
fn uploads_input(program: &str, args: &[&str]) -> bool {
    matches!(program, "http" | "https" | "xh")
        || args.iter().any(|arg| arg.ends_with("@-") || INPUT_UPLOADS.contains(arg))
        || args.windows(2).any(|pair| matches!(pair, ["-T" | "--upload-file", "-" | "."]))
}

fn is_address(arg: &str) -> bool {
    let kind = arg.split(':').next().unwrap_or_default();
    ADDRESSES.iter().any(|address| kind.eq_ignore_ascii_case(address))
}

/// Returns the argument after this one.
pub(super) fn after<'a>(args: &[&'a str], option: &str) -> Option<&'a str> {
    args.iter().position(|arg| *arg == option).and_then(|at| args.get(at + 1)).copied()
}

/// Returns the file that a line of a batch for `sftp` sends.
fn sent_by_line(line: &str) -> Option<&str> {
    let (command, rest) = line.trim_start_matches('-').split_once(char::is_whitespace)?;
    let sends = matches!(command, "put" | "mput" | "reput");
    rest.split_whitespace().find(|word| !word.starts_with('-')).filter(|_| sends)
}
