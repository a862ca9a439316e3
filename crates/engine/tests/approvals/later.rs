//! What a later call has to share with the question that a person answered for it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::{Attendance, Engine, HookOptions, RegisterError, Snapshot};
use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{ApprovalRequest, Decision, Digest, Fact, Ground, OwnerId, Severity, hook_fn};
use backstop_store::{ApprovalStatus, Store, Timestamp};

use crate::support::*;

over_both_stores! {
    a_code_for_a_mild_question_allows_no_grave_one,
    a_code_for_one_script_runs_no_other,
    a_code_covers_what_was_asked_and_nothing_beyond,
    a_code_needs_every_question_to_be_one_that_was_answered,
    a_question_of_which_something_is_masked_can_be_allowed_later,
    a_grant_holds_nothing_that_was_masked_and_covers_the_question,
    an_answer_that_nobody_lived_to_use_is_for_the_same_script,
    a_second_question_about_a_call_can_be_allowed_later,
    allow_always_for_the_very_call_is_for_the_same_script,
    a_call_asked_about_twice_is_shown_as_it_is_now,
}

const TTL: Duration = Duration::from_secs(60);

/// What the hook asks, and what it looked at to ask that.
#[derive(Clone, Debug, PartialEq)]
struct Looks {
    rules: BTreeSet<&'static str>,
    severity: Severity,
    script: &'static str,
}

fn mild() -> Looks {
    Looks { rules: ["mild"].into(), severity: Severity::Warning, script: "echo one" }
}

impl Looks {
    fn request(&self) -> ApprovalRequest {
        let ground = |rule: &&str| Ground { rule: (*rule).into(), about: vec!["deploy.sh".into()] };
        request().severity(self.severity).grounds(self.rules.iter().map(ground))
    }

    /// That much more, in each way.
    fn harder(&self) -> Vec<Self> {
        let more = ["grave", "mild", "odd"].map(|rule| {
            let mut rules = self.rules.clone();
            rules.insert(rule);
            Self { rules, ..self.clone() }
        });
        let graver =
            [Severity::Warning, Severity::Critical].map(|severity| Self { severity, ..self.clone() });
        let other = Self { script: "echo two", ..self.clone() };
        let all = more.into_iter().chain(graver.into_iter().filter(|one| one.severity > self.severity));
        all.chain([other]).filter(|one| one != self).collect()
    }

    /// Part of it, and no more grave.
    fn softer(&self) -> Vec<Self> {
        let fewer = self.rules.iter().filter(|_| self.rules.len() > 1).map(|rule| {
            let mut rules = self.rules.clone();
            rules.remove(rule);
            Self { rules, ..self.clone() }
        });
        let milder = [Severity::Info, Severity::Warning].map(|severity| Self { severity, ..self.clone() });
        fewer.chain(milder.into_iter().filter(|one| one.severity < self.severity)).collect()
    }
}

/// An engine whose hook asks by what it finds on a disk.
struct Scene {
    engine: Engine,
    disk: Arc<Mutex<Looks>>,
    store: Arc<dyn Store>,
}

impl Scene {
    fn new(store: &Arc<dyn Store>, looks: &Looks) -> Self {
        let engine = Engine::builder().store(Arc::clone(store)).build();
        let disk = Arc::new(Mutex::new(looks.clone()));
        let seen = Arc::clone(&disk);
        let hook = hook_fn::<BeforeToolCall, _>(move |_, cx| {
            let again = Arc::clone(&seen);
            let look = move || Digest::of_text("file", again.lock().unwrap().script);
            cx.rests_on(Fact::new(look(), look).of_content());
            Ok(Some(ToolCallOutcome::ask(seen.lock().unwrap().request())))
        });
        engine.registry().on(hook, HookOptions::new(OwnerId::new("plugin")).id("asks")).unwrap();
        Self { engine, disk, store: Arc::clone(store) }
    }

    async fn passes(&self, command: &str) -> bool {
        permit(&self.engine, command, &Attendance::Nobody).await.permit.is_ok()
    }

    fn put(&self, looks: &Looks) {
        *self.disk.lock().unwrap() = looks.clone();
    }

    /// A person allows one later call, by the newest question.
    async fn allow(&self) {
        let row = rows(&self.store).await.remove(0);
        self.store.allow_later(&row.id, &"me".into(), TTL, Timestamp::now()).await.unwrap();
    }
}

