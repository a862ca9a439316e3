//! Files: what `node:fs` is made of, below granted folders only.
//!
//! **Limits.** A call reads at most 16 MB of a file and 100 000 names of a folder, and says so beyond that. Pipes,
//! sockets and devices are not opened. Links are followed inside of a granted folder only, and not made. The work is
//! done on the script's thread: a disk that hangs holds it, and the call is decided by the timer outside.

mod fault;
mod open;
mod roots;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::{FileTypeExt as _, Metadata, MetadataExt as _, OpenOptions, PermissionsExt as _};
use rquickjs::{Array, Ctx, Function, Object, TypedArray};

use self::open::{Flags, MOST_READ, OpenFiles, ordinary};
use self::roots::{Found, Roots, Want};
use super::bytes::from_binary;
use super::fault::Fault;
use super::permits::Permits;

/// Names of a folder that one call lists.
const MOST_NAMES: usize = 100_000;

/// The files of a script.
struct Files {
    roots: Roots,
    open: OpenFiles,
}

/// `f`ile, `d`irectory, `l`ink, ...: one letter for each kind.
fn kind(of: cap_std::fs::FileType) -> &'static str {
    if of.is_file() {
        "f"
    } else if of.is_dir() {
        "d"
    } else if of.is_symlink() {
        "l"
    } else if of.is_fifo() {
        "p"
    } else if of.is_socket() {
        "s"
    } else if of.is_block_device() {
        "b"
    } else {
        "c"
    }
}

impl Files {
    fn read(&self, path: &str, flags: &str) -> Result<Vec<u8>, Fault> {
        let flags = parse_flags(flags, 0o666)?;
        let found = self.find_for(path, &flags, "open")?;
        let explain = |error| self.roots.explain(&error, "open", &found);
        let mut file = found.dir.open_with(&found.below, &flags.options).map_err(explain)?;
        let metadata = file.metadata().map_err(explain)?;
        ordinary(&metadata, "open", path)?;
        if metadata.is_dir() {
            let mut fault = Fault::new("EISDIR", "EISDIR: illegal operation on a directory, read");
            fault.errno = Some(-21);
            return Err(fault.with("syscall", "read"));
        }
        let mut bytes = Vec::new();
        (&mut file)
            .take(MOST_READ + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| self.roots.explain(&error, "read", &found))?;
        if bytes.len() as u64 > MOST_READ {
            return Err(Fault::new(
                "ERR_FS_FILE_TOO_LARGE",
                format!("`{path}` has more than {MOST_READ} bytes; read it in pieces, with `readSync`"),
            ));
        }
        Ok(bytes)
    }

    fn find_for(&self, path: &str, flags: &Flags, syscall: &'static str) -> Result<Found, Fault> {
        self.roots.find(path, if flags.writes { Want::Write } else { Want::Read }, syscall, false)
    }

    fn open(&self, path: &str, flags: &str, mode: u32) -> Result<u32, Fault> {
        let flags = parse_flags(flags, mode)?;
        let found = self.find_for(path, &flags, "open")?;
        let explain = |error| self.roots.explain(&error, "open", &found);
        let file = found.dir.open_with(&found.below, &flags.options).map_err(explain)?;
        ordinary(&file.metadata().map_err(explain)?, "open", path)?;
        self.open.add(file, path)
    }

    fn stat(&self, path: &str, follow: bool) -> Result<Metadata, Fault> {
        let syscall = if follow { "stat" } else { "lstat" };
        let found = self.roots.find(path, Want::Read, syscall, false)?;
        let metadata = match follow {
            true => found.dir.metadata(&found.below),
            false => found.dir.symlink_metadata(&found.below),
        };
        metadata.map_err(|error| self.roots.explain(&error, syscall, &found))
    }

    fn list(&self, path: &str) -> Result<Vec<(String, &'static str)>, Fault> {
        let found = self.roots.find(path, Want::Read, "scandir", false)?;
        let explain = |error| self.roots.explain(&error, "scandir", &found);
        let mut names = Vec::new();
        for entry in found.dir.read_dir(&found.below).map_err(explain)? {
            let entry = entry.map_err(explain)?;
            if names.len() >= MOST_NAMES {
                return Err(Fault::new(
                    "ERR_OUT_OF_RANGE",
                    format!("`{path}` has more than {MOST_NAMES} names, which are not listed here"),
                ));
            }
            let kind = entry.file_type().map_or("u", kind);
            names.push((entry.file_name().to_string_lossy().into_owned(), kind));
        }
        names.sort();
        Ok(names)
    }

