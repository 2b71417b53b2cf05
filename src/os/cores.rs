//! Detection of fast cores in the sysfs of Linux.

use std::fs::read_to_string;
use std::path::Path;

/// Returns the number of fast cores among the usable processors, from the files under `root`, normally `/sys`. Returns
/// `None` if all cores are alike, or if the files do not exist.
pub fn fast_cores(root: &Path, is_usable: impl Fn(u32) -> bool) -> Option<usize> {
    let of = |cpu: u32, name: &str| read_to_string(root.join(format!("devices/system/cpu/cpu{cpu}/{name}"))).ok();
    let online = read_to_string(root.join("devices/system/cpu/online")).ok()?;
    let cpus: Vec<u32> = numbers(&online).filter(|cpu| is_usable(*cpu)).collect();
    let mut fast = cpus.clone();
    if let Ok(named) = read_to_string(root.join("devices/cpu_core/cpus")) {
        // Intel processors with cores of two kinds.
        fast.retain(|cpu| numbers(&named).any(|named| named == *cpu));
    } else {
        let speeds = |name: &str, least_percent: u64| {
            let speed = |cpu: &u32| of(*cpu, name)?.trim().parse().ok();
            Some((cpus.iter().map(speed).collect::<Option<Vec<u64>>>()?, least_percent))
        };
        // Capacities are relative to the fastest core; clocks are less reliable, because they differ between cores of
        // one kind.
        let (speeds, least) = speeds("cpu_capacity", 50).or_else(|| speeds("cpufreq/cpuinfo_max_freq", 80))?;
        let most = *speeds.iter().max()?;
        let mut speeds = speeds.into_iter();
        fast.retain(|_| speeds.next().is_some_and(|speed| speed.saturating_mul(100) >= most.saturating_mul(least)));
    }
    if fast.is_empty() || fast.len() == cpus.len() {
        return None;
    }
    // Hardware threads of one core count once.
    let mut cores: Vec<String> =
        fast.iter().map(|cpu| of(*cpu, "topology/core_cpus_list").unwrap_or_else(|| cpu.to_string())).collect();
    cores.sort_unstable();
    cores.dedup();
    Some(cores.len())
}

/// Reads a list such as "0-3,8".
fn numbers(list: &str) -> impl Iterator<Item = u32> {
    list.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the sysfs files of a machine with processors up to `last`.
    fn machine(last: u32, files: &[(&str, &dyn Fn(u32) -> String)], core: Option<&str>) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let cpu = root.path().join("devices/system/cpu");
        for n in 0..=last {
            for (name, text) in files {
                let path = cpu.join(format!("cpu{n}/{name}"));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text(n)).unwrap();
            }
        }
        std::fs::create_dir_all(&cpu).unwrap();
        std::fs::write(cpu.join("online"), format!("0-{last}\n")).unwrap();
        if let Some(core) = core {
            std::fs::create_dir_all(root.path().join("devices/cpu_core")).unwrap();
            std::fs::write(root.path().join("devices/cpu_core/cpus"), core).unwrap();
        }
        root
    }

    #[test]
    fn fast_cores_are_counted_once_each() {
        // Eight cores of two threads each, and sixteen of one.
        let siblings = |n: u32| match n {
            0..16 => format!("{}-{}\n", n & !1, n | 1),
            _ => format!("{n}\n"),
        };
        let clocks = |n: u32| if n < 16 { "5800000\n" } else { "4300000\n" }.to_owned();
        let (topology, clock) = ("topology/core_cpus_list", "cpufreq/cpuinfo_max_freq");
        let intel = machine(31, &[(topology, &siblings), (clock, &clocks)], Some("0-15\n"));
        assert_eq!(fast_cores(intel.path(), |_| true), Some(8));
        assert_eq!(fast_cores(intel.path(), |cpu| !(4..8).contains(&cpu)), Some(6));
        assert_eq!(fast_cores(intel.path(), |cpu| cpu >= 16), None);
        let unnamed = machine(31, &[(topology, &siblings), (clock, &clocks)], None);
        assert_eq!(fast_cores(unnamed.path(), |_| true), Some(8));
    }

    #[test]
    fn capacities_come_before_clocks() {
        let capacity = |n: u32| ["1024", "890", "890", "890", "260", "260", "260", "260"][n as usize].to_owned();
        let clock = |n: u32| if n > 0 { "1800" } else { "3000" }.to_owned();
        let phone = machine(7, &[("cpu_capacity", &capacity), ("cpufreq/cpuinfo_max_freq", &clock)], None);
        assert_eq!(fast_cores(phone.path(), |_| true), Some(4));
        assert_eq!(fast_cores(phone.path(), |cpu| cpu > 3), None);
    }

    #[test]
    fn cores_that_are_alike_or_unknown_are_not_told_apart() {
        let clocks = |n: u32| format!("{}\n", 5_700_000 - 100_000 * u64::from(n % 4));
        assert_eq!(fast_cores(machine(7, &[("cpufreq/cpuinfo_max_freq", &clocks)], None).path(), |_| true), None);
        assert_eq!(fast_cores(machine(7, &[], None).path(), |_| true), None);
        assert_eq!(fast_cores(machine(3, &[("cpu_capacity", &|_| "fast".to_owned())], None).path(), |_| true), None);
        assert_eq!(fast_cores(Path::new("/nothing/here"), |_| true), None);
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(numbers("0-2,7, x,9-8\n").collect::<Vec<_>>(), [0, 1, 2, 7]);
        assert_eq!(numbers("").count(), 0);
    }
}
