//! Imports and exports that name types only.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use oxc_ast::ast::*;
use oxc_span::GetSpan as _;

use super::edits::next_is;
use super::visitor::{Blanker, end, start};

/// The names that a module declares.
#[derive(Default)]
struct Names {
    values: HashSet<String>,
    types: HashSet<String>,
}

impl Names {
    fn of(program: &Program<'_>) -> Self {
        let mut names = Self::default();
        for statement in &program.body {
            let declaration = match statement {
                Statement::ExportDeclaration(export) => Some(&export.declaration),
                other => other.as_declaration(),
            };
            if let Some(declaration) = declaration {
                names.declare(declaration);
            }
            if let Statement::ImportDeclaration(import) = statement {
                for specifier in import.specifiers.iter().flatten() {
                    let (name, is_type) = local(specifier);
                    let into = if is_type || import.import_kind.is_type() {
                        &mut names.types
                    } else {
                        &mut names.values
                    };
                    into.insert(name.to_owned());
                }
            }
            if let Statement::ExportDefaultDeclaration(export) = statement {
                match &export.declaration {
                    ExportDefaultDeclarationKind::FunctionDeclaration(it) => {
                        names.values.extend(it.id.as_ref().map(|id| id.name.to_string()));
                    }
                    ExportDefaultDeclarationKind::ClassDeclaration(it) => {
                        names.values.extend(it.id.as_ref().map(|id| id.name.to_string()));
                    }
                    _ => {}
                }
            }
        }
        names
    }

    fn declare(&mut self, declaration: &Declaration<'_>) {
        let names: Vec<String> = match declaration {
            Declaration::VariableDeclaration(it) => it
                .declarations
                .iter()
                .flat_map(|declarator| declarator.id.get_binding_identifiers())
                .map(|id| id.name.to_string())
                .collect(),
            other => other.id().map(|id| id.name.to_string()).into_iter().collect(),
        };
        let is_type = matches!(
            declaration,
            Declaration::TSTypeAliasDeclaration(_) | Declaration::TSInterfaceDeclaration(_)
        ) || matches!(declaration, Declaration::TSNamespaceDeclaration(_) if Blanker::is_type_only(declaration));
        if is_type {
            self.types.extend(names);
        } else {
            self.values.extend(names);
        }
    }

    fn is_type_only(&self, name: &str) -> bool {
        self.types.contains(name) && !self.values.contains(name)
    }
}

/// The local name of an imported thing, and whether it is said to be a type.
fn local<'a>(specifier: &'a ImportDeclarationSpecifier<'_>) -> (&'a str, bool) {
    match specifier {
        ImportDeclarationSpecifier::ImportSpecifier(it) => (it.local.name.as_str(), it.import_kind.is_type()),
        ImportDeclarationSpecifier::ImportDefaultSpecifier(it) => (it.local.name.as_str(), false),
        ImportDeclarationSpecifier::ImportNamespaceSpecifier(it) => (it.local.name.as_str(), false),
    }
}

/// The names that a module takes, by the module that it takes them from.
pub(crate) type Imports = BTreeMap<String, BTreeSet<String>>;

/// What a module exports.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    /// By name.
    pub(crate) names: BTreeSet<String>,
    /// The modules of which it passes on everything.
    pub(crate) all_of: Vec<String>,
}

/// The names that `program` takes from other modules, by import or by passing them on.
pub(super) fn imports_of(program: &Program<'_>) -> Imports {
    let mut all = Imports::new();
    for statement in &program.body {
        match statement {
            Statement::ImportDeclaration(import) => {
                let names = import.specifiers.iter().flatten().filter_map(|specifier| match specifier {
                    ImportDeclarationSpecifier::ImportSpecifier(it) => Some(it.imported.name().to_string()),
                    ImportDeclarationSpecifier::ImportDefaultSpecifier(_) => Some("default".to_owned()),
                    ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => None,
                });
                all.entry(import.source.value.to_string()).or_default().extend(names);
            }
            Statement::ExportFromDeclaration(export) => {
                let names = export.specifiers.iter().map(|specifier| specifier.local.name().to_string());
                all.entry(export.source.value.to_string()).or_default().extend(names);
            }
            _ => {}
        }
    }
    all
}

/// Where the first statement that imports from `specifier` names it, in bytes.
pub(super) fn place_of(program: &Program<'_>, specifier: &str) -> Option<usize> {
    program.body.iter().find_map(|statement| {
        let source = match statement {
            Statement::ImportDeclaration(import) => &import.source,
            Statement::ExportFromDeclaration(export) => &export.source,
            Statement::ExportAllDeclaration(export) => &export.source,
            _ => return None,
        };
        (source.value == specifier).then(|| start(source.span))
    })
}

