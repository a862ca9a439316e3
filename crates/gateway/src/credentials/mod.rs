//! Credentials that the gateway gets for itself: access tokens that it makes or asks for, keys that it looks up.
//!
//! A provider with such credentials has a [`Lessor`], which holds what was obtained last and obtains the next before that
//! expires. Where they come from is a [`Renewed`] of the settings: a file of Google's, the metadata server of a machine in
//! its cloud, a program of the operator's, a profile of Amazon's files.
//!
//! Laws: *whoever is judged makes no credentials*: files and programs count only where nobody but the operator can have
//! written them ([`OperatorFiles`]), and only those that the configuration names, itself or by a word that says where they are;
//! *a secret goes to whom it is for*: what a file says of where it is to be sent is believed only of addresses that are
//! Google's, or this machine's; *no credentials, no request*: a provider whose credentials can't be had is not asked, and never
//! with the client's; *no value is ever shown*: errors name the file, the program or the address.
//!
//! Limits: one renewal at a time, for at most [`Renewed::patience`]; 64 KiB of a file, of an output, of an answer; a day for which
//! any token is believed; 16 KiB of a token. The system's clock says what has expired; a provider that refuses credentials all the same
//! makes them be had anew, at most every 30 seconds.

mod aws;
mod files;
mod google;
mod lease;
mod program;
mod settings;
mod token;

use std::sync::Arc;
use std::time::Duration;

use http::header;
use thiserror::Error;

pub use files::OperatorFiles;
pub(crate) use lease::{Lessor, Unleased};
pub use settings::{AwsProfile, CredentialSource, Renewed, TokenCommand};

use crate::cloud::sigv4::Signer;
use crate::head::Credentials;
use crate::settings::{Cloud, Proxies};
use aws::Profile;
use files::Files;
use google::{Account, Metadata};
use program::Programs;

/// Why there are no credentials. It names where they were to come from, and never what is there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unobtained {
    #[error("`{path}` {problem}")]
    File { path: String, problem: String },
    #[error("the program `{program}` {problem}")]
    Program { program: String, problem: String },
    #[error("`{server}` {problem}")]
    Server { server: String, problem: String },
    #[error("they did not come within {0:?}")]
    Slow(Duration),
}

/// Credentials, and how long they are good.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    pub(crate) credentials: Credentials,
    pub(crate) lifetime: Duration,
}

/// Where credentials come from, for a provider that has a use for them.
#[derive(Debug)]
pub(crate) enum Source {
    Account(Account),
    Metadata(Metadata),
    Command(Programs, TokenCommand),
    Aws(Box<Profile>, String),
    #[cfg(test)]
    Scripted(lease::Scripted),
}

impl Source {
    /// The source that the settings say, for a provider in this cloud; `None` if that has no use for it.
    pub(crate) fn of(renewed: &Renewed, cloud: Option<&Cloud>, proxies: &Proxies) -> Option<Self> {
        let files = || Files::new(Arc::clone(&renewed.files));
        Some(match (&renewed.source, cloud?) {
            (CredentialSource::GoogleFile(path), Cloud::Vertex { .. }) => {
                Self::Account(Account::new(path.clone(), files(), proxies.clone()))
            }
            (CredentialSource::GoogleMetadata { address }, Cloud::Vertex { .. }) => {
                Self::Metadata(Metadata::new(address.clone()))
            }
            (CredentialSource::Command(command), Cloud::Vertex { .. } | Cloud::Azure { .. }) => {
                Self::Command(Programs::new(files()), command.clone())
            }
            (CredentialSource::AwsProfile(profile), Cloud::Bedrock { region }) => {
                Self::Aws(Box::new(Profile::new(profile.clone(), files())), region.clone())
            }
            _ => return None,
        })
    }

    async fn obtain(&self) -> Result<Fresh, Unobtained> {
        let token = match self {
            Self::Account(account) => account.token().await?,
            Self::Metadata(metadata) => metadata.token().await?,
            Self::Command(programs, command) => programs.token(command).await?,
            Self::Aws(profile, region) => {
                let (keys, lifetime) = profile.keys().await?;
                let credentials = Credentials::Signed(Arc::new(Signer::for_bedrock(keys, region.clone())));
                return Ok(Fresh { credentials, lifetime });
            }
            #[cfg(test)]
            Self::Scripted(scripted) => return scripted.obtain().await,
        };
        let credentials = Credentials::Own(header::AUTHORIZATION, token.bearer);
        Ok(Fresh { credentials, lifetime: token.lifetime })
    }
}
