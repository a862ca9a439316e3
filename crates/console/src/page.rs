//! What all pages have in common: head, navigation, who is signed in, and where messages stand.

use std::fmt;

use maud::{DOCTYPE, Markup, html};

use crate::assets::{ICON, MANIFEST, SCRIPT, STYLE};
use crate::shown::one_line;

/// What a person may do, in a word. What counts are the scopes of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sees what there is.
    Viewer,
    /// Answers questions, too.
    Approver,
    /// Administers.
    Admin,
}

impl Role {
    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }
}

/// Who looks at a page.
#[derive(Clone)]
pub struct Viewer {
    /// The name of the person.
    pub name: String,
    /// What that person may do, in a word.
    pub role: Role,
    /// Whether the person may answer questions.
    pub may_answer: bool,
    /// Whether the person may see more than questions.
    pub may_read: bool,
    /// What forms of this session hold, so that none can be posted from elsewhere.
    pub form_token: String,
}

impl fmt::Debug for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Viewer").field("role", &self.role).finish_non_exhaustive()
    }
}

/// A place of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Approvals,
    Live,
    Sessions,
    Policy,
    Audit,
    Money,
    Try,
    Chat,
    Elsewhere,
}

/// Where one can go: the place, its address and its name.
const PLACES: &[(Place, &str, &str)] = &[
    (Place::Approvals, "/-/console/approvals", "Approvals"),
    (Place::Live, "/-/console/live", "Live"),
    (Place::Sessions, "/-/console/sessions", "Sessions"),
    (Place::Policy, "/-/console/policy", "Policy"),
    (Place::Audit, "/-/console/audit", "Audit"),
    (Place::Money, "/-/console/money", "Money"),
    (Place::Try, "/-/console/try", "Try"),
    (Place::Chat, "/-/console/chat", "Chat"),
];

/// Whether somebody is led to a place.
fn is_for(viewer: &Viewer, place: Place) -> bool {
    match place {
        Place::Approvals => true,
        Place::Chat => crate::chat::is_for(viewer),
        _ => viewer.may_read,
    }
}

/// A whole page. `events` is where the script hears what comes in meanwhile.
pub(crate) fn page(
    viewer: &Viewer,
    place: Place,
    title: &str,
    events: Option<&str>,
    content: Markup,
) -> String {
    let body = html! {
        body data-events=[events] {
            a.skip href="#main" { "Skip to content" }
            header.top {
                a.brand href="/-/console/approvals" { "Backstop" }
                nav aria-label="Main" {
                    ul {
                        @for (one, address, name) in PLACES {
                            @if is_for(viewer, *one) {
                                li {
                                    a href=(address) aria-current=[(*one == place).then_some("page")] {
                                        (name)
                                        @if *one == Place::Approvals { span #waiting .count hidden {} }
                                    }
                                }
                            }
                        }
                    }
                }
                div.who {
                    span { (one_line(&viewer.name, 40)) " " span.role { (viewer.role.as_str()) } }
                    form method="post" action="/-/console/sign-out" {
                        (form_token(viewer))
                        button.quiet type="submit" { "Sign out" }
                    }
                }
            }
            main #main tabindex="-1" { (content) }
            footer.bottom {
                p #connection role="status" {}
                p.keys-hint hidden { kbd { "?" } " shows the keys" }
            }
            (keys())
        }
    };
    whole(title, body)
}

/// The document around a body.
pub(crate) fn whole(title: &str, body: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Backstop" }
                link rel="icon" href=(ICON.address()) type="image/svg+xml";
                link rel="manifest" href=(MANIFEST.address());
                link rel="stylesheet" href=(STYLE.address());
                script src=(SCRIPT.address()) defer {}
            }
            (body)
        }
    };
    page.into_string()
}

/// The field by which forms are known to be this session's.
pub(crate) fn form_token(viewer: &Viewer) -> Markup {
    html! { input type="hidden" name="form" value=(viewer.form_token); }
}

/// The keys, for whoever asks.
fn keys() -> Markup {
    let keys = [
        ("j", "next"),
        ("k", "previous"),
        ("Enter", "open"),
        ("a", "allow once, where a whole call is shown"),
        ("d", "deny, with a word"),
        ("/", "filter"),
        ("p", "pause what comes in"),
        ("g", "back to the approvals"),
        ("?", "this list"),
    ];
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl {
                @for (key, what) in keys {
                    div { dt { kbd { (key) } } dd { (what) } }
                }
            }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

/// A page that says one thing, such as that something went wrong. Without `viewer` it is for whoever is not signed in.
pub fn message(viewer: Option<&Viewer>, title: &str, text: &str) -> String {
    let content = html! {
        h1 { (title) }
        p { (text) }
    };
    match viewer {
        Some(viewer) => page(viewer, Place::Elsewhere, title, None, content),
        None => whole(title, html! { body.alone { main #main { (content) } } }),
    }
}
