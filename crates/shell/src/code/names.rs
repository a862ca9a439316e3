//! Names of calls that matter, in small letters and without what they are called on.

/// A shell reads their first argument.
pub(super) const SHELLS: &[&str] = &[
    "system",
    "popen",
    "popen2",
    "popen3",
    "popen4",
    "getoutput",
    "getstatusoutput",
    "execsync",
    "shell_exec",
    "passthru",
    "proc_open",
    "qx",
    "pipeline",
    "create_subprocess_shell",
    "spawnsync_shell",
    "command_output",
    "shell",
    "execute",
    "run_command",
    "do_shell_script",
    "system2",
    "sh",
];

/// They start a process from a vector of arguments.
pub(super) const VECTORS: &[&str] = &[
    "run",
    "call",
    "check_call",
    "check_output",
    "spawn",
    "spawnsync",
    "execfile",
    "execfilesync",
    "execv",
    "execve",
    "execvp",
    "execvpe",
    "execl",
    "execlp",
    "execle",
    "spawnl",
    "spawnlp",
    "spawnv",
    "spawnvp",
    "posix_spawn",
    "create_subprocess_exec",
    "pcntl_exec",
    "capture2",
    "capture2e",
    "capture3",
    "start_process",
];

/// They evaluate text as code of their own language.
pub(super) const EVALUATORS: &[&str] = &[
    "eval",
    "load",
    "loadstring",
    "instance_eval",
    "class_eval",
    "module_eval",
    "assert",
    "create_function",
    "function",
    "compile",
    "runinnewcontext",
    "runinthiscontext",
    "execscript",
    "dostring",
];

/// They delete the paths they are given.
pub(super) const DELETERS: &[&str] = &[
    "remove",
    "unlink",
    "unlinksync",
    "rm",
    "rmsync",
    "rmdir",
    "rmdirsync",
    "removedirs",
    "rmtree",
    "rm_rf",
    "rm_r",
    "rm_f",
    "remove_tree",
    "remove_dir",
    "remove_file",
    "deletefile",
    "delete",
    "remove_entry",
    "remove_entry_secure",
    "remove_dir_all",
    "emptydirsync",
    "removesync",
];

/// They delete with everything below.
pub(super) const RECURSIVE: &[&str] = &[
    "rmtree",
    "rm_rf",
    "rm_r",
    "remove_tree",
    "rmsync",
    "remove_dir_all",
    "remove_entry",
    "remove_entry_secure",
    "emptydirsync",
    "removesync",
    "removedirs",
];

/// They read a file.
pub(super) const READERS: &[&str] = &[
    "open",
    "readfile",
    "readfilesync",
    "read_text",
    "read_bytes",
    "read",
    "readlines",
    "file_get_contents",
    "fopen",
    "file",
    "createreadstream",
    "slurp",
    "opensync",
    "readtextfile",
    "readtextfilesync",
    "readlines_file",
    "readrds",
    "readfile_sync",
    "readall",
    "binread",
    "foreach",
    "fileinput",
    "load_dotenv_file",
    "parsefile",
];

/// They write a file.
pub(super) const WRITERS: &[&str] = &[
    "writefile",
    "writefilesync",
    "appendfile",
    "appendfilesync",
    "write_text",
    "write_bytes",
    "file_put_contents",
    "binwrite",
    "writelines_file",
    "truncate",
    "truncatesync",
    "createwritestream",
    "touch_file",
    "writetextfile",
    "write_file",
    "symlink",
    "symlinksync",
    "link",
    "linksync",
    "utime",
    "mkfifo",
];

/// They change owners.
pub(super) const OWNERS: &[&str] = &["chown", "chownsync", "lchown"];

/// They change permissions.
pub(super) const MODES: &[&str] = &["chmod", "chmodsync", "lchmod"];

/// They move a file.
pub(super) const MOVERS: &[&str] = &["rename", "renamesync", "move", "mv", "replace"];

/// They copy a file.
pub(super) const COPIERS: &[&str] =
    &["copyfile", "copyfilesync", "copy", "copy2", "copytree", "cp", "cpsync", "cp_r"];

/// They talk to the network, on an object that does.
pub(super) const NETWORK: &[&str] = &[
    "urlopen",
    "urlretrieve",
    "get",
    "post",
    "fetch",
    "request",
    "put",
    "urllib",
    "http_get",
    "lwp",
    "getstore",
    "curl_exec",
    "httpget",
    "open_uri",
    "get_content",
    "download",
];

/// They decode Base64.
pub(super) const DECODERS: &[&str] = &[
    "b64decode",
    "urlsafe_b64decode",
    "standard_b64decode",
    "base64_decode",
    "decode64",
    "strict_decode64",
    "atob",
    "decode_base64",
    "a2b_base64",
    "unb64",
    "frombase64string",
];

/// They decode or compute text in ways that are not followed.
pub(super) const UNKNOWN_DECODERS: &[&str] = &[
    "decompress",
    "inflate",
    "gzinflate",
    "gzuncompress",
    "rot13",
    "str_rot13",
    "unpack",
    "chr",
    "fromcharcode",
    "fromcodepoint",
    "unquote",
    "unquote_plus",
    "decodeuricomponent",
    "decodeuri",
    "unescape",
    "urldecode",
    "rawurldecode",
    "reversed",
    "reverse",
    "strrev",
    "translate",
    "maketrans",
    "strtr",
    "bytearray",
    "convert_uudecode",
    "loads_marshal",
    "b32decode",
    "b85decode",
    "a85decode",
    "gunzipsync",
    "inflatesync",
    "brotlidecompresssync",
];
