//! The certificates of `backstop serve`, exchanged by SIGHUP, as clients with TLS see them.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use super::gateway::{MESSAGE, serve, text};
use super::reload::clients::response;
use super::support::{ModelServer, PATIENCE, User, done, hang_up, interrupt};

/// Signs certificates.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for `localhost` and its key, as files have them.
    fn signed(&self) -> (String, String) {
        self.signed_for(1975, 4096)
    }

    /// One that holds from the beginning of a year to that of another.
    fn signed_for(&self, from: i32, to: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A server with a certificate, and what it says.
struct Secured {
    user: User,
    _model: ModelServer,
    child: Child,
    told: Lines<BufReader<ChildStderr>>,
    address: String,
    token: String,
}

impl Secured {
    /// Serves with a certificate of `own`, to those for whom `clients` vouches, if that is given.
    fn start(own: &Authority, clients: Option<&Authority>) -> Self {
        let user = User::new();
        let model = ModelServer::start(&user, r#"{"repeat": true, "text": "from the model"}"#);
        let ca = if clients.is_some() { ", client_ca_file: clients.pem" } else { "" };
        let tls = format!("gateway: {{ tls: {{ cert_file: cert.pem, key_file: key.pem{ca} }} }}\n");
        user.configure(&model.config(&tls));
        exchange(&user, own, clients);
        let (mut child, line) = serve(&user);
        let told = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = text(&line, "address").rsplit_once('/').unwrap().1.to_owned();
        let token = text(&line, "token").to_owned();
        Self { user, _model: model, child, told, address, token }
    }

    /// Has it read its files, and gives what it says up to these words.
    fn reads_anew(&mut self, words: &str) -> String {
        hang_up(&self.child);
        let mut said = String::new();
        while !said.contains(words) {
            said += &self.told.next().unwrap_or_else(|| panic!("never said: {words}")).unwrap();
        }
        assert_eq!(said.matches("read anew").count(), 1, "each is said once: {said}");
        said
    }

    /// What a client hears that trusts `authority` and shows a certificate of `own`; nothing if they do not understand each other.
    fn heard(&self, authority: &Authority, own: Option<&Authority>) -> Option<String> {
        self.ask(&mut self.connected(authority, own)?)
    }

    fn connected(
        &self,
        authority: &Authority,
        own: Option<&Authority>,
    ) -> Option<StreamOwned<ClientConnection, TcpStream>> {
        connected(&self.address, trusting(&[authority], own)).ok()
    }

    fn ask(&self, stream: &mut StreamOwned<ClientConnection, TcpStream>) -> Option<String> {
        let length = MESSAGE.len();
        let request = format!(
            "POST /t/{}/v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{MESSAGE}",
            self.token
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        answer.contains("from the model").then_some(answer)
    }

    fn write(&self, file: &str, contents: &str) {
        std::fs::write(folder(&self.user).join(file), contents).unwrap();
    }

    fn ends(self) {
        interrupt(&self.child);
        assert_eq!(done(self.child).code, Some(0));
    }
}

/// A client that trusts these authorities and shows a certificate of `own`.
fn trusting(authorities: &[&Authority], own: Option<&Authority>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match own.map(Authority::signed) {
        Some((certificate, key)) => config
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap(),
        None => config.with_no_client_auth(),
    })
}

/// A connection whose handshake is over.
fn connected(
    address: &str,
    config: Arc<ClientConfig>,
) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(config, name).unwrap();
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    while client.is_handshaking() {
        client.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(client, socket))
}

/// Where the files of the configuration stand.
fn folder(user: &User) -> PathBuf {
    user.path().join("config/backstop")
}

/// Writes other certificates in the place of those that are there.
fn exchange(user: &User, own: &Authority, clients: Option<&Authority>) {
    let (certificate, key) = own.signed();
    std::fs::write(folder(user).join("cert.pem"), certificate).unwrap();
    std::fs::write(folder(user).join("key.pem"), key).unwrap();
    if let Some(clients) = clients {
        std::fs::write(folder(user).join("clients.pem"), &clients.pem).unwrap();
    }
}

#[test]
fn certificates_are_read_anew_and_broken_ones_keep_those_that_were_there() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let mut server = Secured::start(&old, None);
    assert!(server.heard(&old, None).is_some() && server.heard(&new, None).is_none());
    exchange(&server.user, &new, None);
    assert!(server.heard(&old, None).is_some(), "nobody said that they should be read");
    let mut before = server.connected(&old, None).unwrap();
    server.reads_anew("was read anew");
    assert!(server.heard(&new, None).is_some() && server.heard(&old, None).is_none());
    assert!(server.ask(&mut before).is_some(), "a connection stays what it is");

    let (certificate, _) = old.signed();
    for (file, contents, named) in [
        ("cert.pem", "no certificate", "cert.pem"),
        ("key.pem", "no key", "private key"),
        // Of another key.
        ("cert.pem", certificate.as_str(), "cert.pem"),
    ] {
        exchange(&server.user, &new, None);
        server.write(file, contents);
        let why = server.reads_anew("was not read anew");
        assert!(why.contains(named), "{file}: {why}");
        assert!(server.heard(&new, None).is_some() && server.heard(&old, None).is_none(), "{file}: {why}");
    }
    exchange(&server.user, &old, None);
    std::fs::remove_file(folder(&server.user).join("key.pem")).unwrap();
    let why = server.reads_anew("was not read anew");
    assert!(why.contains("key.pem") && server.heard(&new, None).is_some(), "{why}");
    exchange(&server.user, &old, None);
    server.reads_anew("was read anew");
    assert!(server.heard(&old, None).is_some() && server.heard(&new, None).is_none());
    server.ends();
}

