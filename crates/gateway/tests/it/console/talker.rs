//! Somebody who runs the agent for people, as far as the console sees it: it answers what is said with the same, or goes on working.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use backstop_gateway::chat::{
    Chat, ChatAgent, ChatLine, ChatOpen, ChatPerson, ChatSeen, MOST_MESSAGE, MayNoMore,
};
use backstop_hooks::{Json, SessionId};
use backstop_store::{Session, Store, Timestamp};

/// What is said where the agent goes on working.
pub(crate) const WORK: &str = "work";

#[derive(Debug, Default)]
struct Talked {
    id: String,
    who: Option<ChatPerson>,
    seen: ChatSeen,
    mark: u64,
}

#[derive(Debug)]
pub(crate) struct Talker {
    store: Arc<dyn Store>,
    open: Arc<Mutex<Vec<Talked>>>,
    /// What is missing, if something is.
    pub(crate) missing: Mutex<Option<String>>,
    pub(crate) workspace: Mutex<String>,
}

impl Talker {
    pub(crate) fn new(store: &Arc<dyn Store>) -> Arc<Self> {
        let (open, missing) = Default::default();
        let workspace = Mutex::new("/srv/work".to_owned());
        Arc::new(Self { store: Arc::clone(store), open, missing, workspace })
    }

    /// Shows more of a conversation, whoever's it is.
    pub(crate) fn show(&self, id: &str, lines: impl IntoIterator<Item = ChatLine>) {
        change(&self.open, id, |one| one.seen.lines.extend(lines));
    }

    /// Forgets all that is open, as a server that was started anew.
    pub(crate) fn restart(&self) {
        self.open.lock().unwrap().clear();
    }

    fn of<T>(&self, who: &ChatPerson, id: &SessionId, look: impl FnOnce(&mut Talked) -> T) -> Option<T> {
        let mut open = self.open.lock().unwrap();
        open.iter_mut().find(|one| one.id == id.as_str() && one.who.as_ref() == Some(who)).map(look)
    }

    fn add(&self, who: &ChatPerson, id: &SessionId) {
        let talked = Talked { id: id.to_string(), who: Some(who.clone()), ..Talked::default() };
        self.open.lock().unwrap().push(talked);
    }
}

fn change(open: &Mutex<Vec<Talked>>, id: &str, change: impl FnOnce(&mut Talked)) {
    let mut open = open.lock().unwrap();
    if let Some(one) = open.iter_mut().find(|one| one.id == id) {
        change(one);
        one.mark += 1;
    }
}

#[async_trait]
impl Chat for Talker {
    fn agent(&self) -> Result<ChatAgent, String> {
        match &*self.missing.lock().unwrap() {
            Some(missing) => Err(missing.clone()),
            None => Ok(ChatAgent {
                provider: "scripted".to_owned(),
                model: "scripted-model".to_owned(),
                workspace: self.workspace.lock().unwrap().clone(),
            }),
        }
    }

    fn open(&self, who: &ChatPerson) -> Vec<ChatOpen> {
        let open = self.open.lock().unwrap();
        let own = open.iter().filter(|one| one.who.as_ref() == Some(who));
        own.map(|one| {
            let first = one.seen.lines.iter().find_map(|line| match line {
                ChatLine::Person(text, _) => Some(text.clone()),
                _ => None,
            });
            let begins = first.unwrap_or_else(|| "Nothing was said yet".to_owned());
            ChatOpen { id: one.id.clone(), begins, is_running: one.seen.is_running }
        })
        .collect()
    }

    async fn begin(&self, who: &ChatPerson) -> Result<SessionId, String> {
        let count = self.open.lock().unwrap().len();
        if count >= 3 {
            return Err("There are <b>enough</b> conversations.".to_owned());
        }
        let id = SessionId::new(format!(
            "s-{}",
            Timestamp::now().as_millis() * 10 + i64::try_from(count).unwrap()
        ));
        let session = Session {
            id: id.clone(),
            key: who.key(),
            agent: "main".into(),
            workspace: "/srv/work".to_owned(),
            created_at: Timestamp::now(),
            updated_at: Timestamp::now(),
            ended: None,
            resumed_from: None,
            meta: Json::default(),
        };
        self.store.create_session(session).await.map_err(|error| error.to_string())?;
        self.add(who, &id);
        Ok(id)
    }

    async fn go_on(&self, who: &ChatPerson, id: &SessionId) -> Result<(), String> {
        if self.of(who, id, |_| ()).is_none() {
            self.add(who, id);
        }
        Ok(())
    }

    fn say(&self, who: &ChatPerson, id: &SessionId, message: String, until: MayNoMore) -> Result<(), String> {
        if message.len() > MOST_MESSAGE {
            return Err(format!("A message has {MOST_MESSAGE} bytes at most."));
        }
        self.of(who, id, |_| ()).ok_or("It is not open.")?;
        let works = message.starts_with(WORK);
        change(&self.open, id.as_str(), |one| {
            one.seen.lines.push(ChatLine::Person(message.clone(), 0));
            one.seen.is_running = works;
            if !works {
                one.seen.lines.push(ChatLine::Agent(format!("You said: {message}"), 0));
            }
        });
        if works {
            let (open, id) = (Arc::clone(&self.open), id.to_string());
            tokio::spawn(async move {
                until.await;
                change(&open, &id, |one| one.seen.is_running = false);
            });
        }
        Ok(())
    }

    fn stop(&self, who: &ChatPerson, id: &SessionId) -> bool {
        let is_running = self.of(who, id, |one| one.seen.is_running).unwrap_or_default();
        if is_running {
            change(&self.open, id.as_str(), |one| {
                one.seen.is_running = false;
                one.seen.lines.push(ChatLine::Ended("Stopped by you.".to_owned()));
            });
        }
        is_running
    }

    async fn leave(&self, who: &ChatPerson, id: &SessionId) {
        self.open.lock().unwrap().retain(|one| !(one.id == id.as_str() && one.who.as_ref() == Some(who)));
    }

    fn seen(&self, who: &ChatPerson, id: &SessionId) -> Option<ChatSeen> {
        self.of(who, id, |one| one.seen.clone())
    }

    fn mark(&self, who: &ChatPerson, id: &SessionId) -> Option<u64> {
        self.of(who, id, |one| one.mark)
    }
}
