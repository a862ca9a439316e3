//! Whose question is told next.
//!
//! Chat services take so many messages in a time, and people read fewer. So each place has a pace, and so has each agent there, which is
//! slower: what one agent can't use up is there for the others. Among those that wait, the one has its turn that was told of longest ago, or
//! began to wait longest ago where nobody was told of it since.
//!
//! The law: *an agent that asks a lot takes no turn of another*. Where `n` agents wait when another one begins to, its first question is told
//! with the `n + 1`st message from then on at the latest, however much they ask.
//!
//! Limits: what counts is what this process tells. An agent is who it says it is where the host does not prove it; one that takes many names is
//! many agents, though none of them comes before those that began to wait before it.

use std::collections::HashMap;
use std::time::Duration;

use backstop_hooks::AgentId;
use tokio::time::Instant;

/// How many messages may follow each other in a place, and how often there is one more.
const PLACE: Rate = Rate { burst: 5, pace: Duration::from_secs(3) };
/// The same of the messages about one agent: one place's worth less, and less often, so that something is always left for others.
const AGENT: Rate = Rate { burst: 4, pace: Duration::from_secs(5) };

/// How many may follow each other at once, and how often there is one more.
#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: u32,
    pace: Duration,
}

/// What is left of a rate.
#[derive(Debug)]
struct Left {
    rate: Rate,
    left: u32,
    since: Instant,
}

impl Left {
    fn all(rate: Rate, now: Instant) -> Self {
        Self { rate, left: rate.burst, since: now }
    }

    fn look(&mut self, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.since);
        let more = passed.as_millis().checked_div(self.rate.pace.as_millis()).unwrap_or_default();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if more >= self.rate.burst.saturating_sub(self.left) {
            (self.left, self.since) = (self.rate.burst, now);
        } else {
            self.left = self.left.saturating_add(more);
            self.since += self.rate.pace.saturating_mul(more);
        }
        self.left
    }

    fn take(&mut self, now: Instant) {
        self.look(now);
        self.left = self.left.saturating_sub(1);
    }

    /// Returns how long it is until there is one more.
    fn wait(&self, now: Instant) -> Duration {
        self.rate.pace.saturating_sub(now.saturating_duration_since(self.since))
    }

    fn is_whole(&mut self, now: Instant) -> bool {
        self.look(now) == self.rate.burst
    }
}

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// That agent's.
    Tell(&'a AgentId),
    /// Nobody's for so long.
    Wait(Duration),
}

/// The turns of one place.
#[derive(Debug)]
pub(super) struct Turns {
    place: Left,
    /// Those that wait, and those of which somebody was told lately.
    agents: HashMap<AgentId, Share>,
    /// How many messages there were.
    count: u64,
    /// How often it was asked whose turn it is.
    looks: u64,
}

/// What is left to one agent, and since when it waits.
#[derive(Debug)]
struct Share {
    left: Left,
    /// How many messages there were when it was told of, or began to wait: the fewer, the sooner is its turn.
    since: u64,
    /// Whether it was told of then.
    is_told: bool,
    /// With which look it waited last.
    seen: u64,
}

impl Turns {
    pub(super) fn new(now: Instant) -> Self {
        Self { place: Left::all(PLACE, now), agents: HashMap::new(), count: 0, looks: 0 }
    }

