//! The speed of the CUDA backend, on systems that have one.

#[cfg(cuda)]
mod bench;
#[cfg(cuda)]
mod network;
#[cfg(cuda)]
mod parts;

fn main() {
    #[cfg(cuda)]
    bench::main();
    #[cfg(not(cuda))]
    eprintln!("skipped: there is no CUDA for this system");
}
