//! Pages about questions.

use backstop_console::{Question, Queue, Told, is_alike};
use backstop_hooks::ApprovalId;
use backstop_store::{ApprovalRecord, ApprovalState, OpenApprovals, Timestamp};
use http::StatusCode;

use super::{Answer, PageError, PageRequest, devices, form, html};

/// How many questions are shown at once.
const STEP: usize = 100;
/// How many questions are looked at for those that are like one, and how many of these are shown.
const LOOKED_AT: usize = 100;
const MOST_ALIKE: usize = 20;

impl PageRequest<'_> {
    /// Returns the question of that id.
    pub(super) async fn record(&self, id: &str) -> Result<ApprovalRecord, PageError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if id.is_empty() || id.len() > 128 || !id.bytes().all(is_plain) {
            return Err(PageError::Nothing);
        }
        let found = self.engine.answer_store().approval(&ApprovalId::new(id)).await;
        found.map_err(|_| PageError::Store)?.ok_or(PageError::Nothing)
    }

    async fn open(&self, skip: usize, limit: usize) -> Result<OpenApprovals, PageError> {
        let (store, now) = (self.engine.answer_store(), Timestamp::now());
        store.expire_approvals(now).await.map_err(|_| PageError::Store)?;
        store.open_approvals(now, skip, limit).await.map_err(|_| PageError::Store)
    }
}

pub(super) async fn queue(request: &PageRequest<'_>) -> Answer {
    Ok(html(StatusCode::OK, shown(request, false).await?))
}

pub(super) async fn part(request: &PageRequest<'_>) -> Answer {
    Ok(html(StatusCode::OK, shown(request, true).await?))
}

async fn shown(request: &PageRequest<'_>, is_part: bool) -> Result<String, PageError> {
    let skip = form::query(request.head, "skip").parse().unwrap_or(0);
    let mut open = request.open(skip, STEP).await?;
    let mut skip = skip;
    if open.records.is_empty() && skip > 0 {
        // Of what stood there, nothing is left.
        (skip, open) = (0, request.open(0, STEP).await?);
    }
    let refused = request.engine.answer_store().refused_questions(Timestamp::now()).await;
    let refused = refused.map_err(|_| PageError::Store)?;
    let done = match (
        form::query(request.head, "allowed").parse::<usize>(),
        form::query(request.head, "denied").parse::<usize>(),
    ) {
        (Ok(count), _) => Some(format!("{count} allowed once.")),
        (_, Ok(count)) => Some(format!("{count} denied.")),
        _ => None,
    };
    let missed = form::query(request.head, "missed").parse::<usize>().unwrap_or(0);
    let done = done.map(|done| match missed {
        0 => done,
        missed => format!(
            "{done} {missed} not: somebody was first, the call is another one, or it can't be answered so."
        ),
    });
    let queue = Queue {
        records: &open.records,
        all: open.all,
        skip,
        step: STEP,
        is_strict: request.engine.keeps_answers_apart(),
        done: done.as_deref(),
        people: request.engine.people(),
        refused: &refused,
        push_key: devices::key(request),
    };
    let (viewer, now) = (request.viewer(), Timestamp::now());
    Ok(match is_part {
        true => backstop_console::queue_part(&viewer, &queue, now),
        false => backstop_console::queue(&viewer, &queue, now),
    })
}

pub(super) async fn question(request: &PageRequest<'_>, id: &str) -> Answer {
    let record = request.record(id).await?;
    page(request, &record, None).await
}

pub(super) async fn state(request: &PageRequest<'_>, id: &str) -> Answer {
    let record = request.record(id).await?;
    let open = request.open(0, 2).await?;
    let answerer = request.answerer();
    let question = Question {
        record: &record,
        similar: &[],
        has_more: false,
        is_strict: request.engine.keeps_answers_apart(),
        told: None,
        next: next(&open.records, &record),
        people: request.engine.people(),
        person: answerer.person(),
    };
    Ok(html(StatusCode::OK, backstop_console::question_state(&question, Timestamp::now())))
}

/// The page of a question, on which the person is told something.
pub(super) async fn page(request: &PageRequest<'_>, record: &ApprovalRecord, told: Option<&Told>) -> Answer {
    let open = request.open(0, LOOKED_AT).await?.records;
    let is_like_it = |one: &&ApprovalRecord| {
        one.id != record.id && one.state == ApprovalState::Pending && is_alike(one, record)
    };
    let mut similar: Vec<_> = match record.state {
        ApprovalState::Pending => open.iter().filter(is_like_it).cloned().collect(),
        _ => Vec::new(),
    };
    let has_more = similar.len() > MOST_ALIKE || open.len() == LOOKED_AT;
    similar.truncate(MOST_ALIKE);
    let answerer = request.answerer();
    let question = Question {
        record,
        similar: &similar,
        has_more,
        is_strict: request.engine.keeps_answers_apart(),
        told,
        next: next(&open, record),
        people: request.engine.people(),
        person: answerer.person(),
    };
    let status = match told {
        Some(Told::Refused(_)) => StatusCode::CONFLICT,
        _ => StatusCode::OK,
    };
    Ok(html(status, backstop_console::question(&request.viewer(), &question, Timestamp::now())))
}

/// The question that waits and ends next, besides this one.
fn next<'a>(open: &'a [ApprovalRecord], record: &ApprovalRecord) -> Option<&'a str> {
    let waits = |one: &&ApprovalRecord| one.id != record.id && one.state == ApprovalState::Pending;
    open.iter().find(waits).map(|one| one.id.as_str())
}