    /// Makes a folder, and with `deep` those above it. Says which was the first that was made.
    fn mkdir(&self, path: &str, deep: bool) -> Result<Option<String>, Fault> {
        let found = self.roots.find(path, Want::Write, "mkdir", deep)?;
        let explain = |error| self.roots.explain(&error, "mkdir", &found);
        if !deep {
            return found.dir.create_dir(&found.below).map(|()| None).map_err(explain);
        }
        let mut first = None;
        for above in found.below.ancestors().filter(|above| *above != Path::new("")) {
            match found.dir.metadata(above) {
                Ok(metadata) if metadata.is_dir() => break,
                Ok(_) if above == found.below => {
                    return Err(fault::coded("EEXIST", 17, "file already exists", "mkdir", path));
                }
                Ok(_) => return Err(fault::coded("ENOTDIR", 20, "not a directory", "mkdir", path)),
                Err(error) if found.dir.symlink_metadata(above).is_ok() => return Err(explain(error)),
                Err(_) => first = Some(above),
            }
        }
        found.dir.create_dir_all(&found.below).map_err(explain)?;
        Ok(first.map(|first| found.root.join(first).to_string_lossy().into_owned()))
    }

    fn remove(&self, path: &str, what: &str) -> Result<(), Fault> {
        let syscall = match what {
            "rmdir" => "rmdir",
            "tree" => "rm",
            _ => "unlink",
        };
        let found = self.roots.find(path, Want::Write, syscall, false)?;
        if found.below == Path::new(".") {
            return Err(fault::coded("EBUSY", 16, "a granted folder itself is not removed", syscall, path));
        }
        let removed = match what {
            "rmdir" => found.dir.remove_dir(&found.below),
            "tree" => found.dir.remove_dir_all(&found.below),
            _ => match found.dir.symlink_metadata(&found.below) {
                Ok(metadata) if metadata.is_dir() => {
                    return Err(fault::coded(
                        "EISDIR",
                        21,
                        "illegal operation on a directory",
                        syscall,
                        path,
                    ));
                }
                _ => found.dir.remove_file(&found.below),
            },
        };
        removed.map_err(|error| self.roots.explain(&error, syscall, &found))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Fault> {
        let (a, b) = self.two(from, to, Want::Write, "rename")?;
        a.dir.rename(&a.below, &b.dir, &b.below).map_err(|error| self.explain_both(&error, "rename", &a, &b))
    }

    fn copy(&self, from: &str, to: &str, exclusive: bool) -> Result<(), Fault> {
        let (a, b) = self.two(from, to, Want::Read, "copyfile")?;
        let explain = |error| self.explain_both(&error, "copyfile", &a, &b);
        let flags = parse_flags("r", 0)?;
        let mut source = a.dir.open_with(&a.below, &flags.options).map_err(explain)?;
        let metadata = source.metadata().map_err(explain)?;
        ordinary(&metadata, "copyfile", from)?;
        let flags = parse_flags(if exclusive { "wx" } else { "w" }, metadata.permissions().mode())?;
        let mut target = b.dir.open_with(&b.below, &flags.options).map_err(explain)?;
        ordinary(&target.metadata().map_err(explain)?, "copyfile", to)?;
        std::io::copy(&mut source, &mut target).map(|_| ()).map_err(explain)
    }

    fn two(&self, from: &str, to: &str, want: Want, syscall: &'static str) -> Result<(Found, Found), Fault> {
        let a = self.roots.find(from, want, syscall, false)?;
        Ok((a, self.roots.find(to, Want::Write, syscall, false)?))
    }

    fn explain_both(&self, error: &std::io::Error, syscall: &'static str, a: &Found, b: &Found) -> Fault {
        if error.raw_os_error().is_none() {
            return self.roots.explain(error, syscall, a);
        }
        fault::both(error, syscall, &a.path, &b.path)
    }

    fn readlink(&self, path: &str) -> Result<String, Fault> {
        let found = self.roots.find(path, Want::Read, "readlink", false)?;
        let target = found.dir.read_link_contents(&found.below);
        let target = target.map_err(|error| self.roots.explain(&error, "readlink", &found))?;
        Ok(target.to_string_lossy().into_owned())
    }

    fn realpath(&self, path: &str) -> Result<String, Fault> {
        let found = self.roots.find(path, Want::Read, "realpath", false)?;
        let real = found.dir.canonicalize(&found.below);
        let real = real.map_err(|error| {
            let dangles = found.dir.symlink_metadata(&found.below).is_ok();
            self.roots.explain(&error, if dangles { "stat" } else { "lstat" }, &found)
        })?;
        let full = if real == Path::new(".") { found.root } else { found.root.join(real) };
        Ok(full.to_string_lossy().into_owned())
    }

    /// Whether the file is there and, as far as its mode says, may be read (4), written (2), run (1).
    fn access(&self, path: &str, mode: u32) -> Result<(), Fault> {
        let want = if mode & 2 == 0 { Want::Read } else { Want::Write };
        let found = self.roots.find(path, want, "access", false)?;
        let explain = |error| self.roots.explain(&error, "access", &found);
        let metadata = found.dir.metadata(&found.below).map_err(explain)?;
        let bits = metadata.permissions().mode();
        let lacking = [(4, 0o444), (2, 0o222), (1, 0o111)]
            .into_iter()
            .any(|(asked, any)| mode & asked != 0 && bits & any == 0);
        if lacking {
            return Err(fault::coded("EACCES", 13, "permission denied", "access", path));
        }
        Ok(())
    }

    fn mkdtemp(&self, prefix: &str, random: &str) -> Result<String, Fault> {
        let path = format!("{prefix}{random}");
        let found = self.roots.find(&path, Want::Write, "mkdtemp", false).map_err(|mut fault| {
            fault.fields.retain(|(name, _)| *name != "path");
            fault.with("path", format!("{prefix}XXXXXX"))
        })?;
        found
            .dir
            .create_dir(&found.below)
            .map_err(|error| fault::system(&error, "mkdtemp", &format!("{prefix}XXXXXX")))?;
        Ok(path)
    }

    fn chmod(&self, path: &str, mode: u32) -> Result<(), Fault> {
        let found = self.roots.find(path, Want::Write, "chmod", false)?;
        let permissions = cap_std::fs::Permissions::from_mode(mode & 0o777);
        found
            .dir
            .set_permissions(&found.below, permissions)
            .map_err(|error| self.roots.explain(&error, "chmod", &found))
    }

    fn truncate(&self, path: &str, length: u64) -> Result<(), Fault> {
        let found = self.roots.find(path, Want::Write, "open", false)?;
        let mut options = OpenOptions::new();
        let file = found.dir.open_with(&found.below, options.write(true));
        file.and_then(|file| file.set_len(length)).map_err(|error| self.roots.explain(&error, "open", &found))
    }
}

fn parse_flags(flags: &str, mode: u32) -> Result<Flags, Fault> {
    Flags::of(flags, mode).ok_or_else(|| {
        Fault::new("ERR_INVALID_ARG_VALUE", format!("The argument 'flags' is invalid. Received '{flags}'"))
    })
}

/// What `Stats` is made of: the kind, and numbers in the order in which `fs.js` reads them.
fn numbers<'js>(ctx: &Ctx<'js>, metadata: &Metadata) -> rquickjs::Result<Array<'js>> {
    let array = Array::new(ctx.clone())?;
    array.set(0, kind(metadata.file_type()))?;
    let millis = |seconds: i64, nanos: i64| seconds as f64 * 1000.0 + nanos as f64 / 1_000_000.0;
    let all = [
        metadata.dev() as f64,
        metadata.ino() as f64,
        f64::from(metadata.mode()),
        metadata.nlink() as f64,
        f64::from(metadata.uid()),
        f64::from(metadata.gid()),
        metadata.size() as f64,
        metadata.blksize() as f64,
        metadata.blocks() as f64,
        millis(metadata.atime(), metadata.atime_nsec()),
        millis(metadata.mtime(), metadata.mtime_nsec()),
        millis(metadata.ctime(), metadata.ctime_nsec()),
    ];
    for (at, number) in all.into_iter().enumerate() {
        array.set(at + 1, number)?;
    }
    Ok(array)
}

