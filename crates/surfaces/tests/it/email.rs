use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use backstop_hooks::{Decision, Secret};
use backstop_store::Timestamp;
use backstop_surfaces::{Ceiling, Email, EmailSettings, Encryption, Surface as _, SurfaceError};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::stage::{Stage, name, token, until};

/// A server that takes mails, and says what a script says once the recipient is named.
struct Server {
    port: u16,
    mails: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(recipient: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mails, known) = (Arc::<Mutex<Vec<String>>>::default(), AtomicUsize::new(0));
        let kept = Arc::clone(&mails);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let said = recipient.get(known.fetch_add(1, Ordering::SeqCst)).unwrap_or(&"250 ok");
                take(stream, said, &kept).await;
            }
        });
        Self { port, mails }
    }

    async fn mail(&self, number: usize) -> String {
        until(|| self.mails.lock().unwrap().get(number).cloned()).await
    }
}

async fn take(mut stream: TcpStream, recipient: &str, mails: &Mutex<Vec<String>>) {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    write.write_all(b"220 mail.example\r\n").await.unwrap();
    let (mut mail, mut is_data) = (String::new(), false);
    while let Ok(Some(line)) = lines.next_line().await {
        let word = line.split([' ', ':']).next().unwrap().to_ascii_uppercase();
        let said = match (is_data, word.as_str()) {
            (true, ".") => {
                is_data = false;
                mails.lock().unwrap().push(std::mem::take(&mut mail));
                "250 taken"
            }
            (true, _) => {
                mail.push_str(&line);
                mail.push('\n');
                continue;
            }
            (false, "EHLO") => "250 mail.example",
            (false, "RCPT") => recipient,
            (false, "DATA") => {
                is_data = true;
                "354 go on"
            }
            (false, "QUIT") => "221 bye",
            (false, _) => "250 ok",
        };
        if write.write_all(format!("{said}\r\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

fn email(port: u16, encryption: Encryption, login: Option<(String, Secret)>) -> Email {
    Email::new(EmailSettings {
        name: name("mail"),
        server: "127.0.0.1".to_owned(),
        port,
        encryption,
        login,
        from: "backstop@example.com".to_owned(),
        to: vec!["ops@example.com".to_owned()],
    })
    .unwrap()
}

#[tokio::test]
async fn a_mailbox_is_told_that_something_waits_and_how_it_ended_and_nothing_of_what() {
    let (stage, server) = (Stage::new(), Server::start(&[]).await);
    let mail = email(server.port, Encryption::None, None);
    assert_eq!(mail.ceiling(), Ceiling::Notice);
    let _running = stage.desk(mail).run();
    let record = stage.ask("rm -r build").await;
    let told = server.mail(0).await;
    let id = format!("<backstop.{}@example.com>", record.id);
    for part in [
        "Auto-Submitted: auto-generated",
        "To: ops@example.com",
        &format!("Message-ID: {id}"),
        "exec",
        "main",
    ] {
        assert!(told.contains(part), "`{part}` is not in {told}");
    }
    // Long lines are folded by the encoding of the body.
    let body = told.replace("=\n", "").replace("=3D", "=");
    assert!(body.contains(&format!("https://console.example/-/console/approvals/{}", record.id)), "{told}");
    for secret in ["rm -r build", "Run this", "deletes", record.code.as_str()] {
        assert!(!told.contains(secret), "`{secret}` is in {told}");
    }
    stage.store.resolve_approval(&record.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    let over = server.mail(1).await;
    assert!(over.contains(&format!("In-Reply-To: {id}")) && over.contains("Denied by joe"), "{over}");
    assert!(!over.contains(&format!("Message-ID: {id}")), "{over}");
}

#[tokio::test]
async fn a_mail_that_is_not_taken_is_tried_again_or_not_as_the_server_says() {
    let server = Server::start(&["451 later", "550 no such mailbox"]).await;
    let mail = email(server.port, Encryption::None, None);
    let later = mail.test("ops@example.com").await.unwrap_err();
    assert!(matches!(later, SurfaceError::Later { .. }), "{later:?}");
    let never = mail.test("ops@example.com").await.unwrap_err();
    assert!(matches!(&never, SurfaceError::Never { why } if why.contains("550")), "{never:?}");
    mail.test("ops@example.com").await.unwrap();
    assert_eq!(server.mails.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn no_password_and_no_mail_leave_without_the_encryption_that_is_wanted() {
    let server = Server::start(&[]).await;
    for encryption in [Encryption::StartTls, Encryption::Tls] {
        let mail = email(server.port, encryption, Some(("me".to_owned(), Secret::new(token()))));
        let error = mail.test("ops@example.com").await.unwrap_err();
        assert!(!format!("{error:?} {mail:?}").contains("sesame"), "{error:?}");
    }
    assert!(server.mails.lock().unwrap().is_empty());
}
