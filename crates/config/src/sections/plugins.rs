//! `plugins`: what the operator grants to each plugin and built-in hook.
//!
//! Only the operator can set this section, because every key of it can weaken: `enabled: false`, a changed `config` and
//! withdrawn conversation access all remove a guarding plugin from its points, and a shorter budget makes a hook miss its
//! answer at points where failures pass.

use backstop_hooks::PointId;

use crate::config_value::{Entries, item, section};
use crate::options::Options;
use crate::place::{Setting, Spanned};
use crate::text::Text;
use crate::values::{FolderName, HookMode, Millis, Name, PluginRuntime};

section! {
    /// Plugins and built-in hooks.
    pub struct Plugins {
        /// One entry for each plugin or built-in hook, by id, such as `builtin:security-audit`.
        entries ("entries"): Entries<Name, PluginEntry>, OperatorOnly;
        /// Files of programs, by the bare name by which plugins start them: `node`, `python3`. A name that is not here is looked for in the
        /// folders of `PATH` that belong to root. A path counts from the folder of this file.
        programs ("programs"): Entries<Name, Spanned<Text>>, OperatorOnly;
    }
}

item! {
    /// What the operator says about one plugin.
    pub struct PluginEntry {
        /// Whether it is loaded. Without the key, its origin decides: built-in hooks are on.
        enabled ("enabled"): Option<Spanned<bool>>, OperatorOnly;
        /// The plugin's own options; its hooks receive them as `pluginConfig`.
        config ("config"): Option<Spanned<Options>>, OperatorOnly;
        /// What its hooks may do, and for how long.
        hooks ("hooks"): PluginHooks, OperatorOnly;
        /// What it may reach. It gets what it asks for in its manifest and is granted here, and nothing else.
        grants ("grants"): PluginGrants, OperatorOnly;
        /// Of the tools that it calls optional, those that the agent is offered.
        optional_tools ("optionalTools"): Vec<Spanned<Name>>, OperatorOnly;
        /// What runs its code, if that is JavaScript or TypeScript.
        runtime ("runtime"): Setting<PluginRuntime> = PluginRuntime::Inside, OperatorOnly;
    }
}

section! {
    /// What a plugin may reach: the same words as in its manifest.
    pub struct PluginGrants {
        /// Folders.
        files ("files"): PluginFiles, OperatorOnly;
        /// Names of environment variables that it may see.
        env ("env"): Vec<Spanned<Name>>, OperatorOnly;
        /// Hosts that it may connect to, such as `api.example.org` or `*.example.org:8443`. Addresses of this machine and of private
        /// networks are reached only if one is written here.
        hosts ("hosts"): Vec<Spanned<Name>>, OperatorOnly;
        /// Programs that it may start, by name or by absolute path.
        programs ("programs"): Vec<Spanned<Name>>, OperatorOnly;
        /// Whether it may know the user's name and home folder.
        user ("user"): Setting<bool> = false, OperatorOnly;
    }
}

section! {
    /// Folders that a plugin may reach: absolute, or below `${workspace}` or `${data}`. Its own, `${plugin}`, it may read only. No variables of
    /// the environment are filled in here.
    pub struct PluginFiles {
        /// Folders that it may read.
        read ("read"): Vec<Spanned<FolderName>>, OperatorOnly;
        /// Folders that it may read and change.
        write ("write"): Vec<Spanned<FolderName>>, OperatorOnly;
    }
}

section! {
    /// What the hooks of a plugin may do, and for how long.
    pub struct PluginHooks {
        /// The time budget of each of its hooks in milliseconds. Replaces what the plugin's author set.
        timeout ("timeoutMs"): Option<Spanned<Millis>>, OperatorOnly;
        /// Time budgets in milliseconds by hook point. Replaces `timeoutMs` there.
        timeouts ("timeouts"): Entries<PointId, Setting<Millis>>, OperatorOnly;
        /// Whether what its hooks answer counts. In `shadow` they are asked and change nothing, and the receipts say what they would have
        /// done; it puts nothing into the next turn either. Hooks that only watch go on watching. Not for built-in hooks, which have a
        /// `mode` of their own.
        mode ("mode"): Setting<HookMode> = HookMode::Enforce, OperatorOnly;
        /// The same by hook point. Replaces `mode` there.
        modes ("modes"): Entries<PointId, Setting<HookMode>>, OperatorOnly;
        /// Whether its hooks may read the conversation. Hook points that show it need this grant, except for built-in
        /// hooks.
        allow_conversation_access ("allowConversationAccess"): Setting<bool> = false, OperatorOnly;
        /// Whether its hooks may change what the model reads. `false` switches off every hook point that can.
        allow_prompt_injection ("allowPromptInjection"): Setting<bool> = true, OperatorOnly;
        /// Whether it may register trusted tool policies, which judge a call before every other hook does.
        allow_trusted_tool_policy ("allowTrustedToolPolicy"): Setting<bool> = false, OperatorOnly;
    }
}

impl PluginHooks {
    /// Returns the budget that the operator set for a point, the most specific first; `None` where author and point decide.
    #[must_use]
    pub fn budget(&self, point: PointId) -> Option<Millis> {
        let by_point = self.timeouts.get(point.name()).map(|setting| setting.value);
        by_point.or_else(|| self.timeout.as_ref().map(|timeout| timeout.value))
    }
}
