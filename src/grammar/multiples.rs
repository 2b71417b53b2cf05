//! `multipleOf` in the form that the parser takes. The parser accepts only numbers with as many decimals as the step
//! (1.50 is a multiple of 0.25, but 1.5 is not), and reads some steps incorrectly.

use serde_json::{Map, Value as Json, json};

use super::keywords::allows_type;

/// Maximum coefficient of a step: the automaton of a number has a state per remainder.
pub const MAX_MULTIPLE: u64 = 4096;
/// Maximum number of decimals of a step that the parser computes with, in 32 bits.
const MAX_DECIMALS: u32 = 8;
/// Number of doubles searched on either side of a step for one that the parser reads as the step.
const MAX_NEIGHBORS: u64 = 8;

/// A step: `coefficient` divided by `10^decimals`, in lowest terms.
struct Step {
    coefficient: u64,
    decimals: u32,
}

impl Step {
    /// Reads a positive number; a coefficient that is too large becomes the maximum.
    fn of(number: &Json) -> Step {
        let text = number.to_string();
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = fraction.trim_end_matches('0');
        let digits: String = [whole, fraction].concat().chars().filter(char::is_ascii_digit).collect();
        let mut coefficient = digits.parse::<u64>().unwrap_or(u64::MAX);
        let mut decimals = (fraction.len() as i64).saturating_sub(exponent.parse::<i64>().unwrap_or(0));
        while decimals < 0 && (1..u64::MAX).contains(&coefficient) {
            coefficient = coefficient.saturating_mul(10);
            decimals += 1;
        }
        while decimals > 0 && coefficient > 0 && coefficient % 10 == 0 {
            coefficient /= 10;
            decimals -= 1;
        }
        Step { coefficient, decimals: decimals.clamp(0, i64::from(u32::MAX)) as u32 }
    }

    /// Returns the step of those multiples that have up to `decimals` decimals.
    fn with_decimals(&self, decimals: u32) -> Step {
        let scale = 10u64.pow(self.decimals - decimals);
        Step { coefficient: self.coefficient / gcd(self.coefficient, scale), decimals }
    }

    /// Returns the number that the parser reads as this step; `None` if there is none.
    fn written(&self) -> Option<f64> {
        let exact: f64 = format!("{}e-{}", self.coefficient, self.decimals).parse().ok()?;
        let near = (0..=MAX_NEIGHBORS).flat_map(|n| [exact.to_bits() - n, exact.to_bits() + n]);
        near.map(f64::from_bits).find(|x| self.is_read_from(*x))
    }

    /// True if a number is a multiple.
    fn divides(&self, x: f64) -> bool {
        let x = Step::of(&json!(x));
        let scaled =
            self.decimals.checked_sub(x.decimals).and_then(|n| x.coefficient.checked_mul(10u64.checked_pow(n)?));
        scaled.is_some_and(|scaled| scaled % self.coefficient == 0)
    }

    /// True if the parser reads a double as this step; it multiplies by 10 until there is no fraction.
    fn is_read_from(&self, x: f64) -> bool {
        let (mut x, mut decimals) = (x, 0);
        while x.fract() != 0.0 && decimals < self.decimals {
            x *= 10.0;
            decimals += 1;
        }
        decimals == self.decimals && x == self.coefficient as f64
    }
}

/// Returns the coefficient of a step as the parser reads it.
pub fn coefficient(number: &Json) -> u64 {
    let mut x = number.as_f64().unwrap_or(0.0).abs();
    let mut decimals = 0;
    while x.fract() != 0.0 {
        x *= 10.0;
        decimals += 1;
    }
    while decimals > 0 && x > 0.0 && x % 10.0 == 0.0 {
        x /= 10.0;
        decimals -= 1;
    }
    (x as u64).max(1)
}

/// A step removed from a schema, and the equivalent schema.
pub struct Multiples {
    step: Step,
    schema: Json,
}

/// Rewrites a schema's `multipleOf` for the parser, or removes it if alternatives are needed.
///
/// # Errors
/// The reason why the parser cannot take the step.
pub fn taken(members: &mut Map<String, Json>) -> Result<Option<Multiples>, String> {
    let Some(number) = members.get("multipleOf") else { return Ok(None) };
    let (step, has_fractions) = (Step::of(number), allows_type(members, "number"));
    let is_number = has_fractions || allows_type(members, "integer");
    // The check of all multiples together reports a large step.
    if step.coefficient > MAX_MULTIPLE || step.decimals == 0 || !is_number {
        return Ok(None);
    }
    if step.decimals > MAX_DECIMALS {
        return Err(format!("the step has {} decimals; it must have at most {MAX_DECIMALS}", step.decimals));
    }
    let written = |step: &Step| step.written().ok_or("the step would be rounded");
    if !has_fractions {
        members.insert("multipleOf".to_owned(), json!(written(&step.with_decimals(0))?));
        return Ok(None);
    }
    // The full step accepts multiples with fewer decimals already, unless the last ones follow from the others.
    let is_refused = |decimals: &u32| 10u64.pow(step.decimals - decimals) <= step.coefficient;
    let steps = (1..step.decimals).filter(is_refused).chain([step.decimals]).map(|n| step.with_decimals(n));
    let options: Vec<Json> =
        steps.map(|step| Ok(json!({"multipleOf": written(&step)?}))).collect::<Result<_, &str>>()?;
    members.shift_remove("multipleOf");
    Ok(Some(Multiples { step, schema: json!({"anyOf": options}) }))
}

impl Multiples {
    /// Returns the schema of the multiples within bounds, if any: alternatives from `numbers`.
    pub fn within(self, bounds: Option<Json>) -> Json {
        let Some(Json::Array(mut options)) = bounds.and_then(|mut bounds| bounds.get_mut("anyOf").map(Json::take))
        else {
            return self.schema;
        };
        // The parser divides with rounding, so single numbers are compared here.
        let single = |option: &Json| option["minimum"].as_f64().filter(|_| option["minimum"] == option["maximum"]);
        options.retain(|option| single(option).is_none_or(|x| self.step.divides(x)));
        for option in options.iter_mut().filter(|option| single(option).is_none()) {
            option["allOf"] = json!([self.schema]);
        }
        json!({"anyOf": options})
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
