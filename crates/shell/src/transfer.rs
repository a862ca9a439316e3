//! Where a program moves data: from file to file, to the network, from the network to a shell.

use super::data::{Data, Taint};
use super::trace::{Fact, program_name};
use super::walk::{Shell, slices};
use crate::effects::{Action, Touch};
use crate::marks::STAR;
use crate::options::Options;
use crate::programs::Does;

impl Shell<'_> {
    /// Reports what the program touches and where its data goes.
    pub(crate) fn transfer(&mut self, program: &str, args: &[String], stdin: &Data, process: usize) {
        let refs = slices(args);
        let mut read = self.word_taint;
        for mut touch in crate::effects::of_program(self.programs, program, &refs) {
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
        if matches!(program, "remove-item" | "ri") && !refs.iter().any(|arg| !arg.starts_with('-')) {
            let mut piped = refs.clone();
            piped.extend(stdin.marked().into_iter().flat_map(str::lines));
            for touch in crate::effects::of_program(self.programs, program, &piped) {
                self.touch_by(Some(process), touch);
            }
        }
        if matches!(program, "apply_patch" | "applypatch") {
            let text = refs.first().copied().or_else(|| stdin.marked()).unwrap_or_default().to_owned();
            for (action, path) in crate::effects::patched(&text) {
                self.touch_by(Some(process), Touch::new(action, path));
            }
        }
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

    /// Remembers what files hold after the program ran.
    fn store(&mut self, program: &str, args: &[&str], stdin: &Data, read: Taint) {
        let options = Options::parse(args, self.programs.takes(program));
        match program {
            "tee" | "sponge" => {
                for path in options.operands.clone() {
                    self.write_file(path, stdin);
                }
            }
            "curl" | "wget" | "wget2" | "aria2c" => {
                let named = options
                    .value(Some('o'), "output")
                    .or(options.value(Some('O'), "output-document"))
                    .map(str::to_owned);
                let remote_name = program != "curl" || options.short('O') || options.long("remote-name");
                let from_url = options
                    .operands
                    .first()
                    .and_then(|url| url.rsplit('/').next())
                    .filter(|name| remote_name && !name.is_empty());
                let net = Data::unknown(Taint::NET);
                if let Some(path) = named.or_else(|| from_url.map(str::to_owned))
                    && path != "-"
                {
                    let folder = options
                        .value(Some('P'), "directory-prefix")
                        .filter(|_| program.starts_with("wget"))
                        .or(options.value(None, "output-dir"))
                        .map(str::to_owned);
                    let path = folder.map_or_else(|| path.clone(), |folder| format!("{folder}/{path}"));
                    let local = options
                        .operands
                        .iter()
                        .find(|url| url.starts_with("file:"))
                        .map(|url| self.content_of(url));
                    self.write_file(&path, &local.unwrap_or(net));
                }
            }
            "cp" | "mv" | "ln" | "install" | "gcp" | "gmv" | "rsync" | "scp" | "git" => {
                if let [source, target] = options.operands.as_slice() {
                    if crate::effects::is_remote(source) && program != "git" {
                        let name = source.rsplit(['/', ':']).next().unwrap_or(source);
                        self.write_file(target, &Data::unknown(Taint::NET));
                        self.write_file(&format!("{target}/{name}"), &Data::unknown(Taint::NET));
                        return;
                    }
                    if program == "ln" {
                        let (link, leads) = (self.resolve(target), self.resolve(source));
                        let over = self.state.link(link, leads);
                        self.trace.note(over);
                    }
                    let data = self.content_of(source);
                    if data.taint != Taint::FILE || data.marked().is_some() {
                        let name = source.rsplit('/').next().unwrap_or(source);
                        self.write_file(&format!("{target}/{name}"), &data);
                        self.write_file(target, &data);
                    }
                }
            }
            "dd" => {
                let part = |key: &str| args.iter().find_map(|arg| arg.strip_prefix(key)).map(str::to_owned);
                let data = part("if=").map_or_else(|| stdin.clone(), |path| self.content_of(&path));
                if let Some(path) = part("of=") {
                    self.write_file(&path, &data);
                }
            }
            "gzip" | "bzip2" | "xz" | "zstd" | "gpg" | "openssl" | "tar" | "zip" | "7z" => {
                let secret = Data::unknown(read);
                let output = options
                    .value(Some('f'), "file")
                    .or(options.value(Some('o'), "output"))
                    .map(str::to_owned)
                    .or_else(|| {
                        args.iter()
                            .position(|arg| *arg == "-out")
                            .and_then(|at| args.get(at + 1))
                            .map(|s| (*s).to_owned())
                    })
                    .or_else(|| {
                        matches!(program, "zip" | "7z")
                            .then(|| options.operands.first().map(|s| (*s).to_owned()))
                            .flatten()
                    });
                if program == "openssl" {
                    if let Some(input) =
                        args.iter().position(|arg| *arg == "-in").and_then(|at| args.get(at + 1))
                    {
                        let taint = self.content_of(input).taint;
                        if let Some(path) = output {
                            self.write_file(&path, &Data::unknown(taint | Taint::DECODED));
                        }
                    }
                    return;
                }
                if read.has(Taint::SECRET) {
                    if let Some(path) = output {
                        self.write_file(&path, &secret);
                    }
                    for path in options.operands.clone() {
                        for suffix in [".gz", ".bz2", ".xz", ".zst", ".gpg"] {
                            self.write_file(&format!("{path}{suffix}"), &secret);
                        }
                    }
                }
            }
            "aws" | "gsutil" | "gcloud" | "rclone" | "azcopy" | "s3cmd" | "mc" => {
                if let [.., source, target] = options.operands.as_slice()
                    && crate::effects::is_remote(source)
                    && !crate::effects::is_remote(target)
                {
                    let name = source.rsplit('/').next().unwrap_or(source);
                    self.write_file(target, &Data::unknown(Taint::NET));
                    self.write_file(&format!("{target}/{name}"), &Data::unknown(Taint::NET));
                }
            }
            "gunzip" | "bunzip2" | "unxz" | "unzstd" => {
                for path in options.operands.clone() {
                    let data = self.content_of(path);
                    if let Some((plain, _)) = path.rsplit_once('.').filter(|_| data.taint != Taint::FILE) {
                        self.write_file(plain, &Data::unknown(data.taint | Taint::DECODED));
                    }
                }
            }
            "certutil" | "bitsadmin" | "start-bitstransfer" | "invoke-webrequest" | "iwr" | "wget.exe" => {
                let named = args.iter().position(|arg| {
                    matches!(arg.to_ascii_lowercase().as_str(), "-outfile" | "-destination" | "-o")
                });
                let path = named.and_then(|at| args.get(at + 1)).or(args.last()).copied();
                if let Some(path) =
                    path.filter(|path| args.iter().any(|arg| arg.contains("://")) && !path.contains("://"))
                {
                    self.write_file(path, &Data::unknown(Taint::NET));
                }
            }
            "mkfifo" | "mknod" => {
                for path in options.operands.clone() {
                    let path = self.resolve(path);
                    self.fifos.push(path);
                }
            }
            _ => {}
        }
    }

    /// Remembers directories that the program fills with what came over the network.
    fn fetch(&mut self, program: &str, args: &[&str], stdin: &Data) {
        let options = Options::parse(args, self.programs.takes(program));
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
            "tar" | "gtar" | "bsdtar" | "unzip" | "7z" | "7za" | "cpio" | "ar" | "unar" => {
                let from_net = stdin.taint.has(Taint::NET)
                    || args.iter().any(|arg| {
                        let path = arg.trim_start_matches("-f");
                        self.state
                            .files
                            .get(&self.resolve(path))
                            .is_some_and(|data| data.taint.has(Taint::NET))
                    });
                from_net.then(|| crate::effects::unpacks_into(program, args).unwrap_or(".").to_owned())
            }
            _ => None,
        };
        if let Some(folder) = into {
            let folder = self.resolve(&folder);
            let over = self.state.fetch_into(folder);
            self.trace.note(over);
        }
    }

    /// A package that came over the network runs its own scripts when it is installed.
    fn install(&mut self, program: &str, args: &[&str], process: usize) {
        if !self.programs.does(program, Does::Installs) {
            return;
        }
        let fetched = args.iter().filter(|arg| !arg.starts_with('-')).any(|arg| {
            self.state.files.get(&self.resolve(arg)).is_some_and(|data| data.taint.has(Taint::NET))
                || matches!(program, "rpm" | "dnf" | "yum" | "msiexec") && arg.contains("://")
        });
        if fetched {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::FETCHED });
        }
    }

    /// Reports data that leaves the machine.
    fn send(&mut self, program: &str, args: &[&str], stdin: &Data, read: Taint, process: usize) {
        let mut what = read;
        let sends = match program {
            "curl" | "wget" | "wget2" | "http" | "https" | "xh" | "httpie" => {
                let reads_stdin =
                    args.iter().any(|arg| {
                        arg.ends_with("@-")
                            || matches!(
                                *arg,
                                "-T-"
                                    | "--upload-file=-"
                                    | "--post-file=-"
                                    | "--body-file=-"
                                    | "--post-file=/dev/stdin"
                                    | "@/dev/stdin"
                                    | "-T."
                            )
                    }) || args.windows(2).any(|pair| matches!(pair, ["-T" | "--upload-file", "-" | "."]))
                        || matches!(program, "http" | "https" | "xh");
                if reads_stdin {
                    what |= stdin.taint;
                }
                let options = Options::parse(args, self.programs.takes(program));
                options.operands.is_empty() || !options.operands.iter().all(|url| is_local(url))
            }
            "scp" | "rsync" | "sftp" => {
                let options = Options::parse(args, self.programs.takes(program));
                options.operands.last().is_some_and(|target| {
                    crate::effects::is_remote(target) || target.contains(super::word::HOLE)
                })
            }
            "tar" | "gtar" => {
                let extra = self.environment_of("TAR_OPTIONS");
                let tape = self.environment_of("TAPE");
                let words: Vec<&str> = extra.split_whitespace().chain(args.iter().copied()).collect();
                let options = Options::parse(&words, self.programs.takes("tar"));
                let archive = options
                    .value(Some('f'), "file")
                    .map(str::to_owned)
                    .or((!tape.is_empty()).then_some(tape));
                if archive.as_deref().is_some_and(crate::effects::is_remote) && !options.long("force-local") {
                    // Without `-c` in the arguments the members were not recognised as read.
                    for member in &options.operands {
                        what |= self.content_of(member).taint;
                    }
                    true
                } else {
                    false
                }
            }
            "openssl" => {
                what |= stdin.taint;
                args.first() == Some(&"s_client")
            }
            "socat" => {
                what |= stdin.taint;
                args.iter().any(|arg| {
                    let kind = arg.split(':').next().unwrap_or_default().to_ascii_uppercase();
                    matches!(
                        kind.as_str(),
                        "TCP"
                            | "TCP4"
                            | "TCP6"
                            | "UDP"
                            | "UDP4"
                            | "SSL"
                            | "OPENSSL"
                            | "TCP-CONNECT"
                            | "OPENSSL-CONNECT"
                            | "SCTP"
                            | "PROXY"
                            | "SOCKS4"
                            | "SOCKS4A"
                            | "DTLS"
                            | "FD"
                            | "VSOCK-CONNECT"
                            | "UDP-SENDTO"
                            | "UDP-CONNECT"
                            | "SSL-CONNECT"
                    ) || kind == "EXEC"
                        || kind == "SYSTEM"
                })
            }
            "gh" => {
                what |= stdin.taint;
                args.first() == Some(&"gist") || args.first() == Some(&"api")
            }
            "aws" | "gsutil" | "gcloud" | "az" | "rclone" | "s3cmd" | "mc" | "azcopy" => {
                what |= stdin.taint;
                args.iter().any(|arg| {
                    matches!(
                        *arg,
                        "cp" | "sync" | "mv" | "put" | "copy" | "upload" | "upload-batch" | "rcat" | "copyto"
                    )
                })
            }
            _ => {
                what |= stdin.taint;
                self.programs.does(program, Does::Sends)
            }
        };
        if sends && (what.has(Taint::SECRET) || what.has(Taint::ENVIRONMENT)) {
            self.trace.facts.push(Fact::Sends { process, what });
        }
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

/// True for addresses that never leave the machine.
fn is_local(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    url.starts_with("file:")
        || host.starts_with("[::1]")
        || matches!(host.split(':').next().unwrap_or(host), "localhost" | "127.0.0.1" | "0.0.0.0")
}
