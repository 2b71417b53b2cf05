//! LoRA adapters of a model: loaded once, shared by any number of sessions.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::cancel::Cancel;
use super::model::Model;
use super::runtime::{LogLevel, Reservation};
use crate::cpu::ops::adapt::scratch_bytes;
use crate::device::{self, Factors};
use crate::error::{Error, Result, try_vec};
use crate::format::{AdapterBase, AdapterFile, ByteSource};
use crate::graph::adapter_set::AdapterSet;
use crate::graph::weights::MatrixSource;
use crate::tensor::DType;

pub struct Adapter {
    model: Arc<Model>,
    factors: Arc<device::Adapter>,
    _memory: Reservation,
}

impl Adapter {
    /// Loads a GGUF file or a PEFT folder.
    ///
    /// # Errors
    /// `Mismatch` for an adapter of another model; `Cancelled` or `Deadline` if `cancel` fires.
    pub fn load(model: &Arc<Model>, path: &Path, cancel: Option<&Cancel>) -> Result<Arc<Adapter>> {
        Adapter::open(model, cancel, |base| AdapterFile::open(path, base))
    }

    /// Like `load`, for files in the caller's memory, which is read only during the call.
    pub fn load_from(model: &Arc<Model>, sources: &[ByteSource], cancel: Option<&Cancel>) -> Result<Arc<Adapter>> {
        Adapter::open(model, cancel, |base| AdapterFile::open_from(sources, base))
    }

    fn open(
        model: &Arc<Model>,
        cancel: Option<&Cancel>,
        open: impl FnOnce(&AdapterBase) -> Result<AdapterFile>,
    ) -> Result<Arc<Adapter>> {
        let network = model.network()?;
        if network.reads_source {
            return Err(Error::unsupported("an adapter of a network that reads a source"));
        }
        let (backend, adaptable) = (&network.backend, &network.adaptable);
        let file = open(&adaptable.base())?;
        let placed = adaptable.place(&file)?;
        let mut watched = try_vec("factors", placed.matrices.len())?;
        watched.extend(placed.matrices.iter().map(|matrix| Watched { matrix, cancel }));
        let mut sources = try_vec("factors", watched.len())?;
        sources.extend(watched.iter().map(|matrix| matrix as &dyn MatrixSource));
        let runtime = model.runtime();
        // Factors, and the scratch memory of a step.
        let scratch = if backend.is_on_cpu() { scratch_bytes(&network.program) } else { 0 };
        let factors = Factors { sources: &sources, products: &placed.products };
        let factors = backend
            .load_adapter(&factors, runtime.memory_left().saturating_sub(scratch))
            .map_err(|e| runtime.with_limit(e))?;
        let memory = runtime.reserve("the adapter", factors.host_bytes() + scratch)?;
        runtime.log(LogLevel::Info, &format!("an adapter of {} matrices: {}", file.pairs.len(), file.path().display()));
        Ok(Arc::new(Adapter { model: model.clone(), factors: Arc::new(factors), _memory: memory }))
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }
}

/// A matrix of an adapter whose reads fail once the cancel has fired.
struct Watched<'a> {
    matrix: &'a dyn MatrixSource,
    cancel: Option<&'a Cancel>,
}

impl MatrixSource for Watched<'_> {
    fn name(&self) -> &str {
        self.matrix.name()
    }

    fn dtype(&self) -> DType {
        self.matrix.dtype()
    }

    fn rows(&self) -> usize {
        self.matrix.rows()
    }

    fn cols(&self) -> usize {
        self.matrix.cols()
    }

    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        Cancel::check(&[self.cancel])?;
        self.matrix.read(rows, out)
    }
}

/// The LoRA adapters of a session with their scales.
#[derive(Clone, Default)]
pub struct Adapters {
    set: AdapterSet<device::Adapter>,
    /// The adapters of the set; each counts its own memory.
    _held: Arc<Vec<Arc<Adapter>>>,
}

impl Adapters {
    pub fn new(model: &Arc<Model>, adapters: &[Arc<Adapter>], scales: &[f32]) -> Result<Adapters> {
        if adapters.len() != scales.len() {
            return Err(Error::invalid(format!(
                "{} adapters have {} scales; they must be equally many",
                adapters.len(),
                scales.len()
            )));
        }
        let mut list = try_vec("adapters", adapters.len())?;
        for (i, (adapter, &scale)) in adapters.iter().zip(scales).enumerate() {
            if !Arc::ptr_eq(&adapter.model, model) {
                return Err(Error::Mismatch(format!(
                    "adapter {i} was loaded for another model than that of the cache"
                )));
            }
            // The largest value of the matrices, times the scale, must be finite too.
            if !((adapter.factors.largest_factor() * f64::from(scale)) as f32).is_finite() {
                return Err(Error::invalid(format!("the scale of adapter {i} is {scale}")));
            }
            list.push((adapter.factors.clone(), scale));
        }
        let mut held = try_vec("adapters", adapters.len())?;
        held.extend_from_slice(adapters);
        Ok(Adapters { set: AdapterSet::new(list), _held: Arc::new(held) })
    }

    pub(super) fn set(&self) -> &AdapterSet<device::Adapter> {
        &self.set
    }
}
