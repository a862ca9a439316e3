//! Arithmetic on known values. Everything else is `None`.

use brush_parser::ast::{ArithmeticExpr as Expr, ArithmeticTarget as Target, BinaryOperator as Binary};
use brush_parser::ast::{UnaryAssignmentOperator as Step, UnaryOperator as Unary};

use super::state::{State, Value};
use super::word::has_hole;

/// Deepest expression, and longest chain of variables that hold expressions.
const MAX_DEPTH: usize = 64;

/// Evaluates an expression whose expansions were done.
pub(crate) fn evaluate(text: &str, state: &mut State) -> Option<i64> {
    evaluate_at(text, state, 0)
}

fn evaluate_at(text: &str, state: &mut State, depth: usize) -> Option<i64> {
    let text = text.trim();
    if text.is_empty() {
        return Some(0);
    }
    if has_hole(text) || text.len() > 4096 || depth > MAX_DEPTH {
        return None;
    }
    if let Ok(number) = text.parse::<i64>()
        && (number == 0 || !text.starts_with('0'))
    {
        return Some(number);
    }
    let expr = brush_parser::arithmetic::parse(text).ok()?;
    value(&expr, state, depth)
}

fn value(expr: &Expr, state: &mut State, depth: usize) -> Option<i64> {
    if depth > MAX_DEPTH {
        return None;
    }
    let depth = depth + 1;
    match expr {
        Expr::Literal(number) => Some(*number),
        Expr::Reference(target) => read(target, state, depth),
        Expr::UnaryOp(op, inner) => {
            let inner = value(inner, state, depth)?;
            Some(match op {
                Unary::UnaryPlus => inner,
                Unary::UnaryMinus => inner.wrapping_neg(),
                Unary::BitwiseNot => !inner,
                Unary::LogicalNot => i64::from(inner == 0),
            })
        }
        Expr::BinaryOp(op, left, right) => {
            let left = value(left, state, depth)?;
            match op {
                Binary::LogicalAnd if left == 0 => return Some(0),
                Binary::LogicalOr if left != 0 => return Some(1),
                _ => {}
            }
            binary(op, left, value(right, state, depth)?)
        }
        Expr::Conditional(test, yes, no) => {
            let branch = if value(test, state, depth)? != 0 { yes } else { no };
            value(branch, state, depth)
        }
        Expr::Assignment(target, inner) => {
            let result = value(inner, state, depth)?;
            write(target, state, result)
        }
        Expr::BinaryAssignment(op, target, inner) => {
            let right = value(inner, state, depth)?;
            let result = binary(op, read(target, state, depth)?, right)?;
            write(target, state, result)
        }
        Expr::UnaryAssignment(step, target) => {
            let before = read(target, state, depth)?;
            let after = match step {
                Step::PrefixIncrement | Step::PostfixIncrement => before.wrapping_add(1),
                Step::PrefixDecrement | Step::PostfixDecrement => before.wrapping_sub(1),
            };
            write(target, state, after)?;
            Some(match step {
                Step::PrefixIncrement | Step::PrefixDecrement => after,
                Step::PostfixIncrement | Step::PostfixDecrement => before,
            })
        }
    }
}

/// Returns whether an expression has an assignment in it, or something that looks like one.
pub(crate) fn assigns(text: &str) -> bool {
    let bytes = text.as_bytes();
    (0..bytes.len()).any(|at| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at)).copied();
        bytes.get(at) == Some(&b'=')
            && bytes.get(at + 1) != Some(&b'=')
            && !matches!(before, Some(b'=' | b'!' | b'<' | b'>'))
            || text.get(at..).is_some_and(|rest| rest.starts_with("<<=") || rest.starts_with(">>="))
    })
}

/// Returns the expression with octal numbers read as decimal ones; `None` when it has none.
pub(crate) fn without_octal(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut found = false;
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let begins = !(before.is_ascii_alphanumeric() || matches!(before, '_' | '#' | '.'));
        if c == '0' && begins && chars.peek().is_some_and(char::is_ascii_digit) {
            found = true;
        } else {
            out.push(c);
            before = c;
        }
    }
    found.then_some(out)
}

fn binary(op: &Binary, left: i64, right: i64) -> Option<i64> {
    let shift = u32::try_from(right & 63).unwrap_or_default();
    Some(match op {
        Binary::Power => left.wrapping_pow(u32::try_from(right).ok()?),
        Binary::Multiply => left.wrapping_mul(right),
        Binary::Divide => left.checked_div(right)?,
        Binary::Modulo => left.checked_rem(right)?,
        Binary::Comma => right,
        Binary::Add => left.wrapping_add(right),
        Binary::Subtract => left.wrapping_sub(right),
        Binary::ShiftLeft => left.wrapping_shl(shift),
        Binary::ShiftRight => left.wrapping_shr(shift),
        Binary::LessThan => i64::from(left < right),
        Binary::LessThanOrEqualTo => i64::from(left <= right),
        Binary::GreaterThan => i64::from(left > right),
        Binary::GreaterThanOrEqualTo => i64::from(left >= right),
        Binary::Equals => i64::from(left == right),
        Binary::NotEquals => i64::from(left != right),
        Binary::BitwiseAnd => left & right,
        Binary::BitwiseXor => left ^ right,
        Binary::BitwiseOr => left | right,
        Binary::LogicalAnd => i64::from(left != 0 && right != 0),
        Binary::LogicalOr => i64::from(left != 0 || right != 0),
    })
}

fn read(target: &Target, state: &mut State, depth: usize) -> Option<i64> {
    match target {
        Target::Variable(name) => {
            let text = state.assigned(name)?.scalar().to_owned();
            evaluate_at(&text, state, depth + 1)
        }
        Target::ArrayElement(name, index) => {
            let index = usize::try_from(value(index, state, depth)?).ok()?;
            let text = match state.assigned(name)? {
                Value::List(list) => list.get(index)?.clone(),
                Value::Text(text) if index == 0 => text.clone(),
                Value::Text(_) | Value::Unset | Value::Outside | Value::OneOf(_) => return None,
            };
            evaluate_at(&text, state, depth + 1)
        }
    }
}

fn write(target: &Target, state: &mut State, result: i64) -> Option<i64> {
    let Target::Variable(name) = target else { return None };
    state.assign(name, Value::Text(result.to_string()));
    Some(result)
}