    /// Returns whose turn it is among all agents that wait.
    pub(super) fn next<'a>(
        &mut self,
        waiting: impl IntoIterator<Item = &'a AgentId>,
        now: Instant,
    ) -> Next<'a> {
        self.looks = self.looks.wrapping_add(1);
        let mut best: Option<((u64, bool), &AgentId)> = None;
        let mut soonest: Option<Duration> = None;
        for agent in waiting {
            let share = self.agents.entry(agent.clone()).or_insert_with(|| Share::new(self.count, now));
            share.seen = self.looks;
            if share.left.look(now) == 0 {
                let wait = share.left.wait(now);
                soonest = Some(soonest.map_or(wait, |soonest| soonest.min(wait)));
                continue;
            }
            let since = (share.since, share.is_told);
            if best.is_none_or(|(best, _)| since < best) {
                best = Some((since, agent));
            }
        }
        // INVARIANT (no turn of another is taken): whoever waits keeps its place in the row, and whoever is forgotten begins at its end.
        self.agents.retain(|_, share| share.seen == self.looks || !share.left.is_whole(now));
        match best {
            Some(_) if self.place.look(now) == 0 => Next::Wait(self.place.wait(now)),
            Some((_, agent)) => Next::Tell(agent),
            None => Next::Wait(soonest.unwrap_or(PLACE.pace)),
        }
    }

    /// An agent has its turn. Returns whether that was the last one for a while: of the agent, or of the place.
    pub(super) fn take(&mut self, agent: &AgentId, now: Instant) -> bool {
        self.count = self.count.saturating_add(1);
        self.place.take(now);
        let share = self.agents.entry(agent.clone()).or_insert_with(|| Share::new(self.count, now));
        share.left.take(now);
        (share.since, share.is_told) = (self.count, true);
        share.left.left == 0 || self.place.left == 0
    }

    /// Takes a message of the place that is about what is over, if one is left besides the next that tells a question. Returns for how
    /// long there is none otherwise.
    pub(super) fn take_aside(&mut self, now: Instant) -> Result<(), Duration> {
        match self.place.look(now) {
            0 | 1 => Err(self.place.wait(now)),
            _ => {
                self.place.take(now);
                Ok(())
            }
        }
    }
}

