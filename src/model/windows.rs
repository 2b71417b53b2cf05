//! The layers with a sliding window.

use super::builder::Builder;
use crate::error::Result;
use crate::format::Value;

impl Builder<'_> {
    /// Returns the window of each layer, 0 or `window`: as listed in the file, otherwise `window` in all but the last
    /// layer of each period (0: in all layers). The file's period overrides `period`.
    pub fn windows(&self, window: usize, period: usize) -> Result<Vec<usize>> {
        let (key, n) = ("attention.sliding_window_pattern", self.hyper.n_layers);
        let list: Option<Vec<bool>> = match self.keys.metadata.get(&self.keys.name(key)) {
            Some(Value::Bools(list)) => Some(list.clone()),
            Some(Value::Ints(list)) => Some(list.iter().map(|i| *i > 0).collect()),
            _ => None,
        };
        self.keys.get(key);
        let is_windowed: Vec<bool> = match list {
            // A list with one value per layer is set even if all are false.
            Some(mut list) if (n..=n + self.hyper.n_predicting).contains(&list.len()) => {
                list.truncate(n);
                list
            }
            Some(list) if list.contains(&true) => return Err(self.keys.unsupported(key)),
            _ => {
                let period = self.keys.size(key)?.unwrap_or(period);
                (0..n).map(|i| period == 0 || !(i + 1).is_multiple_of(period)).collect()
            }
        };
        Ok(is_windowed.into_iter().map(|windowed| if windowed { window } else { 0 }).collect())
    }

    /// Like `windows`, with full attention in the first layer of each period.
    pub fn windows_after_full(&self, window: usize, period: usize) -> Result<Vec<usize>> {
        let mut windows = self.windows(window, period)?;
        let declared = self.keys.metadata.get(&self.keys.name("attention.sliding_window_pattern"));
        if !matches!(declared, Some(Value::Bools(_) | Value::Ints(_))) {
            windows.rotate_right(1);
            windows[..1].fill(0);
        }
        Ok(windows)
    }

    /// Returns the declared window for all or the listed layers; 0 if the file declares none.
    pub fn declared_windows(&self) -> Result<Vec<usize>> {
        self.windows_of_period(0)
    }

    /// `windows` with the declared window; 0 if the file declares none.
    pub fn windows_of_period(&self, period: usize) -> Result<Vec<usize>> {
        match self.keys.size("attention.sliding_window")? {
            Some(window) => self.windows(window, period),
            None => {
                self.keys.get("attention.sliding_window_pattern");
                Ok(vec![0; self.hyper.n_layers])
            }
        }
    }

    /// True for layers with RoPE; all if the file does not list them.
    pub fn rotating_layers(&self) -> Result<Vec<bool>> {
        let (key, n) = ("attention.rope_pattern", self.hyper.n_layers);
        match self.keys.metadata.get(&self.keys.name(key)) {
            Some(Value::Bools(list)) if list.len() >= n => Ok(list[..n].to_vec()),
            Some(Value::Ints(list)) if list.len() >= n => Ok(list[..n].iter().map(|i| *i != 0).collect()),
            None | Some(Value::Int(1)) => Ok(vec![true; n]),
            Some(_) => Err(self.keys.unsupported(key)),
        }
    }
}
