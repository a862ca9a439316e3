//! Authenticates operators: by the operators' token in `authorization: Bearer`, and by nothing else.
//!
//! The token is not read from the path or the query, which logs and bookmarks keep, nor from a cookie, which browsers send by
//! themselves. Without a configured token nobody is an operator, at any address: a watched agent reaches a loopback address just as
//! its operator does, and it holds the process's token.

use backstop_hooks::Secret;
use http::HeaderMap;
use subtle::ConstantTimeEq as _;

use super::bearer_of;

/// Knows operators.
pub(in crate::server) struct Access {
    token: Option<Secret>,
}

/// Why somebody is no operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Denied {
    /// Nobody is.
    Closed,
    /// It is not the token.
    Token,
}

impl Access {
    pub(in crate::server) fn new(token: Option<&Secret>) -> Self {
        Self { token: token.cloned() }
    }

    /// Checks that a request with these headers is an operator's.
    ///
    /// # Errors
    /// [`Denied`], if it is not.
    pub(in crate::server) fn check(&self, headers: &HeaderMap) -> Result<(), Denied> {
        let token = self.token.as_ref().ok_or(Denied::Closed)?;
        let given = bearer_of(headers).ok_or(Denied::Token)?;
        let fits = bool::from(token.expose().as_bytes().ct_eq(given));
        if fits { Ok(()) } else { Err(Denied::Token) }
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("is_open", &self.token.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    #[test]
    fn only_the_token_of_operators_makes_an_operator() {
        let token = ["watch", "-", "sesame"].concat();
        let (open, closed) = (Access::new(Some(&Secret::new(token.clone()))), Access::new(None));
        let headers = |given: &[&str]| -> HeaderMap {
            given.iter().map(|value| (header::AUTHORIZATION, value.parse().unwrap())).collect()
        };
        let (right, wrong) = (format!("Bearer {token}"), format!("Bearer {token}x"));
        assert_eq!(open.check(&headers(&[&right])), Ok(()));
        let wrong = [
            &[][..],
            &[wrong.as_str()],
            &["Bearer "],
            &["Basic x"],
            &[token.as_str()],
            &[right.as_str(), right.as_str()],
            &[wrong.as_str(), right.as_str()],
        ];
        for given in wrong {
            assert_eq!(open.check(&headers(given)), Err(Denied::Token), "{given:?}");
            assert_eq!(closed.check(&headers(given)), Err(Denied::Closed));
        }
        assert_eq!(closed.check(&headers(&["Bearer "])), Err(Denied::Closed));
        assert!(!format!("{open:?}").contains("sesame"));
    }
}