/// What `program` exports.
pub(super) fn exports_of(program: &Program<'_>) -> Exports {
    let mut all = Exports::default();
    for statement in &program.body {
        match statement {
            Statement::ExportDeclaration(export) => {
                let mut declared = Names::default();
                declared.declare(&export.declaration);
                all.names.extend(declared.values);
            }
            Statement::ExportDefaultDeclaration(_) => {
                all.names.insert("default".to_owned());
            }
            Statement::ExportNamedDeclaration(export) => {
                all.names.extend(export.specifiers.iter().map(|it| it.exported.name().to_string()));
            }
            Statement::ExportFromDeclaration(export) => {
                all.names.extend(export.specifiers.iter().map(|it| it.exported.name().to_string()));
            }
            Statement::ExportAllDeclaration(export) => match &export.exported {
                Some(name) => {
                    all.names.insert(name.name().to_string());
                }
                None => all.all_of.push(export.source.value.to_string()),
            },
            _ => {}
        }
    }
    all
}

impl Blanker<'_> {
    /// Drops imports and exports of types, once all uses are known.
    pub(super) fn drop_unused(&mut self, program: &Program<'_>) {
        let names = Names::of(program);
        for statement in &program.body {
            if let Statement::ExportNamedDeclaration(export) = statement {
                self.local_exports(export, &names);
            }
        }
        for statement in &program.body {
            match statement {
                Statement::ImportDeclaration(import) => self.import(import),
                Statement::ExportFromDeclaration(export) => {
                    if export.export_kind.is_type() {
                        self.drop_statement(export.span);
                    } else {
                        self.specifiers(&export.specifiers, |specifier| specifier.export_kind.is_type());
                    }
                }
                Statement::ExportAllDeclaration(export) if export.export_kind.is_type() => {
                    self.drop_statement(export.span);
                }
                Statement::ExportDefaultDeclaration(export) => {
                    if let ExportDefaultDeclarationKind::Identifier(name) = &export.declaration
                        && names.is_type_only(&name.name)
                    {
                        self.drop_statement(export.span);
                    }
                }
                _ => {}
            }
        }
    }

    fn local_exports(&mut self, export: &ExportNamedDeclaration<'_>, names: &Names) {
        if export.export_kind.is_type() {
            return self.drop_statement(export.span);
        }
        let is_type = |specifier: &ExportSpecifier<'_>| {
            specifier.export_kind.is_type() || names.is_type_only(&specifier.local.name())
        };
        for specifier in &export.specifiers {
            if !is_type(specifier) {
                self.used.insert(specifier.local.name().to_string());
            }
        }
        self.specifiers(&export.specifiers, is_type);
    }

    fn specifiers(
        &mut self,
        specifiers: &[ExportSpecifier<'_>],
        is_type: impl Fn(&ExportSpecifier<'_>) -> bool,
    ) {
        for specifier in specifiers.iter().filter(|specifier| is_type(specifier)) {
            self.with_comma(specifier.span);
        }
    }

    fn with_comma(&mut self, span: Span) {
        self.blank(span);
        if let Some(comma) = next_is(self.source, end(span), ",") {
            self.edits.blank(comma, comma + 1);
        }
    }

    fn import(&mut self, import: &ImportDeclaration<'_>) {
        if import.import_kind.is_type() {
            return self.drop_statement(import.span);
        }
        let Some(specifiers) = &import.specifiers else { return };
        let is_dropped = |specifier: &ImportDeclarationSpecifier<'_>| {
            let (name, is_type) = local(specifier);
            is_type || !self.used.contains(name)
        };
        let dropped: Vec<bool> = specifiers.iter().map(is_dropped).collect();
        if !dropped.is_empty() && dropped.iter().all(|dropped| *dropped) {
            return self.drop_statement(import.span);
        }
        let mut before: Option<usize> = None;
        for (specifier, dropped) in specifiers.iter().zip(dropped) {
            let span = specifier.span();
            match specifier {
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) if dropped => {
                    // `name, * as rest`: the comma before it goes as well.
                    let comma = before.and_then(|at| next_is(self.source, at, ","));
                    self.edits.blank(comma.unwrap_or_else(|| start(span)), end(span));
                }
                _ if dropped => self.with_comma(span),
                _ => {}
            }
            before = Some(end(span));
        }
    }
}
