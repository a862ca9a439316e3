//! The table of everything that the API does.

use std::future::Future;
use std::pin::Pin;

use backstop_store::Scope;
use http::{Method, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::operators::Problem;
use super::asked::{Answer, Asked, Empty, Reply};
use super::{answers, approvals, callers, configuration, document, grants, judge, records, stream, tokens};
use crate::server::answer::AnswerBody;

type Answering<T> = Pin<Box<dyn Future<Output = Result<T, Problem>> + Send>>;
type Shape = fn(&mut SchemaGenerator) -> Schema;

/// What answers with one value.
pub(super) type Handling = Box<dyn Fn(Asked) -> Answering<Reply> + Send + Sync>;

/// How a route answers.
pub(super) enum Handle {
    Once(Handling),
    /// With events, for as long as somebody reads them.
    Stream(Box<dyn Fn(Asked) -> Answering<Response<AnswerBody>> + Send + Sync>),
}

/// One thing that can be asked.
pub(super) struct Route {
    pub(super) method: Method,
    /// Its path behind the prefix; `{name}` stands for one segment.
    pub(super) path: &'static str,
    /// What the token of whoever asks has to allow; `None` for any token that counts here.
    pub(super) scope: Option<Scope>,
    /// Its name in clients.
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: Shape,
    pub(super) request: Shape,
    /// What is answered; the data of the events of a stream.
    pub(super) response: Shape,
    pub(super) handle: Handle,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// All routes.
#[derive(Debug)]
pub(super) struct Table(Vec<Route>);

/// What a method and a path lead to.
pub(super) enum Sought {
    /// A route, with the parts of the path that it leaves open.
    Found(&'static Route, Vec<String>),
    /// There is something, by these methods.
    OtherMethods(Vec<&'static str>),
    Nothing,
}

impl Table {
    pub(super) fn new() -> Self {
        Self(routes())
    }

    pub(super) fn routes(&self) -> &[Route] {
        &self.0
    }

    pub(super) fn find(&'static self, method: &Method, path: &str) -> Sought {
        let mut methods = Vec::new();
        for route in &self.0 {
            if let Some(open) = open_parts(route.path, path) {
                if route.method == *method {
                    return Sought::Found(route, open);
                }
                methods.push(route.method.as_str());
            }
        }
        if methods.is_empty() { Sought::Nothing } else { Sought::OtherMethods(methods) }
    }
}

/// Returns what stands in the open parts of a route's path, if the path is one of it. What is not written plainly is no path here.
fn open_parts(route: &str, path: &str) -> Option<Vec<String>> {
    let (mut wanted, mut given, mut open) = (route.split('/'), path.split('/'), Vec::new());
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(open),
            (Some(wanted), Some(given)) if wanted.starts_with('{') => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                if given.is_empty() || given.len() > 128 || !given.bytes().all(is_plain) {
                    return None;
                }
                open.push(given.to_owned());
            }
            (Some(wanted), Some(given)) if wanted == given => {}
            _ => return None,
        }
    }
}

/// Makes a route. Its types are those that are read and written, and those that the document describes.
fn route<Q, B, T, F, Fut>(
    method: Method,
    path: &'static str,
    scope: impl Into<Option<Scope>>,
    (name, summary): (&'static str, &'static str),
    handle: F,
) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send,
    B: DeserializeOwned + JsonSchema + Send,
    T: Serialize + JsonSchema,
    F: Fn(Asked, Q, B) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Answer<T>, Problem>> + Send + 'static,
{
    let handle = move |asked: Asked| -> Answering<Reply> {
        let read = asked.query::<Q>().and_then(|query| Ok((query, asked.body::<B>()?)));
        match read {
            Ok((query, body)) => {
                let answering = handle(asked, query, body);
                Box::pin(async move { answering.await?.reply() })
            }
            Err(problem) => Box::pin(std::future::ready(Err(problem))),
        }
    };
    Route {
        method,
        path,
        scope: scope.into(),
        name,
        summary,
        query: |generator| generator.subschema_for::<Q>(),
        request: |generator| generator.subschema_for::<B>(),
        response: |generator| generator.subschema_for::<T>(),
        handle: Handle::Once(Box::new(handle)),
    }
}

/// Makes a route that answers with a stream of events, whose data are `T`s.
fn events<Q, T, F, Fut>(
    path: &'static str,
    scope: Scope,
    (name, summary): (&'static str, &'static str),
    handle: F,
) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send,
    T: Serialize + JsonSchema,
    F: Fn(Asked, Q) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Response<AnswerBody>, Problem>> + Send + 'static,
{
    let handle = move |asked: Asked| -> Answering<Response<AnswerBody>> {
        match asked.query::<Q>().and_then(|query| Ok((query, asked.body::<Empty>()?))) {
            Ok((query, Empty {})) => Box::pin(handle(asked, query)),
            Err(problem) => Box::pin(std::future::ready(Err(problem))),
        }
    };
    Route {
        method: Method::GET,
        path,
        scope: Some(scope),
        name,
        summary,
        query: |generator| generator.subschema_for::<Q>(),
        request: |generator| generator.subschema_for::<Empty>(),
        response: |generator| generator.subschema_for::<T>(),
        handle: Handle::Stream(Box::new(handle)),
    }
}

fn routes() -> Vec<Route> {
    use Scope::{Admin, Approve, Judge, Read};
    vec![
        route::<Empty, Empty, _, _, _>(
            Method::GET,
            "openapi.json",
            None,
            ("getDocument", "This document"),
            document::get,
        ),
        route(
            Method::POST,
            "hooks/{point}",
            Judge,
            ("judge", "Lets the hooks at a point judge, take or watch an event"),
            judge::judge,
        ),
        route::<_, Empty, _, _, _>(
            Method::GET,
            "decisions/{id}",
            Judge,
            ("getDecision", "Returns a decision, or waits for it"),
            judge::decision,
        ),
        events::<Empty, judge::Decision, _, _>(
            "decisions/{id}/events",
            Judge,
            (
                "followDecision",
                "Tells of a decision: `pending` with each question, and `decided`, or `problem` where somebody else was told, at its end",
            ),
            stream::decision,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::DELETE,
            "decisions/{id}",
            Judge,
            ("cancelDecision", "Gives up a decision that is pending; its question is cancelled"),
            judge::cancel,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::GET,
            "hooks",
            Read,
            ("listHooks", "Lists the hooks in force, in the order in which they run"),
            records::hooks,
        ),
        route::<_, Empty, _, _, _>(
            Method::GET,
            "approvals",
            Read,
            ("listApprovals", "Lists questions, the newest first"),
            approvals::list,
        ),
        events::<stream::ApprovalEvents, approvals::Approval, _, _>(
            "approvals/events",
            Read,
            (
                "followApprovals",
                "Tells of questions: `opened` and `resolved`, and at first all that wait and then `current`, with their number",
            ),
            stream::approvals,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::GET,
            "approvals/{id}",
            Read,
            ("getApproval", "Returns a question"),
            approvals::get,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::POST,
            "approvals/{id}/whole",
            Approve,
            (
                "showWhole",
                "Shows all of the arguments, where they are shown in part otherwise; the call can be allowed then",
            ),
            approvals::whole,
        ),
        route::<Empty, _, _, _, _>(
            Method::POST,
            "approvals/{id}/answer",
            Approve,
            ("answer", "Answers a question; the first answer counts"),
            answers::answer,
        ),
        route::<_, Empty, _, _, _>(
            Method::GET,
            "grants",
            Read,
            ("listGrants", "Lists what was allowed for good, the newest first"),
            grants::list,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::DELETE,
            "grants/{id}",
            Approve,
            ("revokeGrant", "Revokes a grant"),
            grants::revoke,
        ),
        route::<_, Empty, _, _, _>(
            Method::GET,
            "sessions",
            Read,
            ("listSessions", "Lists the sessions of agents, the one with the latest activity first"),
            records::sessions,
        ),
        route::<_, Empty, _, _, _>(
            Method::GET,
            "audit",
            Read,
            ("listAudit", "Lists entries of the audit trail, in order"),
            records::audit,
        ),
        events::<stream::AuditEvents, records::Entry, _, _>(
            "audit/events",
            Read,
            ("followAudit", "Tells of entries of the audit trail as they are written: `entry`"),
            stream::audit,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::GET,
            "agents",
            Read,
            ("listAgents", "Lists agents, what they may ask, and what they used"),
            callers::agents,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::GET,
            "users",
            Read,
            ("listUsers", "Lists users, what they may ask, and what they used"),
            callers::users,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::GET,
            "configuration",
            Admin,
            ("getConfiguration", "Returns the configuration in force, and where each value is from"),
            configuration::get,
        ),
        route::<Empty, _, _, _, _>(
            Method::POST,
            "configuration/check",
            Admin,
            ("checkConfiguration", "Says what is wrong with a configuration, which comes into force nowhere"),
            configuration::check,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::POST,
            "configuration/reload",
            Admin,
            ("reloadConfiguration", "Has the server read its configuration anew, as SIGHUP does"),
            configuration::reload,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::GET,
            "plugins",
            Admin,
            ("listPlugins", "Lists the plugins in force, and what of them is not"),
            configuration::plugins,
        ),
        route::<_, Empty, _, _, _>(
            Method::GET,
            "tokens",
            Admin,
            ("listTokens", "Lists access tokens, the newest first, also those that no longer count"),
            tokens::list,
        ),
        route::<Empty, Empty, _, _, _>(
            Method::DELETE,
            "tokens/{id}",
            Admin,
            ("revokeToken", "Revokes an access token"),
            tokens::revoke,
        ),
    ]
}
