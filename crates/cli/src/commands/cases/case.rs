//! A file of cases as it is read: everything in it is known, and everything that is wrong is said with its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop::hooks::{CallContext, SessionId};
use backstop::yaml::{Kind, MAX_BYTES, Node, Place, Problem, ProblemKind, parse};

use super::call::{self, Call};
use super::expect::Expect;
use super::fields::{Fields, text, texts, wrong};
use crate::output::one_line;

/// The longest name of a case that its call gives it.
const NAME_CHARS: usize = 100;

/// A file of cases.
#[derive(Debug)]
pub(super) struct CaseFile {
    /// The configurations that the cases name, as paths that hold from here.
    pub(super) configs: Vec<PathBuf>,
    /// The folder in which the agent works, if the cases name one.
    workspace: Option<PathBuf>,
    /// Who calls, where a case does not say so itself.
    context: Option<CallContext>,
    pub(super) cases: Vec<Case>,
}

/// One case.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) call: Call,
    pub(super) expect: Expect,
    pub(super) because: String,
    pub(super) at: Place,
    context: Option<CallContext>,
}

impl CaseFile {
    /// Reads a file, and returns everything that is wrong with it.
    pub(super) fn read(path: &Path) -> Result<Self, Vec<Problem>> {
        let name: Arc<str> = Arc::from(path.to_string_lossy());
        let unreadable = |why: String| {
            vec![Problem::new(ProblemKind::Unreadable, Place::file_only(Arc::clone(&name)), why)]
        };
        // Of what is no file of cases, no more is read than says so.
        let size = std::fs::metadata(path).map(|found| found.len()).unwrap_or_default();
        if size > MAX_BYTES as u64 {
            return Err(unreadable(format!("the file is larger than {MAX_BYTES} bytes")));
        }
        let bytes = std::fs::read(path).map_err(|error| unreadable(format!("can't be read: {error}")))?;
        let written = String::from_utf8(bytes).map_err(|_| unreadable("the file is no UTF-8".to_owned()))?;
        let root = parse(&name, &written).map_err(|problem| vec![problem])?;
        let root = root.ok_or_else(|| unreadable("there are no cases in it".to_owned()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::of(&root, folder)
    }

    fn of(root: &Node, folder: &Path) -> Result<Self, Vec<Problem>> {
        let first = |problem: Problem| vec![problem];
        if let Kind::List(_) = root.kind {
            return Err(vec![
                wrong(root, "a file of cases is a mapping").with_hint("write `cases:` above the list"),
            ]);
        }
        let fields = Fields::of(root, "a file of cases", &["config", "workspace", "context", "cases"])
            .map_err(first)?;
        let list =
            fields.required("cases", "a file of cases has a list `cases`, and a folder is tested as a whole");
        let list = list.map_err(first)?;
        let Kind::List(items) = &list.kind else {
            return Err(vec![wrong(list, format!("`cases` is a list, found {}", list.shape()))]);
        };
        if items.is_empty() {
            return Err(vec![wrong(list, "`cases` is empty: a test of nothing would pass")]);
        }
        let mut problems = Vec::new();
        let mut kept = |problem: Problem| problems.push(problem);
        let configs = fields.get("config").map(|node| texts(node, "config")).transpose();
        let configs = configs.map_err(&mut kept).ok().flatten().unwrap_or_default();
        let workspace = fields.get("workspace").map(|node| text(node, "workspace")).transpose();
        let workspace = workspace.map_err(&mut kept).ok().flatten();
        let context = fields.get("context").map(call::context).transpose();
        let context = context.map_err(&mut kept).ok().flatten();
        let mut cases = Vec::new();
        for item in items {
            match Case::read(item) {
                Ok(read) => cases.extend(read),
                Err(problem) => kept(problem),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            configs: configs.into_iter().map(|config| folder.join(config)).collect(),
            workspace: workspace.map(|path| folder.join(path)),
            context,
            cases,
        })
    }
}

impl Case {
    /// Reads an entry: one case, or one for each of its calls.
    fn read(node: &Node) -> Result<Vec<Self>, Problem> {
        let fields = Fields::of(node, "a case", &["name", "call", "expect", "because", "context"])?;
        let calls = fields.required("call", "a command, a tool call, or an event of a hook point")?;
        let expect = fields.required("expect", "what has to come of it: allow, modify, ask or block")?;
        let because = fields.required("because", "a case says why: it is read when it fails")?;
        let because = text(because, "because")?.to_owned();
        let name = fields.get("name").map(|node| text(node, "name")).transpose()?;
        let context = fields.get("context").map(call::context).transpose()?;
        let places: Vec<&Node> = match &calls.kind {
            Kind::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        let calls = Call::read(calls)?;
        let many = calls.len() > 1;
        let cases = calls.into_iter().zip(places).map(|(call, place)| {
            let line = one_line(&call.line(), NAME_CHARS);
            let name = match name {
                Some(name) if many => format!("{name}: {line}"),
                Some(name) => name.to_owned(),
                None => line,
            };
            let expect = Expect::read(expect, &call)?;
            let (because, context) = (because.clone(), context.clone());
            Ok(Self { name, call, expect, because, at: place.at.clone(), context })
        });
        cases.collect()
    }

    /// Returns whose call it is: what the case says, over what its file says, over `base`.
    pub(super) fn context(&self, file: &CaseFile, base: CallContext, number: usize) -> CallContext {
        let mut context = self.context.clone().or_else(|| file.context.clone()).unwrap_or_default();
        context.agent_id = context.agent_id.or(base.agent_id);
        let workspace = file.workspace.as_ref().map(|folder| {
            std::path::absolute(folder).unwrap_or_else(|_| folder.clone()).display().to_string()
        });
        context.workspace_dir = context.workspace_dir.or(workspace).or(base.workspace_dir);
        // Nothing that is counted by session carries over from one case to the next.
        context.session_id = context.session_id.or_else(|| Some(SessionId::new(format!("case-{number}"))));
        context
    }
}
