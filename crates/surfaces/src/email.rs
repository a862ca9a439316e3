//! E-mail: notices in a mailbox, submitted by SMTP.
//!
//! A mail proves control of a mailbox at most, and can be forwarded, and what is scanned on its way follows its links. So a notice says that
//! something waits, of which tool and agent, and links to the console; neither arguments nor what hooks wrote about them are in it, and nothing
//! is answered: not by following the link, and not by replying.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::Secret;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport as _, Message as Mail, Tokio1Executor};

use crate::shown::{line, more_waits, severity, until};
use crate::surface::{AnsweredOn, Ceiling, Message, Outcome, Surface, SurfaceError, SurfaceName, TEST};

/// The longest that one command to the server may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How the connection to the server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// From the beginning (port 465).
    Tls,
    /// By `STARTTLS`, and not at all otherwise (port 587).
    StartTls,
    /// Not at all: for a server on this machine.
    None,
}

/// What mails are sent by.
#[derive(Clone, Debug)]
pub struct EmailSettings {
    /// The name of the surface.
    pub name: SurfaceName,
    /// The server that takes mails.
    pub server: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub encryption: Encryption,
    /// As whom mails are submitted, where the server wants to know.
    pub login: Option<(String, Secret)>,
    /// Whom they are from.
    pub from: String,
    /// The mailboxes that are told.
    pub to: Vec<String>,
}

/// Mailboxes that are told.
pub struct Email {
    name: SurfaceName,
    from: Mailbox,
    to: Vec<String>,
    transport: AsyncSmtpTransport<Tokio1Executor>,
}

impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Email").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Says that no person wrote a mail, so that no machine answers it (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

impl Email {
    /// Returns mailboxes that are told.
    ///
    /// # Errors
    /// Why they can't be: an address that is none, or a name of a server that no certificate can have.
    pub fn new(settings: EmailSettings) -> Result<Self, String> {
        let EmailSettings { name, server, port, encryption, login, from, to } = settings;
        let address =
            |text: &str| text.parse::<Address>().map_err(|_| format!("`{}` is no mailbox", line(text, 80)));
        for mailbox in &to {
            address(mailbox)?;
        }
        let parameters = || TlsParameters::new(server.clone()).map_err(|_| "TLS can't be set up".to_owned());
        let tls = match encryption {
            Encryption::Tls => Tls::Wrapper(parameters()?),
            Encryption::StartTls => Tls::Required(parameters()?),
            Encryption::None => Tls::None,
        };
        let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&server).port(port).tls(tls);
        let transport = transport.timeout(Some(PATIENCE));
        let transport = match login {
            Some((user, password)) => {
                transport.credentials(Credentials::new(user, password.expose().clone()))
            }
            None => transport,
        };
        Ok(Self { name, from: Mailbox::new(None, address(&from)?), to, transport: transport.build() })
    }

    fn mail(&self, to: &str, subject: &str) -> Result<MessageBuilder, SurfaceError> {
        let to = to.parse().map_err(|_| SurfaceError::never("the mailbox is none"))?;
        let mail = Mail::builder().from(self.from.clone()).to(Mailbox::new(None, to)).subject(subject);
        Ok(mail.header(AutoSubmitted).header(ContentType::TEXT_PLAIN))
    }

    async fn send(&self, mail: MessageBuilder, text: String) -> Result<(), SurfaceError> {
        let mail = mail.body(text).map_err(|_| SurfaceError::never("the mail can't be written"))?;
        match self.transport.send(mail).await {
            Ok(_) => Ok(()),
            // What the server says is left out: it may quote the login.
            Err(error) if error.is_permanent() => {
                let code = error.status().map(|code| code.to_string()).unwrap_or_default();
                Err(SurfaceError::never(format!("the server refused the mail: {code}")))
            }
            Err(error) if error.is_transient() => {
                let code = error.status().map(|code| code.to_string()).unwrap_or_default();
                Err(SurfaceError::later(format!("the server does not take the mail now: {code}")))
            }
            Err(error) if error.is_timeout() => Err(SurfaceError::later("the server took too long")),
            Err(error) if error.is_tls() => Err(SurfaceError::later("no encrypted connection to the server")),
            Err(error) if error.is_client() => Err(SurfaceError::never(
                "the server does not do what is wanted of it: encryption, or the login",
            )),
            Err(_) => Err(SurfaceError::later("no connection to the server, or it broke")),
        }
    }

    /// Returns the id of the first mail about something, which later ones answer.
    fn id(&self, of: &str) -> String {
        format!("<backstop.{of}@{}>", self.from.email.domain())
    }
}

#[async_trait]
impl Surface for Email {
    fn name(&self) -> &SurfaceName {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "e-mail"
    }

    fn ceiling(&self) -> Ceiling {
        Ceiling::Notice
    }

    fn places(&self) -> Cow<'_, [String]> {
        Cow::Borrowed(&self.to)
    }

    fn room(&self) -> Option<usize> {
        None
    }

    async fn send(&self, message: &Message<'_>) -> Result<String, SurfaceError> {
        let request = &message.record.request;
        let (tool, agent) = (line(&request.tool_name.in_full(), 80), line(request.agent.as_str(), 80));
        let subject = format!("[{}] Approval wanted: {tool} of {agent}", severity(request.severity));
        let mut text =
            format!("{agent} wants to use {tool}, and waits until {}.\n\n", until(request.expires_at));
        if let Some(link) = message.link {
            let what = match message.answered_on {
                AnsweredOn::Console => "Look at the call and answer on the console",
                AnsweredOn::Machine => "Look at the call on the console",
            };
            text.push_str(&format!("{what}:\n{link}\n\n"));
        }
        if message.answered_on == AnsweredOn::Machine {
            text.push_str(&format!("{}\n\n", message.answered_on.words()));
        }
        if let Some(more) = more_waits(message.more) {
            text.push_str(&format!("{more}\n\n"));
        }
        text.push_str("Opening the link decides nothing, and neither does a reply to this mail.\n");
        let id = self.id(message.record.id.as_str());
        let mail = self.mail(message.place, &subject)?.message_id(Some(id.clone()));
        Self::send(self, mail, text).await.map(|()| id)
    }

    async fn withdraw(&self, place: &str, reference: &str, outcome: &Outcome) -> Result<(), SurfaceError> {
        let (tool, agent) = (line(&outcome.tool, 80), line(&outcome.agent, 80));
        let mail = self.mail(place, &format!("Re: Approval wanted: {tool} of {agent}"))?;
        let mail = mail.in_reply_to(reference.to_owned()).references(reference.to_owned());
        let mail = mail.message_id(Some(self.id(&format!("{}.over", outcome.approval))));
        Self::send(self, mail, format!("{}\n", outcome.line())).await
    }

    async fn test(&self, place: &str) -> Result<String, SurfaceError> {
        let mail = self.mail(place, "A test of Backstop")?.message_id(None);
        Self::send(self, mail, format!("{TEST}\n")).await.map(|()| "taken by the server".to_owned())
    }
}
