//! What a `package.json` says about where its modules are.

use serde_json::{Map, Value};

/// How something is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// By `import`.
    Import,
    /// By `require`.
    Require,
}

/// What runs the modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Platform {
    /// A runtime of ours.
    Ours,
    /// Node itself.
    Node,
}

impl Asked {
    /// The conditions that hold. For a runtime of ours, what is made for browsers goes before what is made for Node, as it needs less.
    fn rounds(self, platform: Platform) -> &'static [[&'static str; 4]] {
        match (platform, self) {
            (Platform::Ours, Self::Import) => {
                &[["browser", "import", "module", "default"], ["node", "import", "module", "default"]]
            }
            (Platform::Ours, Self::Require) => {
                &[["browser", "require", "module", "default"], ["node", "require", "node", "default"]]
            }
            (Platform::Node, Self::Import) => &[["node", "import", "default", "default"]],
            (Platform::Node, Self::Require) => &[["node", "require", "default", "default"]],
        }
    }
}

/// What a field maps a name to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mapped {
    /// A path in the package, beginning with `./`, or another name.
    To(String),
    /// An empty module.
    Empty,
}

/// The fields of a `package.json` that matter here.
#[derive(Debug)]
pub(super) struct Package {
    platform: Platform,
    pub(super) name: Option<String>,
    exports: Option<Value>,
    imports: Option<Map<String, Value>>,
    browser: Option<Value>,
    main: Option<String>,
    /// Whether `.js` is an ES module; `None` if it is not said.
    pub(super) is_module: Option<bool>,
}

impl Package {
    /// A folder without a `package.json`.
    pub(super) fn unsaid(platform: Platform) -> Self {
        Self {
            platform,
            name: None,
            exports: None,
            imports: None,
            browser: None,
            main: None,
            is_module: None,
        }
    }

    pub(super) fn read(text: &str, platform: Platform) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Value::Object(mut fields) = value else { return Err("it is no object".to_owned()) };
        let text = |value: Option<Value>| match value {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let kind = text(fields.remove("type"));
        Ok(Self {
            platform,
            name: text(fields.remove("name")),
            exports: fields.remove("exports").filter(|value| !value.is_null()),
            imports: match fields.remove("imports") {
                Some(Value::Object(imports)) => Some(imports),
                _ => None,
            },
            browser: fields.remove("browser").filter(|_| platform == Platform::Ours),
            main: text(fields.remove("main")),
            is_module: kind.map(|kind| kind == "module"),
        })
    }

    pub(super) fn has_exports(&self) -> bool {
        self.exports.is_some()
    }

    /// What `exports` has for `subpath` (`.`, `./part`).
    pub(super) fn exported(&self, subpath: &str, asked: Asked) -> Option<String> {
        let exports = self.exports.as_ref()?;
        let is_map = exports.as_object().is_some_and(|map| map.keys().any(|key| key.starts_with('.')));
        asked.rounds(self.platform).iter().find_map(|conditions| match exports.as_object() {
            Some(map) if is_map => matched(map, subpath, conditions),
            _ if subpath == "." => target(exports, None, conditions),
            _ => None,
        })
    }

    /// What `imports` has for `#name`.
    pub(super) fn internal(&self, name: &str, asked: Asked) -> Option<String> {
        let imports = self.imports.as_ref()?;
        asked.rounds(self.platform).iter().find_map(|conditions| matched(imports, name, conditions))
    }

    /// Where the package begins without `exports`.
    pub(super) fn start(&self) -> Option<&str> {
        match &self.browser {
            Some(Value::String(path)) => Some(path),
            _ => self.main.as_deref(),
        }
    }

    /// What the map `browser` has instead of a path (`./lib/x.js`) or a name.
    pub(super) fn replaced(&self, name: &str) -> Option<Mapped> {
        let map = self.browser.as_ref()?.as_object()?;
        let bare = name.strip_prefix("./").unwrap_or(name);
        let found = map.get(name).or_else(|| if name.starts_with("./") { map.get(bare) } else { None });
        let found = found.or_else(|| name.strip_suffix(".js").and_then(|stem| map.get(stem)));
        match found? {
            Value::String(to) => Some(Mapped::To(to.clone())),
            Value::Bool(false) => Some(Mapped::Empty),
            _ => None,
        }
    }
}

/// The longest pattern of a map that a name fits, and what it leads to.
fn matched(map: &Map<String, Value>, name: &str, conditions: &[&str]) -> Option<String> {
    if let Some(exact) = map.get(name).filter(|_| !name.contains('*')) {
        return target(exact, None, conditions);
    }
    let mut best: Option<(&str, &str, &Value)> = None;
    for (pattern, value) in map {
        let (before, after) = match pattern.split_once('*') {
            Some(parts) => parts,
            // A folder, as older packages write it.
            None if pattern.ends_with('/') => (pattern.as_str(), ""),
            None => continue,
        };
        let inside = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        if let Some(inside) = inside.filter(|inside| !inside.is_empty())
            && best.is_none_or(|(longest, _, _)| before.len() > longest.len())
        {
            best = Some((before, inside, value));
        }
    }
    let (_, inside, value) = best?;
    target(value, Some(inside), conditions)
}

fn target(value: &Value, inside: Option<&str>, conditions: &[&str]) -> Option<String> {
    match value {
        Value::String(path) => Some(match inside {
            Some(inside) if path.contains('*') => path.replace('*', inside),
            Some(inside) if path.ends_with('/') => format!("{path}{inside}"),
            _ => path.clone(),
        }),
        Value::Array(list) => list.iter().find_map(|value| target(value, inside, conditions)),
        Value::Object(map) => map
            .iter()
            .filter(|(condition, _)| conditions.contains(&condition.as_str()))
            .find_map(|(_, value)| target(value, inside, conditions)),
        _ => None,
    }
}