impl Share {
    fn new(since: u64, now: Instant) -> Self {
        Self { left: Left::all(AGENT, now), since, is_told: false, seen: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn agent(number: usize) -> AgentId {
        format!("agent-{number}").into()
    }

    /// Tells what waits, agent by agent, for so long; returns when which agent was told of.
    fn run(
        turns: &mut Turns,
        waiting: &mut BTreeMap<usize, usize>,
        now: &mut Instant,
        until: Instant,
    ) -> Vec<(Instant, usize)> {
        let mut told = Vec::new();
        while *now < until && !waiting.is_empty() {
            let agents: Vec<(usize, AgentId)> = waiting.keys().map(|one| (*one, agent(*one))).collect();
            match turns.next(agents.iter().map(|(_, agent)| agent), *now) {
                Next::Wait(wait) => {
                    assert!(!wait.is_zero(), "waiting for nothing would never end");
                    *now += wait;
                }
                Next::Tell(chosen) => {
                    let (number, chosen) = agents.iter().find(|(_, one)| one == chosen).unwrap();
                    turns.take(chosen, *now);
                    told.push((*now, *number));
                    let left = waiting.get_mut(number).unwrap();
                    *left -= 1;
                    if *left == 0 {
                        waiting.remove(number);
                    }
                }
            }
        }
        told
    }

    proptest! {
        // The law: whoever floods, another agent's first question is told with the next messages of the place.
        #[test]
        fn an_agent_that_floods_never_keeps_the_first_question_of_another_from_being_told(
            floods in prop::collection::vec(1_usize..2_000, 1..6),
            before in 0_u64..200,
            quiet in 0_u64..20,
        ) {
            let mut now = Instant::now();
            let mut turns = Turns::new(now);
            // They come before the newcomer in every order.
            let mut waiting: BTreeMap<usize, usize> = floods.iter().copied().enumerate().collect();
            let until = now + Duration::from_millis(before * 500);
            run(&mut turns, &mut waiting, &mut now, until);
            now += Duration::from_millis(quiet * 100);
            let (asked, newcomer) = (now, floods.len());
            waiting.insert(newcomer, 1);
            let until = now + Duration::from_secs(3_600);
            let told = run(&mut turns, &mut waiting, &mut now, until);
            let place = told.iter().position(|(_, number)| *number == newcomer).unwrap();
            // Those that nobody was told of lately may come before it, once each.
            let at = told[place].0;
            prop_assert!(place <= floods.len(), "{place} messages came before it");
            let bound = PLACE.pace * u32::try_from(place + 1).unwrap();
            prop_assert!(at <= asked + bound, "{:?} after it asked", at - asked);
            let mut ahead: Vec<usize> = told[..place].iter().map(|(_, number)| *number).collect();
            ahead.sort_unstable();
            ahead.dedup();
            prop_assert_eq!(ahead.len(), place, "one agent came before it twice");
        }

        // The same where they ask one question at a time, and are forgotten in between.
        #[test]
        fn agents_that_come_again_and_again_begin_at_the_end_of_the_row(many in 1_usize..40, before in 0_usize..80) {
            let mut now = Instant::now();
            let mut turns = Turns::new(now);
            let others: Vec<AgentId> = (0..many).map(agent).collect();
            let newcomer = agent(many);
            // Which of them waits next: the one that was told of is gone for as long as it takes to be forgotten.
            let mut gone: Vec<(AgentId, Instant)> = Vec::new();
            let mut ahead = 0;
            for round in 0..before + many + 2 {
                let waits = |one: &&AgentId| !gone.iter().any(|(other, until)| other == *one && *until > now);
                let mut waiting: Vec<&AgentId> = others.iter().filter(waits).collect();
                if round >= before {
                    waiting.push(&newcomer);
                }
                match turns.next(waiting, now) {
                    Next::Wait(wait) => now += wait,
                    Next::Tell(one) if *one == newcomer => {
                        prop_assert!(ahead <= many, "{ahead} came before it");
                        return Ok(());
                    }
                    Next::Tell(one) => {
                        turns.take(one, now);
                        gone.push((one.clone(), now + AGENT.pace + Duration::from_secs(1)));
                        ahead += usize::from(round >= before);
                        now += turns.place.wait(now);
                    }
                }
            }
            prop_assert!(false, "it was never told");
        }

        // Nobody is told more than the place and each agent may tell.
        #[test]
        fn nobody_tells_more_than_the_share(floods in prop::collection::vec(1_usize..300, 1..6)) {
            let start = Instant::now();
            let (mut now, mut turns) = (start, Turns::new(start));
            let mut waiting: BTreeMap<usize, usize> = floods.iter().copied().enumerate().collect();
            let told = run(&mut turns, &mut waiting, &mut now, start + Duration::from_secs(600));
            let most = |rate: Rate, at: Instant| {
                u128::from(rate.burst) + (at - start).as_millis() / rate.pace.as_millis()
            };
            let mut of: BTreeMap<usize, u128> = BTreeMap::new();
            for (count, (at, number)) in (1..).zip(&told) {
                prop_assert!(count <= most(PLACE, *at), "{count} messages in the place");
                let of = of.entry(*number).or_default();
                *of += 1;
                prop_assert!(*of <= most(AGENT, *at), "{of} messages of one agent");
            }
        }
    }

    #[test]
    fn one_agent_leaves_something_of_the_place_and_is_told_when_its_share_ends() {
        let now = Instant::now();
        let (one, other) = (agent(0), agent(1));
        let mut turns = Turns::new(now);
        let lasts: Vec<bool> = (0..4).map(|_| turns.take(&one, now)).collect();
        assert_eq!(lasts, [false, false, false, true]);
        assert_eq!(turns.next([&one], now), Next::Wait(AGENT.pace));
        assert_eq!(turns.next([&one, &other], now), Next::Tell(&other));
        // The last message of the place is for a question, and not for what is over.
        assert_eq!(turns.take_aside(now), Err(PLACE.pace));
        assert!(turns.take(&other, now), "the place has no more");
        assert_eq!(turns.next([&other], now), Next::Wait(PLACE.pace));
        assert_eq!(turns.next([&one, &other], now + AGENT.pace), Next::Tell(&one));
    }

    #[test]
    fn agents_that_are_told_of_no_longer_are_forgotten() {
        let start = Instant::now();
        let mut turns = Turns::new(start);
        for number in 0..1_000 {
            let (now, agent) = (start + PLACE.pace * u32::try_from(number).unwrap(), agent(number));
            assert_eq!(turns.next([&agent], now), Next::Tell(&agent));
            turns.take(&agent, now);
        }
        assert!(turns.agents.len() < 20, "{}", turns.agents.len());
    }
}
