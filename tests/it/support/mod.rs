//! Helpers shared by tests. Separate test programs include them by `mod it { pub mod support; }`.

pub mod adapter_file;
pub mod adapters;
pub mod calls;
pub mod drafts;
pub mod encoders;
pub mod gguf;
pub mod heads;
pub mod interface;
pub mod layers;
pub mod matrix;
pub mod models;
pub mod ops;
pub mod predictor;
pub mod process;
pub mod published;
pub mod recurrent;
pub mod reference;
pub mod replies;
pub mod rope;
pub mod safetensors;
pub mod save;
#[cfg(cuda)]
pub mod shim;
pub mod sound;
pub mod stub_gpu;
pub mod tiny;
pub mod vision;
