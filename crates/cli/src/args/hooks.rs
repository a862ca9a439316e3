//! `backstop hooks`.

use backstop::hooks::PointId;

use crate::commands::hooks::Settings;
use crate::error::Error;

/// Lists the hooks at each hook point, in the order in which they run: with priority, time budget and who set
/// it, what a failure means, the tools and agents it is limited to, its owner and how it was written.
#[derive(Debug, clap::Args)]
pub(super) struct HooksArgs {
    /// Only this hook point
    #[arg(long, value_name = "NAME")]
    point: Option<String>,
    /// Also the hook points without hooks
    #[arg(long)]
    all: bool,
}

impl HooksArgs {
    pub(super) fn lower(self) -> Result<Settings, Error> {
        let point = match self.point.map(|name| name.parse::<PointId>()) {
            Some(Ok(point)) => Some(point),
            Some(Err(error)) => return Err(Error::Usage(error.to_string())),
            None => None,
        };
        Ok(Settings { point, all: self.all })
    }
}
