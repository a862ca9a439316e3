//! What an entry says, by name: the same facts for every form.

use backstop::store::AuditEntry;
use serde_json::Value;

/// The facts of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'e> {
    pub(super) entry: &'e AuditEntry,
}

impl<'e> Facts<'e> {
    pub(super) fn of(entry: &'e AuditEntry) -> Self {
        Self { entry }
    }

    pub(super) fn is_receipt(&self) -> bool {
        self.entry.kind == "receipt"
    }

    pub(super) fn text(&self, pointer: &str) -> Option<&'e str> {
        self.entry.body.pointer(pointer).and_then(Value::as_str)
    }

    pub(super) fn number(&self, pointer: &str) -> Option<u64> {
        self.entry.body.pointer(pointer).and_then(Value::as_u64)
    }

    pub(super) fn flag(&self, pointer: &str) -> bool {
        self.entry.body.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
    }

    fn first(&self, pointers: &[&str]) -> Option<&'e str> {
        pointers.iter().find_map(|pointer| self.text(pointer))
    }

    /// What was decided: the verdict of a receipt, or `ask` where somebody was asked and it passed; the decision of an answer. A call that was
    /// given up while somebody was asked is `dropped`: nobody allowed it.
    pub(super) fn decision(&self) -> Option<&'e str> {
        let verdict = self.first(&["/verdict", "/decision"]);
        let is_asked = self.is_receipt() && self.entry.body.get("approval").is_some();
        if is_asked && !matches!(verdict, Some("block" | "dropped")) { Some("ask") } else { verdict }
    }

    pub(super) fn is_blocked(&self) -> bool {
        matches!(self.decision(), Some("block" | "deny"))
    }

    pub(super) fn tool(&self) -> Option<&'e str> {
        self.text("/tool")
    }

    /// The name under which the tool was called, where it is another one.
    pub(super) fn called_as(&self) -> Option<&'e str> {
        self.text("/calledAs")
    }

    pub(super) fn point(&self) -> Option<&'e str> {
        self.text("/point")
    }

    pub(super) fn agent(&self) -> Option<&'e str> {
        self.first(&["/agentId", "/agent"])
    }

    pub(super) fn host(&self) -> Option<&'e str> {
        self.text("/host")
    }

    pub(super) fn client(&self) -> Option<&'e str> {
        self.text("/client")
    }

    pub(super) fn workspace(&self) -> Option<&'e str> {
        self.text("/workspace")
    }

    pub(super) fn who(&self) -> Option<&'e str> {
        self.by().or_else(|| self.requester())
    }

    /// Who did it.
    pub(super) fn by(&self) -> Option<&'e str> {
        self.first(&["/by", "/user"])
    }

    /// For whom it is.
    pub(super) fn requester(&self) -> Option<&'e str> {
        self.first(&["/requester/senderId", "/requester/accountId"])
    }

    pub(super) fn hook(&self) -> Option<&'e str> {
        self.first(&["/blocked/hook", "/hook"])
    }

    pub(super) fn resolution(&self) -> Option<&'e str> {
        self.first(&["/approval/resolution", "/blocked/resolution"])
    }

    pub(super) fn trace(&self) -> Option<&'e str> {
        self.text("/traceId")
    }

    /// The rules that spoke, each once.
    pub(super) fn rules(&self) -> Vec<&'e str> {
        let mut rules: Vec<&str> = Vec::new();
        for pointer in ["/blocked/reason/rules", "/approval/rules", "/rules"] {
            let named = self.entry.body.pointer(pointer).and_then(Value::as_array);
            for rule in named.into_iter().flatten().filter_map(Value::as_str) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        rules
    }

    /// The hooks in shadow that would have done something: which, what, and by which rules.
    pub(super) fn would(&self) -> Vec<(&'e str, &'e str, Vec<&'e str>)> {
        let steps = self.entry.body.get("steps").and_then(Value::as_array);
        let would = steps.into_iter().flatten().filter_map(|step| {
            let text = |name: &str| step.get(name).and_then(Value::as_str);
            let rules = step.get("wouldBy").and_then(Value::as_array);
            let rules = rules.into_iter().flatten().filter_map(Value::as_str).collect();
            Some((text("hook")?, text("would")?, rules))
        });
        would.collect()
    }

    /// The hooks that said more than that they have nothing against it, and what.
    pub(super) fn spoke(&self) -> Vec<(&'e str, &'e str)> {
        let steps = self.entry.body.get("steps").and_then(Value::as_array);
        let said = steps.into_iter().flatten().filter_map(|step| {
            let text = |name: &str| step.get(name).and_then(Value::as_str);
            Some((text("hook")?, text("said")?))
        });
        said.filter(|(_, said)| !["nothing", "pass"].contains(said)).collect()
    }
}
