//! `budgets`, `loops` and `models`: how much agents may use, of what, and how often; and `gateway.hooks`: how live
//! traffic is judged. These settings cost money or let data out, so the operator decides; a
//! repository may only tighten.

use crate::config_value::{item, section};
use crate::place::{Setting, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::Text;
use crate::values::{
    BudgetPer, BudgetWindow, LiveApprovals, LiveBlock, LiveCalls, LiveText, LoopAction, Millis, Money, Name,
    UnjudgedMedia, Whole,
};

/// The largest number of requests or tokens of a budget.
const MOST: u64 = 1_000_000_000_000;

section! {
    /// How much agents may use of models.
    pub struct Budgets {
        /// The budgets. A call must have room in each that is about it.
        limits ("limits"): Vec<Budget>, OperatorOnly;
        /// What models cost. The first entry that fits counts.
        prices ("prices"): Vec<Price>, OperatorOnly;
        /// How many tokens are reserved for an answer before it is known how long it is.
        answer_tokens ("answer_tokens"): Setting<Whole<0, 1_000_000>> = Whole::clamped(1_000), OperatorOnly;
        /// Whether clients of the gateway may say on behalf of which user they ask. Only for clients that would not
        /// lie about it.
        trust_user ("trust_user"): Setting<bool> = false, OperatorOnly;
    }
}

item! {
    /// The most that may be used in a stretch of time. At least one of `requests`, `tokens` and `cost` must be there.
    pub struct Budget {
        /// Its name. No two have the same.
        name ("name"): Spanned<Name>, OperatorOnly;
        /// The agents that it is about, as a pattern. Without it, all.
        agent ("agent"): Option<Spanned<Text>>, OperatorOnly;
        /// The models that it is about, as a pattern. Without it, all.
        model ("model"): Option<Spanned<Text>>, OperatorOnly;
        /// The users that it is about, as a pattern. Without it, all.
        user ("user"): Option<Spanned<Text>>, OperatorOnly;
        /// What it is counted apart by. Without it, all share it.
        per ("per"): Vec<Spanned<BudgetPer>>, OperatorOnly;
        /// When it begins anew.
        window ("window"): Setting<BudgetWindow> = BudgetWindow::Day, OperatorOnly;
        /// The most requests.
        requests ("requests"): Option<Spanned<Whole<0, MOST>>>, OperatorOnly;
        /// The most tokens, read and written.
        tokens ("tokens"): Option<Spanned<Whole<0, MOST>>>, OperatorOnly;
        /// The most money, in the currency of `prices`.
        cost ("cost"): Option<Spanned<Money>>, OperatorOnly;
    }
    check: check;
}

item! {
    /// What a million tokens of some models cost, in a currency of your choice.
    pub struct Price {
        /// The models, as a pattern such as `claude-*`.
        model ("model"): Spanned<Text>, OperatorOnly;
        /// Tokens read.
        input ("input"): Spanned<Money>, OperatorOnly;
        /// Tokens written.
        output ("output"): Spanned<Money>, OperatorOnly;
        /// Tokens read from the provider's cache. Without it, as much as `input`.
        cache_read ("cache_read"): Option<Spanned<Money>>, OperatorOnly;
        /// Tokens written to the provider's cache. Without it, as much as `input`.
        cache_write ("cache_write"): Option<Spanned<Money>>, OperatorOnly;
    }
}

section! {
    /// Calls that go round in circles.
    pub struct Loops {
        /// How often a conversation may call one tool with the same arguments. Without it, calls are not counted.
        repeats ("repeats"): Option<Spanned<Whole<1, 1_000_000>>>, OperatorOnly;
        /// What happens to a call beyond that.
        action ("action"): Setting<LoopAction> = LoopAction::Block, OperatorOnly;
    }
}

item! {
    /// The models that some agents may ask, and no others.
    pub struct ModelAccess {
        /// The agents, as a pattern. Without it, all, also those without a name.
        agent ("agent"): Option<Spanned<Text>>, OperatorOnly;
        /// The models, as patterns such as `claude-*`.
        allow ("allow"): Vec<Spanned<Text>>, OperatorOnly;
    }
}

section! {
    /// How the gateway's traffic is judged.
    pub struct GatewayHooks {
        /// How text leaves that hooks at `before_response_emit` judge. Without it, `window` where only redactors stand,
        /// otherwise `hold`.
        text ("text"): Option<Spanned<LiveText>>, OperatorOnly;
        /// What a client is told when something was stopped.
        blocked ("blocked"): Setting<LiveBlock> = LiveBlock::Answer, OperatorOnly;
        /// What is done about the tool calls of answers, besides the hooks at `after_llm_call`. What the provider runs is judged in any
        /// case, where it is offered and where a client approves it.
        tool_calls ("tool_calls"): Setting<LiveCalls> = LiveCalls::Judge, OperatorOnly;
        /// What becomes of a tool call about which a human is to be asked, with `tool_calls: judge`. Under `backstop run` with a
        /// client that has our hooks, they ask.
        approvals ("approvals"): Setting<LiveApprovals> = LiveApprovals::File, OperatorOnly;
        /// How often, within one answer, a model is told that all its calls were refused, and goes on; then the answer ends. 0: it
        /// ends at once, and says what was withheld.
        refusals ("max_refusals"): Setting<Whole<0, 10>> = Whole::clamped(2), OperatorOnly;
        /// What is done with sound, and pictures as they are made, in sessions of Gemini Live and OpenAI Realtime in which hooks
        /// decide, and with files that are no text: nobody can judge them. What passes has left by the time its transcript is judged.
        unjudged_media ("unjudged_media"): Setting<UnjudgedMedia> = UnjudgedMedia::Refuse, Raise;
        /// After how much silence a client whose answer is held is told to be patient, in milliseconds.
        keep_alive ("keepAliveMs"): Setting<Millis> = Millis::clamped(10_000), OperatorOnly;
        /// The most bytes of the arguments of one tool call. A call with more is removed.
        call_bytes ("max_call_bytes"): Setting<Whole<1_024, 1_073_741_824>> = Whole::clamped(1_048_576), OperatorOnly;
        /// The most bytes of an answer that are held and remembered at once. An answer that needs more ends as an error.
        answer_bytes ("max_held_bytes"): Setting<Whole<1_024, 1_073_741_824>> = Whole::clamped(16_777_216), OperatorOnly;
    }
}

impl Budget {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        if self.requests.is_some() || self.tokens.is_some() || self.cost.is_some() {
            return Some(());
        }
        let message = format!("{} limits nothing", cx.subject());
        let hint = "add `requests`, `tokens` or `cost`";
        cx.report(Problem::new(ProblemKind::BadValue, self.name.at.clone(), message).with_hint(hint));
        None
    }
}

impl Budgets {
    /// Checks that names are unique, since what was spent is kept under them.
    pub(crate) fn check(&self, cx: &mut Reader<'_>) {
        for (index, budget) in self.limits.iter().enumerate() {
            let name = budget.name.value.as_str();
            if self.limits.iter().take(index).any(|other| other.name.value.as_str() == name) {
                let message = format!("there are two budgets `{name}`");
                cx.report(Problem::new(ProblemKind::Conflict, budget.name.at.clone(), message));
            }
        }
    }
}