/// Sets a function of `Files` on `host.fs`.
macro_rules! functions {
    ($ctx:ident, $on:ident, $files:ident, $($name:literal => |$this:ident $(, $argument:ident: $type:ty)*| $body:expr;)*) => {
        $({
            let $this = Arc::clone(&$files);
            let function = move |ctx: Ctx<'js>, $($argument: $type),*| $body.map_err(|fault: Fault| fault.throw(&ctx));
            $on.set($name, Function::new($ctx.clone(), function)?)?;
        })*
    };
}

/// Puts `fs`, an object with the functions of files, on `host`.
pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, permits: &Permits) -> rquickjs::Result<()> {
    let files = Arc::new(Files { roots: Roots::new(permits.clone()), open: OpenFiles::default() });
    let on = Object::new(ctx.clone())?;
    on.set_prototype(None)?;
    functions! { ctx, on, files,
        "open" => |files, path: String, flags: String, mode: u32| files.open(&path, &flags, mode);
        "writeFd" => |files, fd: u32, binary: String, at: Option<f64>| files.open.write(fd, &from_binary(&binary), whole(at));
        "truncateFd" => |files, fd: u32, length: f64| files.open.truncate(fd, whole(Some(length)).unwrap_or_default());
        "syncFd" => |files, fd: u32| files.open.sync(fd);
        "close" => |files, fd: u32| files.open.close(fd);
        "mkdir" => |files, path: String, deep: bool| files.mkdir(&path, deep);
        "remove" => |files, path: String, what: String| files.remove(&path, &what);
        "rename" => |files, from: String, to: String| files.rename(&from, &to);
        "copy" => |files, from: String, to: String, exclusive: bool| files.copy(&from, &to, exclusive);
        "readlink" => |files, path: String| files.readlink(&path);
        "realpath" => |files, path: String| files.realpath(&path);
        "access" => |files, path: String, mode: u32| files.access(&path, mode);
        "mkdtemp" => |files, prefix: String, random: String| files.mkdtemp(&prefix, &random);
        "chmod" => |files, path: String, mode: u32| files.chmod(&path, mode);
        "truncate" => |files, path: String, length: f64| files.truncate(&path, whole(Some(length)).unwrap_or_default());
    }
    let of = Arc::clone(&files);
    let read = move |ctx: Ctx<'js>, path: String, flags: String| -> rquickjs::Result<TypedArray<'js, u8>> {
        let bytes = of.read(&path, &flags).map_err(|fault| fault.throw(&ctx))?;
        TypedArray::new(ctx, bytes)
    };
    on.set("read", Function::new(ctx.clone(), read)?)?;
    let of = Arc::clone(&files);
    let read_fd = move |ctx: Ctx<'js>,
                        fd: u32,
                        length: f64,
                        at: Option<f64>|
          -> rquickjs::Result<TypedArray<'js, u8>> {
        let length = whole(Some(length)).unwrap_or_default();
        let bytes = of.open.read(fd, length, whole(at)).map_err(|fault| fault.throw(&ctx))?;
        TypedArray::new(ctx, bytes)
    };
    on.set("readFd", Function::new(ctx.clone(), read_fd)?)?;
    let of = Arc::clone(&files);
    let stat = move |ctx: Ctx<'js>, path: String, follow: bool| -> rquickjs::Result<Array<'js>> {
        numbers(&ctx, &of.stat(&path, follow).map_err(|fault| fault.throw(&ctx))?)
    };
    on.set("stat", Function::new(ctx.clone(), stat)?)?;
    let of = Arc::clone(&files);
    let stat_fd = move |ctx: Ctx<'js>, fd: u32| -> rquickjs::Result<Array<'js>> {
        numbers(&ctx, &of.open.metadata(fd).map_err(|fault| fault.throw(&ctx))?)
    };
    on.set("statFd", Function::new(ctx.clone(), stat_fd)?)?;
    let list = move |ctx: Ctx<'js>, path: String| -> rquickjs::Result<Array<'js>> {
        let names = files.list(&path).map_err(|fault| fault.throw(&ctx))?;
        let array = Array::new(ctx)?;
        for (at, (name, kind)) in names.into_iter().enumerate() {
            array.set(at * 2, name)?;
            array.set(at * 2 + 1, kind)?;
        }
        Ok(array)
    };
    on.set("list", Function::new(ctx.clone(), list)?)?;
    host.set("fs", on)
}

/// A place or a length that JavaScript gave.
fn whole(number: Option<f64>) -> Option<u64> {
    number.filter(|number| *number >= 0.0 && *number < 9e15).map(|number| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
        let whole = number as u64;
        whole
    })
}
