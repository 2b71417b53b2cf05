//! The MTP layer: in tiny models, in the f64 reference, and in the engine without jobs.

use std::path::Path;
use std::sync::Arc;

use realizar::cpu::threads::pool::Pool;
use realizar::device::Batch;
use realizar::device::{Backend, CPU_DEVICE, Executor, Load, StepBudget};
use realizar::format::{Access, Source};
use realizar::graph::load_options::LoadOptions;
use realizar::graph::op::TensorId;
use realizar::graph::program::Program;
use realizar::graph::sequence_spec::SequenceSpec;
use realizar::graph::step::{StepInputs, StepLimits};
use realizar::model::{Network, PredictorOf, arch};
use realizar::quant;

use super::reference::{Net, Weights};
use super::tiny::Tiny;

impl Tiny {
    /// Adds an MTP layer.
    pub fn predicting(mut self) -> Tiny {
        self.net.predicts = true;
        self.net.window.push(0);
        self.net.inv_freq.extend(self.net.inv_freq.last().cloned());
        self.ints.push(("nextn_predict_layers", 1));
        self
    }
}

impl Net {
    /// Multi-token prediction: returns the logits after each token but the first, from the trunk's hidden state before
    /// it. For the last `n` tokens, which were predicted, the layer's own results replace these hidden states.
    pub fn predict(&self, w: &Weights, ids: &[u32], n: usize) -> Vec<Vec<f64>> {
        let (d, p) = (self.hidden, format!("blk.{}.nextn.", self.layers));
        let mut states = self.states(w, &ids[..ids.len() - n - 1]);
        let norms = [format!("{p}shared_head_norm"), format!("blk.{}.layer_output_norm", self.layers)];
        let head_norm = norms.into_iter().find(|name| w.contains_key(&format!("{name}.weight")));
        let head_norm = head_norm.unwrap_or(self.output_norm.to_owned());
        let mut made = vec![];
        for known in ids.len() - n..=ids.len() {
            let join = |(state, token): (&Vec<f64>, &u32)| {
                let (mut e, mut h) = (w["token_embd.weight"][*token as usize * d..][..d].to_vec(), state.clone());
                self.normalize(w, &format!("{p}enorm"), &mut e, d);
                self.normalize(w, &format!("{p}hnorm"), &mut h, d);
                e.extend(h);
                self.linear(w, &format!("{p}eh_proj"), &e)
            };
            made = states.iter().zip(&ids[1..known]).map(join).collect();
            self.blocks(w, self.layers..self.layers + 1, &mut made, &vec![vec![]; known]);
            made.iter_mut().for_each(|x| self.normalize(w, &head_norm, x, d));
            states.extend(made.last().cloned());
        }
        let head = format!("{p}shared_head_head");
        let has_head = w.contains_key(&format!("{head}.weight"));
        made.iter().map(|x| if has_head { self.logits_by(w, &head, x) } else { self.logits(w, x) }).collect()
    }
}

pub const LIMITS: StepLimits = StepLimits { max_tokens: 32, max_outputs: 32 };

pub fn spec(program: &Program) -> SequenceSpec {
    let (layers, recurrent) = (program.kv_layers.clone(), program.recurrent.clone());
    SequenceSpec { layers, recurrent, capacity: 32, k_type: quant::F32, v_type: quant::F32, max_step: 32 }
}

/// Runs a program over tokens, with hidden states as input if given; returns the logits of every row.
fn run(
    backend: &Backend,
    program: &Arc<Program>,
    ids: &[u32],
    input: Option<(TensorId, &[f32])>,
) -> (Executor, Vec<Vec<f32>>) {
    let mut state = backend.new_sequence(&spec(program)).unwrap();
    let mut executor = backend.new_executor(program, LIMITS).unwrap();
    let all: Vec<u32> = (0..ids.len() as u32).collect();
    let slots = vec![0; ids.len()];
    let mut batch = Batch {
        inputs: StepInputs { ids, positions: &all, outputs: &all, sequences: &slots, ..Default::default() },
        sequences: &mut [&mut state],
    };
    executor.begin(&mut batch, 0..program.ops.len()).unwrap();
    if let Some((tensor, values)) = input {
        executor.write(tensor, values).unwrap();
    }
    assert!(executor.advance(&mut batch, &StepBudget::unlimited()).unwrap());
    let mut logits = vec![vec![0.0; program.vocab]; ids.len()];
    logits.iter_mut().enumerate().for_each(|(i, row)| executor.read_logits(i, row).unwrap());
    (executor, logits)
}

/// Returns the weights of a network on the CPU.
pub fn backend(network: &Network, program: &Arc<Program>, beside: Vec<Arc<Program>>) -> Backend {
    let options = LoadOptions { device: CPU_DEVICE, ..Default::default() };
    let load = Load { companions: beside, ..Load::new(&options, LIMITS, spec(program)) };
    let pool = Arc::new(Pool::new(2).unwrap());
    Backend::load(program, &network.weights(), &pool, &load, &mut |_, _| Ok(())).unwrap()
}

/// Returns the logits of the network, of the MTP layer after all tokens but the first, and of both after `more` and the
/// layer's own result.
pub fn predict(path: &Path, ids: &[u32], more: u32) -> [Vec<Vec<f32>>; 3] {
    let source = Source::open(path, Access::Read).unwrap();
    let network = arch::network(&source, None, true).unwrap();
    let predictor = network.predictor.as_ref().unwrap();
    let [trunk, beside] = [&network.program, &predictor.program].map(|program| Arc::new(program.clone()));
    let backend = backend(&network, &trunk, vec![beside.clone()]);

    let (known, width) = (ids.len() - 1, network.hyper.hidden);
    let (mut executor, logits) = run(&backend, &trunk, ids, None);
    let mut states = vec![0.0; known * width];
    let PredictorOf::Same(kept) = predictor.of else { panic!("a layer of the network") };
    executor.read_rows(kept, 0, &mut states).unwrap();
    assert!(executor.read_rows(kept, LIMITS.max_tokens, &mut states).is_err());
    assert!(executor.read_rows(TensorId(0), 0, &mut states).is_err(), "no activation that is kept");
    let (mut executor, first) = run(&backend, &beside, &ids[1..], Some((predictor.input, &states)));
    let mut made = vec![0.0; known * width];
    executor.read(predictor.result, &mut made).unwrap();
    states.extend(&made[(known - 1) * width..]);
    let ids = [&ids[1..], &[more]].concat();
    let (_, second) = run(&backend, &beside, &ids, Some((predictor.input, &states)));
    [logits, first, second]
}
