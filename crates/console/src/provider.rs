//! Where a person signs in at an identity provider: on the way there, and back. A page leads on where a redirect would not do: a form may lead nowhere
//! but here, and a browser that comes from elsewhere shows no cookie of a session before a page of ours was there.

use maud::{Markup, html};

use crate::page::whole;
use crate::shown::one_line;

/// The longest text of a provider that is shown, in characters.
const LONGEST: usize = 300;

/// The identity provider on the page on which a person signs in.
#[derive(Clone, Copy, Debug)]
pub struct IdentityProvider<'a> {
    /// The name of its host.
    pub host: &'a str,
    /// Where the console is opened to sign in there, if that is not here.
    pub elsewhere: Option<&'a str>,
}

/// The way to the provider.
pub(crate) fn way(provider: &IdentityProvider<'_>, to: &str) -> Markup {
    html! {
        @match provider.elsewhere {
            None => form #provider method="post" action="/-/console/oidc/begin" {
                input type="hidden" name="to" value=(to);
                button.primary type="submit" { "Sign in at " (one_line(provider.host, 80)) }
            },
            Some(origin) => p #provider {
                a href={ (origin) "/-/console" } { "Sign in at " (one_line(provider.host, 80)) }
                " by the name of this console."
            },
        }
    }
}

/// What a person sees on the way to the provider, whose address is `address`.
pub fn lead_on(host: &str, address: &str) -> String {
    passing("Sign in", &format!("Going on to {}.", one_line(host, 80)), address)
}

/// What a person sees who is back and signed in, on the way to a page.
pub fn led_back(to: &str) -> String {
    passing("Signed in", "You are signed in.", to)
}

fn passing(title: &str, text: &str, address: &str) -> String {
    let body = html! {
        body.alone {
            main #main {
                h1 { (title) }
                p { (text) }
                p { a #on href=(address) rel="noreferrer" { "Go on" } }
            }
        }
    };
    whole(title, body)
}

/// What a person sees who was not signed in: why, and what the provider said of it, if it said something.
pub fn not_signed_in(text: &str, said: Option<&str>) -> String {
    let body = html! {
        body.alone {
            main #main {
                h1 { "Not signed in" }
                p.alert role="alert" { (text) }
                @if let Some(said) = said {
                    p { "The identity provider says: " q #said { (one_line(said, LONGEST)) } }
                }
                p { a href="/-/console/approvals" { "Back to the sign-in" } }
            }
        }
    };
    whole("Sign in", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_provider_says_is_shown_as_text_and_not_without_end() {
        let hostile = format!("<script>x</script>\u{202e}{}", "y".repeat(2_000));
        let page = not_signed_in("no", Some(&hostile));
        assert!(!page.contains("<script>x") && !page.contains('\u{202e}'), "{page}");
        assert!(page.contains("&lt;script&gt;x") && page.matches('y').count() < 400, "{page}");
        let page = lead_on("<b>", "https://login.example/a?x=1&y=\"<");
        assert!(!page.contains("<b>") && page.contains("x=1&amp;y=&quot;&lt;\""), "{page}");
    }
}
