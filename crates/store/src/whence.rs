//! From where a question comes, for people.

use crate::NewApproval;

impl NewApproval {
    /// Returns who wants to make the call, through what and where, as named facts. What is not known is left out. The values are as they were
    /// given: whoever shows them escapes and cuts them.
    pub fn whence(&self) -> Vec<(&'static str, String)> {
        let through = match (&self.host, &self.client) {
            (Some(host), Some(client)) => Some(format!("{host} of {client}")),
            (host, client) => host.clone().or_else(|| client.clone()),
        };
        let facts = [
            ("agent", Some(self.agent.to_string())),
            ("through", through),
            // Both are written as lists, the first of which is the channel.
            ("for", named(self.place.requester.as_deref(), 1)),
            ("channel", named(self.place.channel.as_deref(), 0)),
            ("workspace", self.place.workspace.clone()),
            ("session", Some(self.session.to_string())),
        ];
        facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Returns the parts of a list that are there, from one on.
fn named(list: Option<&str>, from: usize) -> Option<String> {
    let parts: Vec<Option<String>> = serde_json::from_str(list?).ok()?;
    let parts: Vec<String> = parts.into_iter().skip(from).flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