#[test]
fn a_certificate_that_no_client_would_take_is_refused() {
    let own = Authority::new("own");
    let mut server = Secured::start(&own, None);
    for (from, to, said) in [(2000, 2020, "ended at 2020-01-01"), (4000, 4096, "holds from 4000-01-01")] {
        let (certificate, key) = own.signed_for(from, to);
        server.write("cert.pem", &certificate);
        server.write("key.pem", &key);
        let why = server.reads_anew("was not read anew");
        assert!(why.contains(said), "{why}");
        assert!(server.heard(&own, None).is_some(), "the one before stays");
    }
    server.ends();
}

#[test]
fn authorities_of_clients_are_read_anew_and_broken_ones_keep_those_that_were_there() {
    let (own, old, new) = (Authority::new("own"), Authority::new("old"), Authority::new("new"));
    let mut server = Secured::start(&own, Some(&old));
    let heard = |server: &Secured| [None, Some(&old), Some(&new)].map(|by| server.heard(&own, by).is_some());
    assert_eq!(heard(&server), [false, true, false]);
    server.write("clients.pem", &new.pem);
    assert_eq!(heard(&server), [false, true, false], "nobody said that they should be read");
    server.reads_anew("was read anew");
    assert_eq!(heard(&server), [false, false, true]);
    for broken in ["", "no authority", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        server.write("clients.pem", broken);
        let why = server.reads_anew("was not read anew");
        assert!(why.contains("clients.pem"), "{why}");
        assert_eq!(heard(&server), [false, false, true], "{broken}");
    }
    server.write("clients.pem", &old.pem);
    server.reads_anew("was read anew");
    assert_eq!(heard(&server), [false, true, false]);
    server.ends();
}

/// How often the certificate changes.
const ROTATIONS: usize = 12;
/// Set once nobody asks any more.
const OVER: usize = usize::MAX;

/// Clients of a server whose certificate changes.
struct Asking<'a> {
    address: &'a str,
    token: &'a str,
    config: Arc<ClientConfig>,
    /// How many of `shown` the server has read.
    rotation: &'a AtomicUsize,
    /// The certificates, in the order in which they came.
    shown: &'a Mutex<Vec<CertificateDer<'static>>>,
}

type Encrypted = BufReader<StreamOwned<ClientConnection, TcpStream>>;

impl Asking<'_> {
    fn connected(&self) -> Encrypted {
        BufReader::new(connected(self.address, Arc::clone(&self.config)).unwrap())
    }

    fn ask(&self, connection: &mut Encrypted) {
        let request = format!(
            "POST /t/{}/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{MESSAGE}",
            self.token,
            MESSAGE.len()
        );
        connection.get_mut().write_all(request.as_bytes()).unwrap();
        let (status, body) = response(connection).unwrap();
        assert!(status == 200 && body.contains("from the model"), "{status}: {body}");
    }

    /// Asks on one connection for as long as there is load, and gives the number of answers.
    fn stays(&self, mut connection: Encrypted) -> usize {
        let mut answers = 0;
        while self.rotation.load(Ordering::SeqCst) != OVER {
            self.ask(&mut connection);
            answers += 1;
        }
        assert_eq!(self.number(&connection), 0, "it is older than all rotations");
        answers
    }

    /// Asks on one new connection after the other, and gives the certificates that it saw.
    fn comes_again(&self) -> BTreeSet<usize> {
        let mut seen = BTreeSet::new();
        loop {
            let least = self.rotation.load(Ordering::SeqCst);
            if least == OVER {
                return seen;
            }
            let mut connection = self.connected();
            let number = self.number(&connection);
            // The server may read the next one while it is told of.
            assert!((least..=least + 1).contains(&number), "certificate {number} was shown after {least}");
            seen.insert(number);
            self.ask(&mut connection);
        }
    }

    /// Which certificate the server showed.
    fn number(&self, connection: &Encrypted) -> usize {
        let shown = connection.get_ref().conn.peer_certificates().unwrap()[0].clone().into_owned();
        self.shown.lock().unwrap().iter().position(|known| *known == shown).unwrap()
    }
}