async fn a_code_for_a_mild_question_allows_no_grave_one(store: Arc<dyn Store>) {
    let scene = Scene::new(&store, &mild());
    assert!(!scene.passes("bash deploy.sh").await);
    scene.allow().await;
    scene.put(&Looks { rules: ["grave"].into(), severity: Severity::Critical, ..mild() });
    assert!(!scene.passes("bash deploy.sh").await);
    let asked = rows(&store).await.remove(0);
    assert_eq!(
        (asked.request.severity, asked.state.status()),
        (Severity::Critical, ApprovalStatus::Unattended)
    );
    scene.put(&mild());
    assert!(scene.passes("bash deploy.sh").await, "nothing has used it up");
}

async fn a_code_for_one_script_runs_no_other(store: Arc<dyn Store>) {
    let scene = Scene::new(&store, &mild());
    assert!(!scene.passes("bash deploy.sh").await);
    scene.allow().await;
    scene.put(&Looks { script: "echo two", ..mild() });
    assert!(!scene.passes("bash deploy.sh").await);
    scene.put(&mild());
    assert!(scene.passes("bash deploy.sh").await);
    assert!(!scene.passes("bash deploy.sh").await, "once");
}

/// The relation: more rules, more severity or another fact make no call pass; the same passes once, and so does a part of it.
async fn a_code_covers_what_was_asked_and_nothing_beyond(store: Arc<dyn Store>) {
    let severities = [Severity::Info, Severity::Warning, Severity::Critical];
    let rules: [&[&str]; 3] = [&["mild"], &["mild", "odd"], &["grave", "mild", "odd"]];
    let all = severities.iter().flat_map(|severity| rules.map(|rules| (*severity, rules)));
    for (number, (severity, rules)) in all.enumerate() {
        let asked = Looks { rules: rules.iter().copied().collect(), severity, ..mild() };
        let scene = Scene::new(&store, &asked);
        for (turn, now) in asked.softer().iter().chain([&asked]).enumerate() {
            let command = format!("bash {number}-{turn}.sh");
            scene.put(&asked);
            assert!(!scene.passes(&command).await);
            scene.allow().await;
            for harder in asked.harder() {
                scene.put(&harder);
                assert!(!scene.passes(&command).await, "{harder:?} after {asked:?}");
            }
            scene.put(now);
            assert!(scene.passes(&command).await, "{now:?} after {asked:?}");
            assert!(!scene.passes(&command).await, "once");
        }
    }
}

async fn a_code_needs_every_question_to_be_one_that_was_answered(store: Arc<dyn Store>) {
    let scene = Scene::new(&store, &mild());
    assert!(!scene.passes("bash deploy.sh").await);
    scene.allow().await;
    ask_exactly(&scene.engine, "other", mild().request());
    assert!(!scene.passes("bash deploy.sh").await);
    assert_eq!(rows(&store).await[0].request.reasons.len(), 2);
    scene.allow().await;
    assert!(scene.passes("bash deploy.sh").await, "both were answered");
}

/// A hook without rules is known by its title, of which people are shown, and the store keeps, what is no secret.
async fn a_question_of_which_something_is_masked_can_be_allowed_later(store: Arc<dyn Store>) {
    for (now, passes) in [("send hunter2?", true), ("send all?", false)] {
        let title = Arc::new(Mutex::new("send hunter2?"));
        let engine = Engine::builder().store(Arc::clone(&store)).build();
        let set = |snapshot: &mut Snapshot| {
            snapshot.set_masker(Arc::new(Word));
            Ok::<_, RegisterError>(())
        };
        engine.registry().update(set).unwrap();
        let asks = Arc::clone(&title);
        let hook = hook_fn::<BeforeToolCall, _>(move |_, _| {
            Ok(Some(ToolCallOutcome::ask(ApprovalRequest::new(*asks.lock().unwrap(), "").unwrap())))
        });
        engine.registry().on(hook, HookOptions::new(OwnerId::new("plugin")).id("asks")).unwrap();
        permit(&engine, now, &Attendance::Nobody).await.permit.unwrap_err();
        let row = rows(&store).await.remove(0);
        assert_eq!(row.request.title.as_str(), "send *******?");
        store.allow_later(&row.id, &"me".into(), TTL, Timestamp::now()).await.unwrap();
        *title.lock().unwrap() = now;
        assert_eq!(permit(&engine, now, &Attendance::Nobody).await.permit.is_ok(), passes, "{now}");
    }
}

