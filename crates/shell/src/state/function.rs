//! Functions: the body of a name, or the bodies it may have after branches that define it differently.

use std::rc::Rc;

use brush_parser::ast;

/// A function: its body, shared with the syntax tree that was copied once.
#[derive(Clone)]
pub(crate) struct Function {
    /// Each body that it may have; `None` where it may not be defined.
    pub(crate) definitions: Vec<Option<Rc<ast::FunctionDefinition>>>,
}

impl Function {
    /// Creates a function that is certainly this one.
    pub(crate) fn new(definition: Rc<ast::FunctionDefinition>) -> Self {
        Self { definitions: vec![Some(definition)] }
    }

    pub(super) fn or(&mut self, other: Option<Self>) {
        let others = other.map_or_else(|| vec![None], |other| other.definitions);
        for one in others {
            let known = self.definitions.iter().any(|ours| match (ours, &one) {
                (Some(ours), Some(one)) => Rc::ptr_eq(ours, one),
                (None, None) => true,
                _ => false,
            });
            if !known {
                self.definitions.push(one);
            }
        }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.definitions.len() == other.definitions.len()
            && self.definitions.iter().zip(&other.definitions).all(|pair| match pair {
                (Some(ours), Some(theirs)) => Rc::ptr_eq(ours, theirs),
                (None, None) => true,
                _ => false,
            })
    }
}
