//! What files contain after a program ran: what it fetched, copied, packed, or was told by its input.

use super::data::{Data, Taint};
use super::limits::{self, Bounded};
use super::trace::Fact;
use super::transfer::after;
use super::walk::Shell;
use crate::options::Options;
use crate::programs::Stores;

impl Shell<'_> {
    /// Remembers what files hold after the program ran.
    pub(super) fn store(&mut self, program: &str, args: &[&str], stdin: &Data, read: Taint) {
        let options = Options::parse(args, self.programs.takes(program));
        if let ("git", ["mv", rest @ ..]) = (program, options.operands.as_slice()) {
            return self.store_copies(program, rest, &options);
        }
        if program == "dd" {
            return self.store_block(args, stdin);
        }
        let Some(stores) = self.programs.get(program).and_then(|entry| entry.stores) else { return };
        match stores {
            Stores::Input => {
                if stdin.taint.has(Taint::ENDLESS) && !options.operands.is_empty() {
                    self.trace.facts.push(Fact::Endless);
                }
                options.operands.iter().for_each(|path| self.write_file(path, stdin));
            }
            Stores::Fetched => self.store_fetched(program, &options),
            Stores::Copies => self.store_copies(program, &options.operands, &options),
            Stores::Downloads => self.store_download(&options),
            Stores::NamedOption => self.store_named(args),
            Stores::Packs | Stores::PacksFirst if read.has(Taint::SECRET) => {
                self.store_packed(stores == Stores::PacksFirst, args, &options, &Data::unknown(read));
            }
            Stores::Packs | Stores::PacksFirst => {}
            Stores::Unpacks => {
                for path in &options.operands {
                    let data = self.content_of(path);
                    if let Some((plain, _)) = path.rsplit_once('.').filter(|_| data.taint != Taint::FILE) {
                        self.write_file(plain, &Data::unknown(data.taint | Taint::DECODED));
                    }
                }
            }
            Stores::Enciphered => {
                if let (Some(input), Some(path)) = (after(args, "-in"), after(args, "-out")) {
                    let taint = self.content_of(input).taint;
                    self.write_file(path, &Data::unknown(taint | Taint::DECODED));
                }
            }
            Stores::Mount => {
                let is_bound = ["bind", "rbind"].iter().any(|bound| {
                    options.long(bound)
                        || options
                            .values(Some('o'), "options")
                            .any(|list| list.split(',').any(|o| o == *bound))
                });
                let is_moved = options.has('M', "move");
                let mut operands = options.operands.iter().copied();
                let source = options.value(None, "source").or_else(|| operands.next());
                let target = options.value(None, "target").or_else(|| operands.next());
                if let (Some(source), Some(target)) = (source, target)
                    && (is_bound || is_moved || options.short('B') || options.short('R'))
                {
                    let (link, leads) = (self.resolve(target), self.resolve(source));
                    let over = self.state.disk.link(link, leads);
                    self.trace.note(over);
                }
            }
            Stores::Pipe => {
                let paths = options.operands.iter().map(|path| self.resolve(path));
                self.fifos.extend(paths.collect::<Vec<_>>());
            }
        }
    }

    /// `dd if=FILE of=FILE`.
    fn store_block(&mut self, args: &[&str], stdin: &Data) {
        let part = |key: &str| args.iter().find_map(|arg| arg.strip_prefix(key));
        let data = part("if=").map_or_else(|| stdin.clone(), |path| self.content_of(path));
        if let Some(path) = part("of=") {
            self.write_file(path, &data);
        }
    }

    /// What lies at a service comes to the last operand.
    fn store_download(&mut self, options: &Options<'_>) {
        if let [.., source, target] = options.operands.as_slice()
            && crate::effects::is_remote(source)
            && !crate::effects::is_remote(target)
        {
            let name = source.rsplit('/').next().unwrap_or(source);
            self.store_in(target, name, &Data::unknown(Taint::NET));
        }
    }

    /// What is fetched comes to the file behind an option, or named last.
    fn store_named(&mut self, args: &[&str]) {
        let is_name =
            |arg: &&str| matches!(arg.to_ascii_lowercase().as_str(), "-outfile" | "-destination" | "-o");
        let named = args.iter().position(is_name).and_then(|at| args.get(at + 1));
        let fetches = args.iter().any(|arg| arg.contains("://"));
        if let Some(path) = named.or(args.last()).filter(|path| fetches && !path.contains("://")) {
            self.write_file(path, &Data::unknown(Taint::NET));
        }
    }

    /// The file that is fetched, under the name it is given or has at its source.
    fn store_fetched(&mut self, program: &str, options: &Options<'_>) {
        let named = options.value(Some('o'), "output").or(options.value(Some('O'), "output-document"));
        let remote_name = program != "curl" || options.short('O') || options.long("remote-name");
        let of_url = || {
            let name = options.operands.first()?.rsplit('/').next()?;
            Some(name).filter(|name| remote_name && !name.is_empty())
        };
        let Some(path) = named.or_else(of_url).filter(|path| *path != "-") else { return };
        let prefix = options.value(Some('P'), "directory-prefix").filter(|_| program.starts_with("wget"));
        let path = match prefix.or(options.value(None, "output-dir")) {
            Some(folder) => format!("{folder}/{path}"),
            None => path.to_owned(),
        };
        let local = options.operands.iter().find(|url| url.starts_with("file:"));
        let data = local.map_or_else(|| Data::unknown(Taint::NET), |url| self.content_of(url));
        self.write_file(&path, &data);
    }

    /// Remembers what the copies, links and new names hold that a program makes.
    fn store_copies(&mut self, program: &str, operands: &[&str], options: &Options<'_>) {
        let named = options.value(Some('t'), "target-directory");
        let (sources, target) = match (named, operands.split_last()) {
            (Some(target), _) => (operands, target),
            (None, Some((target, sources @ [_, ..]))) => (sources, *target),
            // A link of the same name in the working directory.
            (None, Some((source, []))) if program == "ln" => (std::slice::from_ref(source), "."),
            _ => return,
        };
        let soft = match program {
            "ln" | "gln" => Some(options.has('s', "symbolic")),
            "link" => Some(false),
            "cp" | "gcp" if options.has('s', "symbolic-link") => Some(true),
            "cp" | "gcp" if options.has('l', "link") => Some(false),
            _ => None,
        };
        for source in Bounded::of(&limits::FILES, sources).reported(&mut self.trace) {
            if let Some(soft) = soft {
                self.store_link(soft, source, target);
            }
            self.store_copy(source, target);
        }
    }

    /// A link, which may lie in the target or be the target. A soft one leads from where it lies, any other from here.
    fn store_link(&mut self, soft: bool, source: &str, target: &str) {
        let link = self.resolve(target);
        let name = source.rsplit('/').next().unwrap_or(source);
        let folder = link.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        for (link, folder) in [(link.clone(), folder), (format!("{link}/{name}"), link)] {
            let leads = match soft {
                true => crate::paths::lexical(source, &folder),
                false => self.resolve(source),
            };
            if leads != link {
                let over = self.state.disk.link(link, leads);
                self.trace.note(over);
            }
        }
    }

    fn store_copy(&mut self, source: &str, target: &str) {
        if crate::effects::is_remote(source) {
            let name = source.rsplit(['/', ':']).next().unwrap_or(source);
            return self.store_in(target, name, &Data::unknown(Taint::NET));
        }
        let name = source.trim_end_matches('/').rsplit('/').next().unwrap_or(source);
        if is_installed(&self.resolve(source)) {
            // A program by another name does what it did by its own.
            let data = Data::text(format!("{source} \"$@\"\n"));
            return self.store_in(target, name, &data);
        }
        let data = self.content_of(source);
        if data.taint != Taint::FILE || data.marked().is_some() {
            self.store_in(target, name, &data);
        }
        // What lies in a folder is copied with it.
        let folder = self.resolve(source) + "/";
        let inside =
            self.state.disk.files().filter_map(|(path, data)| Some((path.strip_prefix(&folder)?, data)));
        let mut inside: Vec<(String, Data)> =
            inside.map(|(path, data)| (path.to_owned(), data.clone())).collect();
        inside.sort_by(|one, other| one.0.cmp(&other.0));
        for (path, data) in inside {
            self.write_file(&format!("{target}/{path}"), &data);
            self.write_file(&format!("{target}/{name}/{path}"), &data);
        }
    }

    /// The target may be a folder or the file itself.
    fn store_in(&mut self, target: &str, name: &str, data: &Data) {
        self.write_file(&format!("{target}/{name}"), data);
        self.write_file(target, data);
    }

    /// What is made of secrets is secret, whatever it is called then.
    fn store_packed(&mut self, is_first: bool, args: &[&str], options: &Options<'_>, secret: &Data) {
        let output = options
            .value(Some('f'), "file")
            .or(options.value(Some('o'), "output"))
            .or_else(|| after(args, "-out"))
            .or_else(|| options.operands.first().copied().filter(|_| is_first));
        if let Some(path) = output {
            self.write_file(path, secret);
        }
        for path in &options.operands {
            for suffix in [".gz", ".bz2", ".xz", ".zst", ".gpg"] {
                self.write_file(&format!("{path}{suffix}"), secret);
            }
        }
    }
}

/// Returns whether a path leads into a folder of installed programs.
fn is_installed(path: &str) -> bool {
    const FOLDERS: [&str; 6] =
        ["/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
    path.rsplit_once('/').is_some_and(|(folder, name)| FOLDERS.contains(&folder) && !name.is_empty())
}