async fn a_grant_holds_nothing_that_was_masked_and_covers_the_question(store: Arc<dyn Store>) {
    let engine = Engine::builder().store(Arc::clone(&store)).build();
    let set = |snapshot: &mut Snapshot| {
        snapshot.set_masker(Arc::new(Word));
        Ok::<_, RegisterError>(())
    };
    engine.registry().update(set).unwrap();
    let hook = hook_fn::<BeforeToolCall, _>(move |_, _| {
        Ok(Some(ToolCallOutcome::ask(ApprovalRequest::new("send hunter2?", "").unwrap())))
    });
    engine.registry().on(hook, HookOptions::new(OwnerId::new("plugin")).id("asks")).unwrap();
    // Given with the call that waits, and given by others for a question that is filed.
    permit(&engine, "ls", &Human::says(Decision::AllowAlways)).await.permit.unwrap();
    let [grant] = store.grants(9).await.unwrap().try_into().unwrap();
    assert_eq!(grant.granted.title.as_str(), "send *******?");
    assert!(!format!("{grant:?}").contains("hunter2"), "{grant:?}");
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
    permit(&engine, "ls -a", &Attendance::Nobody).await.permit.unwrap_err();
}

/// The process that waited is gone, with the yes that it did not live to use.
async fn an_answer_that_nobody_lived_to_use_is_for_the_same_script(store: Arc<dyn Store>) {
    let other = Looks { script: "echo two", ..mild() };
    for (command, now, passes) in [("bash a.sh", other, false), ("bash b.sh", mild(), true)] {
        let scene = Scene::new(&store, &mild());
        assert!(!scene.passes(command).await);
        let waited = store.create_approval(rows(&store).await.remove(0).request).await.unwrap();
        let yes = Decision::AllowOnce;
        store.resolve_approval(&waited.id, yes, "me", waited.request.created_at).await.unwrap();
        store.keep_allowance(&waited.id, TTL, Timestamp::now()).await.unwrap();
        scene.put(&now);
        assert_eq!(scene.passes(command).await, passes, "{now:?}");
    }
}

/// A hook that came while somebody was asked had the call judged twice; a later one is judged once.
async fn a_second_question_about_a_call_can_be_allowed_later(store: Arc<dyn Store>) {
    let scene = Scene::new(&store, &mild());
    let engine = scene.engine.clone();
    let waiting = tokio::spawn(async move { permit(&engine, "bash deploy.sh", &Attendance::Queue).await });
    let first = pending(&store).await;
    ask_exactly(&scene.engine, "other", mild().request());
    store.resolve_approval(&first.id, Decision::AllowOnce, "me", Timestamp::now()).await.unwrap();
    let second = pending(&store).await;
    assert_eq!(second.request.reasons.len(), 2);
    store.cancel_approval(&second.id, Timestamp::now()).await.unwrap();
    waiting.await.unwrap().permit.unwrap_err();
    store.allow_later(&second.id, &"me".into(), TTL, Timestamp::now()).await.unwrap();
    assert!(scene.passes("bash deploy.sh").await);
    assert!(!scene.passes("bash deploy.sh").await, "once");
}

async fn allow_always_for_the_very_call_is_for_the_same_script(store: Arc<dyn Store>) {
    let scene = Scene::new(&store, &mild());
    let always = Human::says(Decision::AllowAlways);
    permit(&scene.engine, "bash deploy.sh", &always).await.permit.unwrap();
    assert!(scene.passes("bash deploy.sh").await);
    scene.put(&Looks { script: "echo two", ..mild() });
    assert!(!scene.passes("bash deploy.sh").await);
    permit(&scene.engine, "bash deploy.sh", &always).await.permit.unwrap();
    assert!(scene.passes("bash deploy.sh").await, "each was allowed");
    scene.put(&mild());
    assert!(scene.passes("bash deploy.sh").await);
}

/// Whoever is asked sees what the script says by now, and not what it said when the call was made before.
async fn a_call_asked_about_twice_is_shown_as_it_is_now(store: Arc<dyn Store>) {
    let scene = Scene::new(&store, &mild());
    assert!(!scene.passes("bash deploy.sh").await && !scene.passes("bash deploy.sh").await);
    assert_eq!(rows(&store).await.len(), 1, "one call that comes twice");
    scene.put(&Looks { script: "echo two", ..mild() });
    assert!(!scene.passes("bash deploy.sh").await);
    assert_eq!(rows(&store).await.len(), 2);
}
