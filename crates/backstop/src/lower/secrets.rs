//! Variables with secrets that nobody who is judged may have.

use std::collections::BTreeSet;

use backstop_config::Loaded;

use super::surfaces::surface_variables;

/// Returns the variables of the environment that hold secrets by which whoever has them could answer in the name of people, or sign somebody in: those
/// of surfaces and callbacks, the password of the database, and the secret by which the console is known at the identity provider.
pub fn secret_variables(loaded: &Loaded) -> BTreeSet<String> {
    let config = &loaded.config;
    let more = [&config.store.postgres.password, &config.gateway.console.oidc.client_secret];
    let more = more.into_iter().flatten().flat_map(|secret| secret.value.variables()).cloned();
    surface_variables(loaded).into_iter().chain(more).collect()
}

#[cfg(test)]
mod tests {
    use backstop_config::{LayerKind, Source};

    use super::*;
    use crate::{HookTypes, load_sources};

    #[test]
    fn whoever_runs_has_no_variable_with_a_secret_by_which_people_are_known() {
        let environment =
            |name: &str| (name.len() == 1).then(|| format!("{name}-0123456789abcdef0123456789"));
        let text = "
store: { postgres: { url: 'postgres://backstop@db.example/backstop', password: '${A}' } }
gateway:
  hosts: [backstop.example]
  console:
    origin: https://backstop.example
    oidc: { issuer: 'https://id.example', client_id: console, client_secret: 'x${B}', roles: { approvers: [read] } }
  api: { callbacks: { ci: { url: 'https://ci.example.com', secret: '${C}' } } }
approvals:
  surfaces:
    webhook:
      bell: { url: 'https://bell.example.com', secret: '${D}' }
";
        let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
        let loaded = load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap();
        let variables = secret_variables(&loaded);
        assert_eq!(variables.iter().map(String::as_str).collect::<Vec<_>>(), ["A", "B", "C", "D"]);
    }
}
