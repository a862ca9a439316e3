//! Where a person signs in.

use maud::html;

use crate::page::whole;
use crate::provider::{IdentityProvider, way};
use crate::sessions::encoded;

/// What whoever is not signed in sees.
#[derive(Clone, Copy, Debug)]
pub struct SignIn<'a> {
    /// Where the person wanted to go.
    pub to: &'a str,
    /// What went wrong, if anything did.
    pub problem: Option<NotSignedIn>,
    /// Where a person can sign in instead of by a token.
    pub provider: Option<IdentityProvider<'a>>,
    /// Whether a link of another site led here. Browsers then send no cookie, so that the person may be signed in.
    pub from_elsewhere: bool,
}

/// Why somebody was not signed in, or is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSignedIn {
    /// It is no token that counts here.
    Token,
    /// The session is over.
    Over,
    /// Too many are signed in.
    Full,
    /// It could not be written down that somebody signed in.
    Store,
}

impl NotSignedIn {
    fn text(self) -> &'static str {
        match self {
            Self::Token => "This is no token of a person that counts here.",
            Self::Over => "You are signed out: the session was idle, it ended, or its token did.",
            Self::Full => "Too many are signed in already.",
            Self::Store => "Where state is kept can't be written now, so nobody can sign in.",
        }
    }
}

/// What a person in the clear sees for a moment: the script hands the key of the session over to the browser and leads on. Without it the person types the
/// key into what the browser asks.
pub fn hand_over(key: &str, to: &str) -> String {
    let body = html! {
        body.alone {
            main #main {
                h1 { "One more step" }
                div #hand-over data-key=(key) data-to=(to) {
                    p { "So that no other program at another port of this machine can take your place, your browser keeps a key for this one alone, until it is closed. Go on, and give it as follows." }
                    dl.facts {
                        div { dt { "user" } dd { code { "console" } } }
                        div { dt { "password" } dd { code #key { (key) } } }
                    }
                    p { a href={ "/-/console/key?to=" (encoded(to)) } { "Go on" } }
                }
            }
        }
    };
    whole("Sign in", body)
}

/// The page on which a person signs in.
pub fn sign_in(sign_in: &SignIn<'_>) -> String {
    let body = html! {
        body.alone {
            main #main {
                h1 { "Sign in to Backstop" }
                @if sign_in.from_elsewhere {
                    p { "Signed in already? " a href=(sign_in.to) { "Go on" } "." }
                }
                @if let Some(problem) = sign_in.problem {
                    p.alert #problem role="alert" { (problem.text()) }
                }
                @if let Some(provider) = &sign_in.provider {
                    (way(provider, sign_in.to))
                    p { "Or by a token:" }
                }
                form method="post" action="/-/console/sign-in" {
                    input type="hidden" name="to" value=(sign_in.to);
                    label for="token" { "Access token" }
                    input #token type="password" name="token" required autocomplete="off" autofocus
                        spellcheck="false" maxlength="200" aria-describedby="about";
                    button.primary type="submit" { "Sign in" }
                }
                p #about .quiet {
                    code { "backstop token create --user YOU --scope read --scope approve" }
                    " makes one, on the machine that runs Backstop. It stays there: nothing of it is kept in this browser."
                }
            }
        }
    };
    whole("Sign in", body)
}
