//! `enum` and `namespace`, which have a meaning at run time.

use std::collections::HashMap;

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan as _, Span};

use super::visitor::{Blanker, end, start};

/// Whether a namespace has anything that exists at run time.
pub(super) fn is_value(body: &TSNamespaceDeclarationBody<'_>) -> bool {
    match body {
        TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => is_value(&inner.body),
        TSNamespaceDeclarationBody::TSModuleBlock(block) => block.body.iter().any(|statement| {
            let declaration = match statement {
                Statement::ExportDeclaration(export) => Some(&export.declaration),
                other => other.as_declaration(),
            };
            !declaration.is_some_and(Blanker::is_type_only)
        }),
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned())
}

/// Whether an initialiser makes a text, as far as its form says.
fn is_text(expression: &Expression<'_>, texts: &HashMap<String, bool>) -> bool {
    match expression {
        Expression::StringLiteral(_) | Expression::TemplateLiteral(_) => true,
        Expression::ParenthesizedExpression(it) => is_text(&it.expression, texts),
        Expression::BinaryExpression(it) => {
            it.operator == BinaryOperator::Addition && (is_text(&it.left, texts) || is_text(&it.right, texts))
        }
        Expression::Identifier(it) => texts.get(it.name.as_str()).copied().unwrap_or(false),
        _ => false,
    }
}

/// Names in an initialiser that mean members of the enum.
struct Members<'m> {
    known: &'m HashMap<String, bool>,
    found: Vec<(Span, String)>,
}

impl<'a> Visit<'a> for Members<'_> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        if self.known.contains_key(it.name.as_str()) {
            self.found.push((it.span, it.name.to_string()));
        }
    }
}

