//! A sample event for each point, for trying out hooks.

use serde_json::Value;

use crate::for_each_point;
use crate::point::PointId;

/// What the texts of people and models in the samples begin with, for tests that look for it.
const BODY: &str = "CONFIDENTIAL ";

macro_rules! samples {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal,
       $injection:literal, $event:ident, $outcome:ident, $summary:literal;)*) => {
        /// An event of the point and outcomes of it, as JSON.
        const fn sample(point: PointId) -> &'static str {
            match point {
                $(PointId::$point => include_str!(concat!("../samples/", $name, ".json")),)*
            }
        }
    };
}

for_each_point!(samples);

impl PointId {
    /// Returns a made-up event of this point, in the form that external hooks get, without `context`.
    pub fn sample_event(self) -> Value {
        let text = sample(self).replace(BODY, "");
        let mut sample: Value = serde_json::from_str(&text).unwrap_or_default();
        sample.get_mut("event").map(Value::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_an_event_and_it_reads_like_one() {
        for point in PointId::ALL {
            let event = point.sample_event();
            assert!(event.as_object().is_some_and(|event| !event.is_empty()), "{point}");
            assert!(!event.to_string().contains(BODY.trim()), "{point}: {event}");
        }
    }
}