/// Puts a file in its place at once, as tools do that exchange certificates.
fn renamed(user: &User, file: &str, contents: &str) {
    let new = folder(user).join("new.pem");
    std::fs::write(&new, contents).unwrap();
    std::fs::rename(new, folder(user).join(file)).unwrap();
}

#[test]
fn certificates_rotate_under_load_and_no_handshake_fails() {
    let (even, odd) = (Authority::new("even"), Authority::new("odd"));
    let mut server = Secured::start(&even, None);
    let first = std::fs::read(folder(&server.user).join("cert.pem")).unwrap();
    let shown = Mutex::new(vec![CertificateDer::from_pem_slice(&first).unwrap()]);
    let rotation = AtomicUsize::new(0);
    let (address, token) = (server.address.clone(), server.token.clone());
    let asking = || Asking {
        address: &address,
        token: &token,
        config: trusting(&[&even, &odd], None),
        rotation: &rotation,
        shown: &shown,
    };
    std::thread::scope(|scope| {
        let over = Over(&rotation);
        let staying: Vec<_> = (0..2)
            .map(|_| {
                let asking = asking();
                let connection = asking.connected();
                scope.spawn(move || asking.stays(connection))
            })
            .collect();
        let coming: Vec<_> = (0..3).map(|_| scope.spawn(|| asking().comes_again())).collect();
        for number in 1..=ROTATIONS {
            let authority = if number % 2 == 0 { &even } else { &odd };
            let (certificate, key) = authority.signed();
            shown.lock().unwrap().push(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap());
            let files = [("cert.pem", certificate.as_str()), ("key.pem", key.as_str())];
            let half = key.split_at(key.len() / 2).0;
            match number % 4 {
                // At once, for whoever reads them then.
                0 => {}
                // One after the other, and somebody has them read in between.
                1 => renamed(&server.user, "cert.pem", &certificate),
                2 => renamed(&server.user, "cert.pem", "no certificate"),
                _ => renamed(&server.user, "key.pem", half),
            }
            if number % 4 != 0 {
                let why = server.reads_anew("was not read anew");
                assert!(why.contains(".pem"), "{why}");
            }
            for (file, contents) in files {
                renamed(&server.user, file, contents);
            }
            server.reads_anew("was read anew");
            rotation.store(number, Ordering::SeqCst);
        }
        drop(over);
        for staying in staying {
            assert!(staying.join().unwrap() > ROTATIONS);
        }
        let seen: BTreeSet<usize> = coming.into_iter().flat_map(|coming| coming.join().unwrap()).collect();
        assert!(seen.len() > ROTATIONS / 2, "{seen:?}");
    });
    server.ends();
}

/// Ends the load, also where the test fails.
struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(OVER, Ordering::SeqCst);
    }
}

/// Who is vouched for proves it each time: neither an authority that counts no more nor a certificate that has ended lets anybody in
/// by what was kept of an earlier connection.
#[test]
fn a_session_is_resumed_only_where_nobody_has_to_be_vouched_for() {
    let (own, old, new) = (Authority::new("own"), Authority::new("old"), Authority::new("new"));
    let again = |server: &Secured, config: &Arc<ClientConfig>| {
        let mut stream = connected(&server.address, Arc::clone(config)).ok()?;
        let answer = server.ask(&mut stream)?;
        Some((stream.conn.handshake_kind().unwrap(), answer))
    };
    let open = Secured::start(&own, None);
    let config = trusting(&[&own], None);
    assert_eq!(again(&open, &config).unwrap().0, HandshakeKind::Full);
    assert_eq!(again(&open, &config).unwrap().0, HandshakeKind::Resumed, "this client keeps sessions");
    open.ends();
    let mut server = Secured::start(&own, Some(&old));
    let config = trusting(&[&own], Some(&old));
    assert_eq!(again(&server, &config).unwrap().0, HandshakeKind::Full);
    assert_eq!(again(&server, &config).unwrap().0, HandshakeKind::Full);
    server.write("clients.pem", &new.pem);
    server.reads_anew("was read anew");
    assert!(again(&server, &config).is_none());
    server.ends();
}
