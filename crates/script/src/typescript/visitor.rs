//! The pass over the syntax tree that notes what is blanked and what is rewritten.

use std::collections::HashSet;

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_span::GetSpan as _;

use super::Problem;
use super::edits::{Edits, find_code, next_is, skip, words};

/// See the module.
pub(super) struct Blanker<'s> {
    pub(super) source: &'s str,
    pub(super) edits: Edits<'s>,
    pub(super) problem: Option<Problem>,
    /// Names that are used as values.
    pub(super) used: HashSet<String>,
    /// Enums whose variable is there already.
    pub(super) declared: HashSet<String>,
    /// Names of the namespaces around here.
    pub(super) namespaces: Vec<String>,
}

pub(super) fn start(span: Span) -> usize {
    span.start as usize
}

pub(super) fn end(span: Span) -> usize {
    span.end as usize
}

impl<'s> Blanker<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self {
            source,
            edits: Edits::new(source),
            problem: None,
            used: HashSet::new(),
            declared: HashSet::new(),
            namespaces: Vec::new(),
        }
    }

    pub(super) fn finish(mut self, program: &Program<'_>) -> Result<String, Problem> {
        self.drop_unused(program);
        match self.problem {
            Some(problem) => Err(problem),
            None => Ok(self.edits.finish()),
        }
    }

    pub(super) fn refuse(&mut self, at: usize, message: &str) {
        if self.problem.as_ref().is_none_or(|problem| problem.offset > at) {
            self.problem = Some(Problem::new(at, message));
        }
    }

    pub(super) fn blank(&mut self, span: Span) {
        self.edits.blank(start(span), end(span));
    }

    /// Blanks a statement; a semicolon stays, since the statement before may have ended by the one that goes.
    pub(super) fn drop_statement(&mut self, span: Span) {
        self.blank(span);
        self.edits.mark(start(span), ';');
    }

    /// Whether a declaration means nothing at run time.
    pub(super) fn is_type_only(declaration: &Declaration<'_>) -> bool {
        match declaration {
            Declaration::VariableDeclaration(it) => it.declare,
            Declaration::FunctionDeclaration(it) => it.declare || it.body.is_none(),
            Declaration::ClassDeclaration(it) => it.declare,
            Declaration::TSTypeAliasDeclaration(_)
            | Declaration::TSInterfaceDeclaration(_)
            | Declaration::TSExternalModuleDeclaration(_)
            | Declaration::TSGlobalDeclaration(_) => true,
            Declaration::TSEnumDeclaration(it) => it.declare,
            Declaration::TSNamespaceDeclaration(it) => it.declare || !super::enums::is_value(&it.body),
            Declaration::TSImportEqualsDeclaration(it) => it.import_kind.is_type(),
        }
    }

    /// Where a statement ends in a blank, a semicolon says so: the next line may begin with a bracket.
    fn close(&mut self, span: Span) {
        let last = end(span);
        if !self.source.get(..last).unwrap_or_default().ends_with(';') && self.edits.blank_ends_at(last) {
            let length =
                self.source.get(..last).and_then(|text| text.chars().next_back()).map_or(1, char::len_utf8);
            self.edits.mark(last - length, ';');
        }
    }

    /// Blanks words of a declaration between two places.
    fn blank_words(&mut self, from: usize, to: usize, dropped: &[&str]) -> Option<usize> {
        let mut first = None;
        for (at, word) in words(self.source, from, to) {
            if dropped.contains(&word) {
                first = first.or(Some(at));
                self.edits.blank(at, at + word.len());
            }
        }
        first
    }

    /// Blanks a sign that stands between a name and what follows.
    fn blank_sign(&mut self, from: usize, sign: &str) {
        if let Some(at) = next_is(self.source, from, sign) {
            self.edits.blank(at, at + sign.len());
        }
    }

    fn member_words(&mut self, element: Span, key: usize, after_decorators: bool) {
        const DROPPED: &[&str] =
            &["public", "private", "protected", "readonly", "override", "abstract", "declare"];
        let first = self.blank_words(start(element), key, DROPPED);
        // A field without a semicolon before this one must not go on into `[name]` or `*name`.
        if first == Some(start(element)) && !after_decorators {
            self.edits.mark(start(element), ';');
        }
    }

    /// Writes the assignments of parameter properties.
    fn parameter_properties(&mut self, constructor: &Function<'_>) {
        let names: Vec<&str> = constructor
            .params
            .items
            .iter()
            .filter(|parameter| {
                parameter.accessibility.is_some() || parameter.readonly || parameter.r#override
            })
            .filter_map(|parameter| match &parameter.pattern {
                BindingPattern::BindingIdentifier(name) => Some(name.name.as_str()),
                BindingPattern::AssignmentPattern(assigned) => match &assigned.left {
                    BindingPattern::BindingIdentifier(name) => Some(name.name.as_str()),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        let Some(body) = &constructor.body else { return };
        if names.is_empty() {
            return;
        }
        let text: String = names.iter().map(|name| format!("this.{name}={name};")).collect();
        let is_super = |statement: &&Statement<'_>| match statement {
            Statement::ExpressionStatement(it) => {
                matches!(&it.expression, Expression::CallExpression(call) if matches!(call.callee, Expression::Super(_)))
            }
            _ => false,
        };
        match body.statements.iter().find(is_super) {
            Some(after) => self.edits.insert(end(after.span()), format!(";{text}")),
            None => {
                let at = body.directives.last().map_or(start(body.span) + 1, |directive| end(directive.span));
                self.edits.insert(at, if body.directives.is_empty() { text } else { format!(";{text}") });
            }
        }
    }

    /// Types between the parameters of an arrow function and its arrow must not put them on different lines.
    fn arrow(&mut self, arrow: &ArrowFunctionExpression<'_>) {
        let params = &arrow.params;
        if let Some(returned) = &arrow.return_type {
            let text = self.source.get(start(returned.span)..end(returned.span)).unwrap_or_default();
            if text.contains('\n') {
                // The bracket moves to the end of the type.
                let close = end(params.span).saturating_sub(1);
                self.edits.blank(close, close + 1);
                let last = text.chars().next_back().map_or(1, char::len_utf8);
                self.edits.mark(end(returned.span) - last, ')');
            }
        }
        if let Some(parameters) = &arrow.type_parameters {
            let text = self.source.get(start(parameters.span)..end(parameters.span)).unwrap_or_default();
            if text.contains('\n') {
                self.edits.mark(start(parameters.span), '(');
                self.edits.blank(start(params.span), start(params.span) + 1);
            }
        }
    }

    /// Blanks a type and the word before it: ` as T`, ` satisfies T`.
    fn tail(&mut self, expression: Span, whole: Span) {
        // Brackets around the expression belong to it: the word is looked for behind them.
        let word = words(self.source, end(expression), end(whole))
            .into_iter()
            .find(|(_, word)| matches!(*word, "as" | "satisfies"));
        if let Some((at, _)) = word {
            self.edits.blank(at, end(whole));
        }
    }
}

impl<'a> Visit<'a> for Blanker<'_> {
    fn visit_program(&mut self, it: &Program<'a>) {
        self.declare_all(&it.body);
        walk::walk_program(self, it);
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        self.used.insert(it.name.to_string());
    }

    fn visit_statement(&mut self, it: &Statement<'a>) {
        if let Some(declaration) = it.as_declaration()
            && Self::is_type_only(declaration)
        {
            return self.drop_statement(it.span());
        }
        walk::walk_statement(self, it);
        if matches!(
            it,
            Statement::ExpressionStatement(_)
                | Statement::VariableDeclaration(_)
                | Statement::ReturnStatement(_)
                | Statement::ThrowStatement(_)
                | Statement::ExportDefaultDeclaration(_)
                | Statement::ExportDeclaration(_)
        ) {
            self.close(it.span());
        }
    }

    fn visit_export_declaration(&mut self, it: &ExportDeclaration<'a>) {
        if Self::is_type_only(&it.declaration) {
            return self.drop_statement(it.span);
        }
        match &it.declaration {
            Declaration::TSEnumDeclaration(declared) => self.write_enum(declared, Some(it.span)),
            Declaration::TSNamespaceDeclaration(declared) => self.write_namespace(declared, Some(it.span)),
            _ => walk::walk_export_declaration(self, it),
        }
    }

    fn visit_export_default_declaration(&mut self, it: &ExportDefaultDeclaration<'a>) {
        match &it.declaration {
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => self.drop_statement(it.span),
            ExportDefaultDeclarationKind::FunctionDeclaration(function) if function.body.is_none() => {
                self.drop_statement(it.span);
            }
            _ => walk::walk_export_default_declaration(self, it),
        }
    }

    fn visit_export_specifier(&mut self, _: &ExportSpecifier<'a>) {
        // Counted and dropped by `imports`.
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        self.write_enum(it, None);
    }

    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        self.write_namespace(it, None);
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        self.refuse(
            start(it.span),
            "`import name = ...` is not read here; write `import name from \"...\"`, or `const name = ...`",
        );
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.refuse(start(it.span), "`export = ...` is not read here; write `export default ...`");
    }

    fn visit_ts_namespace_export_declaration(&mut self, it: &TSNamespaceExportDeclaration<'a>) {
        self.drop_statement(it.span);
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.refuse(start(it.span), "decorators are not read here; call the function yourself");
    }

    fn visit_ts_this_parameter(&mut self, it: &TSThisParameter<'a>) {
        self.blank(it.span);
        self.blank_sign(end(it.span), ",");
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        self.blank_words(
            start(it.span),
            start(it.pattern.span()),
            &["public", "private", "protected", "readonly", "override"],
        );
        if it.optional {
            self.blank_sign(end(it.pattern.span()), "?");
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.definite {
            self.blank_sign(end(it.id.span()), "!");
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        walk::walk_arrow_function_expression(self, it);
        self.arrow(it);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        let name = it.id.as_ref().map_or_else(|| start(it.body.span), |name| start(name.span));
        if it.r#abstract {
            self.blank_words(start(it.span), name, &["abstract"]);
        }
        if let (Some(first), Some(last)) = (it.implements.first(), it.implements.last()) {
            let from = it
                .heritage
                .as_ref()
                .map(|heritage| {
                    heritage
                        .type_arguments
                        .as_ref()
                        .map_or(end(heritage.expression.span()), |types| end(types.span))
                })
                .or_else(|| it.type_parameters.as_ref().map(|parameters| end(parameters.span)))
                .or_else(|| it.id.as_ref().map(|name| end(name.span)))
                .unwrap_or_else(|| start(it.span));
            let word = words(self.source, from, start(first.span))
                .into_iter()
                .find(|(_, word)| *word == "implements");
            if let Some((at, _)) = word {
                let mut last = end(last.span);
                if let Some(types) = it.implements.last().and_then(|it| it.type_arguments.as_ref()) {
                    last = last.max(end(types.span));
                }
                self.edits.blank(at, last);
            }
        }
        walk::walk_class(self, it);
    }

    fn visit_class_element(&mut self, it: &ClassElement<'a>) {
        match it {
            ClassElement::TSIndexSignature(signature) => return self.drop_statement(signature.span),
            ClassElement::MethodDefinition(method)
                if method.value.body.is_none()
                    || method.r#type == MethodDefinitionType::TSAbstractMethodDefinition =>
            {
                return self.drop_statement(method.span);
            }
            ClassElement::PropertyDefinition(property)
                if property.declare
                    || property.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition =>
            {
                return self.drop_statement(property.span);
            }
            ClassElement::MethodDefinition(method) => {
                self.member_words(method.span, start(method.key.span()), !method.decorators.is_empty());
                if method.optional {
                    let from = end(method.key.span());
                    let at = find_code(self.source, from, start(method.value.span).max(from) + 1, "?");
                    if let Some(at) = at {
                        self.edits.blank(at, at + 1);
                    }
                }
                if method.kind == MethodDefinitionKind::Constructor {
                    self.parameter_properties(&method.value);
                }
            }
            ClassElement::PropertyDefinition(property) => {
                self.member_words(property.span, start(property.key.span()), !property.decorators.is_empty());
                let mut from = end(property.key.span());
                if property.computed {
                    from = next_is(self.source, from, "]").map_or(from, |at| at + 1);
                }
                if property.optional {
                    self.blank_sign(from, "?");
                }
                if property.definite {
                    self.blank_sign(from, "!");
                }
            }
            _ => {}
        }
        walk::walk_class_element(self, it);
        if let ClassElement::PropertyDefinition(property) = it {
            self.close(property.span);
        }
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.tail(it.expression.span(), it.span);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.tail(it.expression.span(), it.span);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.edits.blank(end(it.span) - 1, end(it.span));
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        let from = start(it.span);
        let inner = start(it.expression.span());
        // `<T>(value)`: the bracket is not part of the inner expression.
        let close =
            find_code(self.source, end(it.type_annotation.span()), inner, ">").map_or(inner, |at| at + 1);
        self.edits.blank(from, close);
        let code = skip(self.source, close);
        if self.source.get(from..code).unwrap_or_default().contains('\n') {
            // `return <T>` and a new line: what is returned must begin on the line of the word.
            self.edits.mark(from, '(');
            self.edits.insert(end(it.span), ")");
        }
        self.visit_expression(&it.expression);
    }

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        let from = start(it.span);
        // The colon may or may not be part of what the parser calls the annotation.
        let before = self.source.get(..from).unwrap_or_default().trim_end();
        let from = if self.source.get(from..).unwrap_or_default().starts_with(':') || !before.ends_with(':') {
            from
        } else {
            before.len() - 1
        };
        self.edits.blank(from, end(it.span));
    }

    fn visit_ts_type(&mut self, it: &TSType<'a>) {
        self.blank(it.span());
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_class_implements(&mut self, _: &TSClassImplements<'a>) {}
}
