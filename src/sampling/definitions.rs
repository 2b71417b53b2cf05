//! Compares samplers with probabilities computed from definitions in f64 by `tests/data/make_sampling.py`.

use serde_json::Value;

use super::choose::{Scratch, choose};
use super::{Filter, Sampler, SamplerParams, SamplingRule};

struct Case {
    params: SamplerParams,
    history: Vec<u32>,
    logits: Vec<f32>,
    probabilities: Vec<f64>,
}

impl Case {
    fn of(case: &Value) -> Case {
        let numbers = |value: &Value| -> Vec<u32> {
            value.as_array().map_or(Vec::new(), |list| list.iter().map(|x| x.as_u64().unwrap() as u32).collect())
        };
        let floats =
            |value: &Value| -> Vec<f64> { value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect() };
        let given = &case["params"];
        let sequences = |name: &str| given[name].as_array().map_or(Vec::new(), |all| all.iter().map(numbers).collect());
        let mut params = SamplerParams {
            dry_breakers: sequences("dry_breakers"),
            banned_sequences: sequences("banned_sequences"),
            order: numbers(&given["order"]).into_iter().map(|number| Filter::of(number).unwrap()).collect(),
            ..Default::default()
        };
        let mut known = 3;
        macro_rules! read {
            ($($(#[$doc:meta])* $name:ident: $type:ty, $default:expr, $range:expr;)+) => {
                $(if let Some(value) = given[stringify!($name)].as_f64() {
                    params.$name = value as $type;
                    known += 1;
                })+
            };
        }
        super::numbers!(read);
        let lists = ["dry_breakers", "banned_sequences", "order"].iter().filter(|name| given[**name].is_null()).count();
        assert_eq!(known - lists, given.as_object().unwrap().len(), "{given}");
        Case {
            params,
            history: numbers(&case["history"]),
            logits: floats(&case["logits"]).into_iter().map(|x| x as f32).collect(),
            probabilities: floats(&case["probabilities"]),
        }
    }
}

fn cases() -> Vec<Case> {
    let cases: Value = serde_json::from_str(include_str!("../../tests/data/sampling.json")).unwrap();
    let cases: Vec<Case> = cases.as_array().unwrap().iter().map(Case::of).collect();
    assert!(cases.len() > 150);
    cases
}

#[test]
fn draws_are_from_the_defined_distributions() {
    let mut scratch = Scratch::default();
    let mut by_chance = 0;
    for Case { params, history, logits, probabilities } in cases() {
        let params = params.checked().unwrap();
        if params.is_on(Filter::Xtc) && params.xtc_probability < 1.0 {
            by_chance += 1;
            continue;
        }
        let bound = 2.0 * f64::from(params.mirostat_tau);
        let rule = SamplingRule { params: &params, bound, recent: [&history, &[]], ..Default::default() };
        choose(&rule, &logits, &mut scratch).unwrap();
        let mut found = vec![0.0; logits.len()];
        scratch.probabilities().for_each(|(id, p)| found[id as usize] = p);
        for (id, (found, expected)) in found.iter().zip(&probabilities).enumerate() {
            assert_eq!(*found > 0.0, *expected > 0.0, "token {id} of {params:?}");
            assert!((found - expected).abs() < 1e-6, "token {id}: {found}, {expected} by {params:?}");
        }
    }
    assert!((5..50).contains(&by_chance));
}

/// Pearson's chi-square, joining tokens that are expected fewer than five times.
#[test]
fn draws_are_as_frequent_as_defined() {
    const DRAWS: usize = 20_000;
    for (i, Case { params, history, logits, probabilities }) in cases().into_iter().enumerate() {
        let mut sampler = Sampler::new(SamplerParams { seed: i as u64, ..params }).unwrap();
        let mut counts = vec![0.0; logits.len()];
        for _ in 0..DRAWS {
            counts[sampler.sample(&logits, &history, None).unwrap() as usize] += 1.0;
        }
        let (mut rare, mut statistic, mut kinds) = ([0.0; 2], 0.0, 0.0);
        let mut add = |count: f64, expected: f64| {
            statistic += (count - expected).powi(2) / expected;
            kinds += 1.0;
        };
        for (count, p) in counts.iter().zip(&probabilities) {
            match p * DRAWS as f64 {
                0.0 => assert_eq!(*count, 0.0, "{:?}", sampler.params()),
                expected if expected < 5.0 => rare = [rare[0] + count, rare[1] + expected],
                expected => add(*count, expected),
            }
        }
        if rare[1] >= 5.0 {
            add(rare[0], rare[1]);
        }
        // Wilson and Hilferty's approximation of the value exceeded by one in a hundred thousand seeds.
        let freedom: f64 = f64::max(kinds - 1.0, 1.0);
        let most = freedom * (1.0 - 2.0 / (9.0 * freedom) + 4.3 * (2.0 / (9.0 * freedom)).sqrt()).powi(3);
        assert!(statistic < most, "{statistic} of {freedom} degrees of freedom by {:?}", sampler.params());
    }
}

/// The mean surprise approaches the target, and the bound of each draw follows from earlier ones.
#[test]
fn mirostat_holds_its_aim() {
    let logits: Vec<f32> = (0..200).map(|i| 6.0 - 0.05 * i as f32).collect();
    let sum: f64 = logits.iter().map(|x| libm::exp(f64::from(*x))).sum();
    let p: Vec<f64> = logits.iter().map(|x| libm::exp(f64::from(*x)) / sum).collect();
    for (tau, eta) in [(2.0, 0.1), (3.5, 0.3), (5.0, 0.0)] {
        let params =
            SamplerParams { temperature: 1.0, mirostat_tau: tau, mirostat_eta: eta, seed: 4, ..Default::default() };
        let mut sampler = Sampler::new(params).unwrap();
        let eta = if eta == 0.0 { f64::from(0.1f32) } else { f64::from(eta) };
        let (mut bound, mut total) = (2.0 * f64::from(tau), 0.0);
        const DRAWS: u32 = 20_000;
        for _ in 0..DRAWS {
            let id = sampler.sample(&logits, &[], None).unwrap() as usize;
            let is_kept = |i: usize| i == 0 || -libm::log2(p[i]) <= bound;
            assert!(is_kept(id));
            let kept: f64 = (0..200).filter(|i| is_kept(*i)).map(|i| p[i]).sum();
            let surprise = libm::log2(kept / p[id]);
            bound -= eta * (surprise - f64::from(tau));
            assert!((bound - sampler.bound).abs() < 1e-6, "{bound}, {}", sampler.bound);
            total += surprise;
        }
        let mean = total / f64::from(DRAWS);
        assert!((mean - f64::from(tau)).abs() < 0.02, "{mean} rather than {tau}");
    }
}

#[test]
fn a_seed_gives_the_same_tokens_again() {
    let params = SamplerParams {
        temperature: 0.9,
        temperature_range: 0.4,
        typical_p: 0.95,
        top_n_sigma: 2.5,
        xtc_probability: 0.5,
        xtc_threshold: 0.02,
        mirostat_tau: 4.0,
        dry_multiplier: 0.8,
        no_repeat_ngram_size: 3,
        banned_sequences: vec![vec![1, 2]],
        seed: 11,
        ..Default::default()
    };
    let logits: Vec<f32> = (0..1000).map(|i| ((i * 7919 % 1000) as f32 - 500.0) / 100.0).collect();
    let draw = |sampler: &mut Sampler, history: &mut Vec<u32>| {
        for _ in 0..20 {
            history.push(sampler.sample(&logits, history, None).unwrap());
        }
    };
    let (mut sampler, mut history) = (Sampler::new(params.clone()).unwrap(), Vec::new());
    draw(&mut sampler, &mut history);
    let (mut copy, mut other) = (sampler.copy(), history.clone());
    draw(&mut sampler, &mut history);
    draw(&mut copy, &mut other);
    assert_eq!(history, other);
    let (mut again, mut repeated) = (Sampler::new(params.clone()).unwrap(), Vec::new());
    (0..2).for_each(|_| draw(&mut again, &mut repeated));
    assert_eq!(history, repeated);
    let (mut others, mut different) = (Sampler::new(SamplerParams { seed: 12, ..params }).unwrap(), Vec::new());
    (0..2).for_each(|_| draw(&mut others, &mut different));
    assert_ne!(history, different);
}

/// Parameters that only the host supports must not run on a device.
#[test]
fn devices_get_what_they_can_follow() {
    let warm = SamplerParams { temperature: 0.8, top_k: 40, top_p: 0.9, min_p: 0.05, ..Default::default() };
    let orders = |order: &[Filter]| SamplerParams { order: order.to_vec(), ..warm.clone() };
    let all = Filter::TEMPERATURE_FIRST;
    let suitable = [
        SamplerParams::default(),
        warm.clone(),
        orders(&Filter::DEFAULT_ORDER),
        SamplerParams { temperature: 1.0, ..orders(&all) },
        SamplerParams { top_p: 1.0, min_p: 0.0, ..orders(&all) },
        SamplerParams { typical_p: 1.0, repeat_penalty: 1.1, ..warm.clone() },
        SamplerParams { temperature: 0.0, typical_p: 0.5, mirostat_tau: 3.0, ..Default::default() },
    ];
    for params in suitable {
        assert!(params.suits_devices(), "{params:?}");
    }
    let unsuitable = [
        orders(&all),
        SamplerParams { top_p: 0.0, top_k: 0, ..orders(&all) },
        SamplerParams { temperature: 1.0, ..orders(&[Filter::TopP, Filter::TopK, Filter::MinP]) },
        SamplerParams { typical_p: 0.5, ..warm.clone() },
        SamplerParams { top_n_sigma: 1.0, ..warm.clone() },
        SamplerParams { xtc_probability: 0.5, ..warm.clone() },
        SamplerParams { temperature_range: 0.5, ..warm.clone() },
        SamplerParams { mirostat_tau: 5.0, ..warm },
        SamplerParams { dry_multiplier: 0.8, ..Default::default() },
        SamplerParams { no_repeat_ngram_size: 3, ..Default::default() },
        SamplerParams { banned_sequences: vec![vec![5]], ..Default::default() },
    ];
    for params in unsuitable {
        assert!(!params.suits_devices(), "{params:?}");
    }
}

#[test]
fn new_parameters_are_checked_by_name() {
    let filters = |order: &[Filter]| SamplerParams { order: order.to_vec(), ..Default::default() };
    let warm = || SamplerParams { temperature: 0.5, ..Default::default() };
    let bad = [
        ("typical_p is 1.5", SamplerParams { typical_p: 1.5, ..warm() }),
        ("typical_p is NaN", SamplerParams { typical_p: f32::NAN, ..warm() }),
        ("top_n_sigma is -1", SamplerParams { top_n_sigma: -1.0, ..warm() }),
        ("xtc_probability is -0.5", SamplerParams { xtc_probability: -0.5, ..warm() }),
        ("xtc_threshold is 2", SamplerParams { xtc_threshold: 2.0, ..warm() }),
        ("temperature_range is inf", SamplerParams { temperature_range: f32::INFINITY, ..warm() }),
        ("temperature_exponent is -1", SamplerParams { temperature_exponent: -1.0, ..warm() }),
        ("mirostat_tau is NaN", SamplerParams { mirostat_tau: f32::NAN, ..warm() }),
        ("mirostat_eta is -0.1", SamplerParams { mirostat_eta: -0.1, ..warm() }),
        ("dry_multiplier is -1", SamplerParams { dry_multiplier: -1.0, ..warm() }),
        ("dry_base is 0.5; it must be finite and at least 1", SamplerParams { dry_base: 0.5, ..warm() }),
        ("no_repeat_ngram_size is 4097", SamplerParams { no_repeat_ngram_size: 4097, ..warm() }),
        ("dry_breakers[1] has no tokens", SamplerParams { dry_breakers: vec![vec![1], vec![]], ..warm() }),
        ("banned_sequences[0] has no tokens", SamplerParams { banned_sequences: vec![vec![]], ..warm() }),
        ("order has top_p twice", filters(&[Filter::TopP, Filter::MinP, Filter::TopP])),
        ("temperature is on, but not in order", SamplerParams { order: vec![Filter::TopP], ..warm() }),
        ("xtc is on, but not in order", SamplerParams { xtc_probability: 0.1, ..filters(&[Filter::Temperature]) }),
    ];
    for (message, params) in bad {
        let found = Sampler::new(params).unwrap_err().to_string();
        assert!(found.contains(message), "{found}");
    }
    assert!(Filter::of(8).unwrap_err().to_string().contains("order has 8"));
    assert!(Filter::of(0).is_err());
    let sampler = Sampler::new(SamplerParams { dry_breakers: vec![vec![1, 9]], ..warm() }).unwrap();
    assert!(sampler.check_vocab(9).unwrap_err().to_string().contains("token 9 is in a breaker of DRY"));
    let sampler = Sampler::new(SamplerParams { banned_sequences: vec![vec![9, 1]], ..warm() }).unwrap();
    assert!(sampler.check_vocab(9).unwrap_err().to_string().contains("token 9 is in a banned sequence"));
    assert!(sampler.check_vocab(10).is_ok());
}