impl Blanker<'_> {
    /// Notes the functions and classes of a list of statements: a namespace of such a name adds to them.
    pub(super) fn declare_all(&mut self, statements: &[Statement<'_>]) {
        for statement in statements {
            let declaration = match statement {
                Statement::ExportDeclaration(export) => Some(&export.declaration),
                other => other.as_declaration(),
            };
            if let Some(
                declaration @ (Declaration::FunctionDeclaration(_) | Declaration::ClassDeclaration(_)),
            ) = declaration
                && !Self::is_type_only(declaration)
                && let Some(id) = declaration.id()
            {
                let key = format!("{}.{}", self.namespaces.join("."), id.name);
                self.declared.insert(key);
            }
        }
    }

    /// `export var NAME;` or what of it is wanted here.
    fn variable(&mut self, name: &str, exported: bool) -> String {
        let key = format!("{}.{name}", self.namespaces.join("."));
        if !self.declared.insert(key) {
            return String::new();
        }
        match (exported, self.namespaces.is_empty()) {
            (true, true) => format!("export var {name};"),
            _ => format!("var {name};"),
        }
    }

    /// What the function of an enum or a namespace is called with.
    fn holder(&self, name: &str, exported: bool) -> String {
        match self.namespaces.last() {
            Some(outer) if exported => format!("{name} = {outer}.{name} || ({outer}.{name} = {{}})"),
            _ => format!("{name} || ({name} = {{}})"),
        }
    }

    /// Writes an enum on the line where it begins; the lines that it took stay, empty.
    pub(super) fn write_enum(&mut self, it: &TSEnumDeclaration<'_>, export: Option<Span>) {
        let name = it.id.name.as_str().to_owned();
        let whole = export.unwrap_or(it.span);
        let mut text = self.variable(&name, export.is_some());
        text.push_str(&format!("(function({name}){{"));
        let mut texts: HashMap<String, bool> = HashMap::new();
        let mut previous: Option<String> = None;
        for member in &it.body.members {
            let key = match &member.id {
                TSEnumMemberName::Identifier(id) => id.name.to_string(),
                TSEnumMemberName::String(id) | TSEnumMemberName::ComputedString(id) => id.value.to_string(),
                TSEnumMemberName::ComputedTemplateString(id) => id
                    .quasis
                    .first()
                    .and_then(|part| part.value.cooked)
                    .map(|text| text.to_string())
                    .unwrap_or_default(),
            };
            let at = format!("{name}[{}]", quoted(&key));
            let (value, makes_text) = match &member.initializer {
                Some(initializer) => {
                    (self.initializer(&name, initializer, &texts), is_text(initializer, &texts))
                }
                None => {
                    (previous.as_ref().map_or_else(|| "0".to_owned(), |before| format!("{before}+1")), false)
                }
            };
            if makes_text {
                text.push_str(&format!("{at}={value};"));
            } else {
                text.push_str(&format!("{name}[{at}={value}]={};", quoted(&key)));
            }
            texts.insert(key, makes_text);
            previous = Some(at);
        }
        text.push_str(&format!("}})({});", self.holder(&name, export.is_some())));
        self.edits.take(start(whole), end(whole));
        self.blank(whole);
        self.edits.mark(start(whole), ';');
        // Behind the first blank, so that it is on the line of the word `enum`.
        self.edits.insert(start(it.body.span), text);
        self.used.insert(name);
    }

    fn initializer(
        &mut self,
        name: &str,
        initializer: &Expression<'_>,
        known: &HashMap<String, bool>,
    ) -> String {
        self.visit_expression(initializer);
        let mut members = Members { known, found: Vec::new() };
        members.visit_expression(initializer);
        for (span, member) in members.found {
            self.edits.blank(start(span), end(span));
            self.edits.insert(start(span), format!("{name}[{}]", quoted(&member)));
        }
        let span = initializer.span();
        // A line comment at the end of a line must not swallow what follows on the one line that is written.
        let text = self.edits.take(start(span), end(span));
        format!("({})", if text.contains('\n') || text.contains("//") { format!("{text}\n") } else { text })
    }

    /// Rewrites a namespace in place: a function that is called with the namespace's object.
    pub(super) fn write_namespace(&mut self, it: &TSNamespaceDeclaration<'_>, export: Option<Span>) {
        let name = it.id.name.as_str().to_owned();
        let whole = export.unwrap_or(it.span);
        let is_exported = export.is_some();
        let head = format!("{}(function({name}){{", self.variable(&name, is_exported));
        let tail = format!("}})({});", self.holder(&name, is_exported));
        self.namespaces.push(name.clone());
        match &it.body {
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => {
                self.edits.blank(start(whole), start(inner.span));
                self.write_namespace(inner, Some(inner.span));
                self.edits.insert_first(start(whole), head);
                self.edits.insert(end(whole), tail);
            }
            TSNamespaceDeclarationBody::TSModuleBlock(block) => {
                self.edits.blank(start(whole), start(block.span) + 1);
                self.edits.insert_first(start(whole), head);
                self.edits.blank(end(block.span) - 1, end(block.span));
                self.declare_all(&block.body);
                for statement in &block.body {
                    self.namespace_statement(&name, statement);
                }
                self.edits.insert(end(whole), tail);
            }
        }
        self.namespaces.pop();
        self.used.insert(name);
    }

    fn namespace_statement(&mut self, namespace: &str, statement: &Statement<'_>) {
        let Statement::ExportDeclaration(export) = statement else {
            if matches!(statement, Statement::ImportDeclaration(_) | Statement::ExportNamedDeclaration(_)) {
                self.refuse(
                    start(statement.span()),
                    "a namespace can't import or list exports here; use a module",
                );
            }
            return self.visit_statement(statement);
        };
        if Self::is_type_only(&export.declaration) {
            return self.drop_statement(export.span);
        }
        match &export.declaration {
            Declaration::TSEnumDeclaration(inner) => return self.write_enum(inner, Some(export.span)),
            Declaration::TSNamespaceDeclaration(inner) => {
                return self.write_namespace(inner, Some(export.span));
            }
            _ => {}
        }
        walk::walk_declaration(self, &export.declaration);
        self.edits.blank(start(export.span), start(export.declaration.span()));
        let text: String = match &export.declaration {
            Declaration::VariableDeclaration(variables) => variables
                .declarations
                .iter()
                .flat_map(|declarator| declarator.id.get_binding_identifiers())
                .map(|id| {
                    let name = id.name.as_str();
                    if variables.kind == VariableDeclarationKind::Const {
                        format!("{namespace}.{name}={name};")
                    } else {
                        // Whoever assigns to one of the two assigns to both.
                        format!("Object.defineProperty({namespace},{},{{enumerable:true,configurable:true,get(){{return {name}}},set(v){{{name}=v}}}});", quoted(name))
                    }
                })
                .collect(),
            other => other.id().map(|id| format!("{namespace}.{0}={0};", id.name)).unwrap_or_default(),
        };
        self.edits.insert(end(export.span), format!(";{text}"));
    }
}
