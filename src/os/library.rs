//! Dynamic libraries that are opened at run time.

use std::ffi::OsStr;

/// Names or paths of a library, in search order.
pub struct LibraryNames {
    pub on_windows: &'static [&'static str],
    pub elsewhere: &'static [&'static str],
}

impl LibraryNames {
    /// Returns the names for this system.
    pub fn here(&self) -> &'static [&'static str] {
        if cfg!(windows) { self.on_windows } else { self.elsewhere }
    }
}

/// An open library.
pub struct Library(libloading::Library);

impl Library {
    /// Opens a library by path, or by a name that the system searches in its own folders.
    ///
    /// # Safety
    /// Runs the initializers of the library.
    pub unsafe fn open(name: &OsStr) -> Result<Library, String> {
        #[cfg(not(windows))]
        // SAFETY: by this function's contract.
        let library = unsafe { libloading::Library::new(name) };
        // Searches only the system folder: any user may have put a file of this name into the program's folder or the
        // current folder.
        #[cfg(windows)]
        // SAFETY: by this function's contract.
        let library = unsafe {
            use libloading::os::windows::{LOAD_LIBRARY_SEARCH_SYSTEM32, Library as System};
            System::load_with_flags(name, LOAD_LIBRARY_SEARCH_SYSTEM32).map(libloading::Library::from)
        };
        library.map(Library).map_err(|e| e.to_string())
    }

    /// Looks up a function by its name, which must end with a NUL; `None` if the library does not have it.
    ///
    /// # Safety
    /// `F` must be a pointer to a function with the signature of the symbol, and must not be used after the library is
    /// closed.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: by this function's contract.
        unsafe { self.0.get(name.as_bytes()) }.ok().map(|symbol| *symbol)
    }
}
