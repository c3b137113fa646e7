//! WebAssembly: the exports of a module, and the exchange area in its memory.
//!
//! **Invariant:** a module has one thread, and the server enters it only while no other call is inside. So nobody
//! reads the area while it is written.
#![allow(unsafe_code)]

#[cfg(target_arch = "wasm32")]
pub use exported::{area, invoke};

/// Defines what the server finds in the compiled code: exports and a section with the manifest in WebAssembly, `main`
/// in an executable.
#[doc(hidden)]
#[macro_export]
macro_rules! exports {
    ($module:ident) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "names that the server looks for")]
        mod overtake_exports {
            use super::$module;
            use $crate::module::Module;

            #[unsafe(no_mangle)]
            extern "C" fn overtake_area() -> i32 {
                $crate::wasm::area()
            }

            #[unsafe(no_mangle)]
            extern "C" fn overtake_invoke(entry: i32, len: i32) -> i32 {
                $crate::wasm::invoke::<$module>(entry, len)
            }

            const BYTES: &[u8] = $module::MANIFEST.as_bytes();

            #[used]
            #[unsafe(link_section = "overtake.manifest")]
            static MANIFEST: [u8; BYTES.len()] = match BYTES.first_chunk() {
                Some(bytes) => *bytes,
                None => panic!("an array of its own length"),
            };
        }

        #[cfg(target_arch = "wasm32")]
        fn main() {}

        #[cfg(not(target_arch = "wasm32"))]
        fn main() -> std::process::ExitCode {
            $crate::worker::<$module>()
        }
    };
}

#[cfg(target_arch = "wasm32")]
mod exported {
    use crate::bytes::AREA_BYTES;
    use crate::call::Host;
    use crate::error::{Error, Result};
    use crate::heap;
    use crate::module::{self, Module};
    use std::sync::Once;

    #[link(wasm_import_module = "overtake")]
    unsafe extern "C" {
        #[link_name = "call"]
        safe fn overtake_call(len: i32) -> i32;
    }

    static HOOK: Once = Once::new();

    /// Returns the address of the exchange area.
    pub fn area() -> i32 {
        heap::area() as usize as i32
    }

    /// Returns the first bytes of the area.
    ///
    /// # Safety
    /// They must not be used after the next [`write`] or call.
    unsafe fn read<'a>(len: i32) -> &'a [u8] {
        let len = usize::try_from(len).unwrap_or(0).min(AREA_BYTES);
        // SAFETY: the bytes lie within the area. Until the next write or call nobody changes them: the server is not
        // running.
        unsafe { std::slice::from_raw_parts(heap::area(), len) }
    }

    /// Writes bytes into the area, unless they are there already. Returns their number.
    #[inline]
    fn write(bytes: &[u8]) -> i32 {
        let (len, area) = (bytes.len().min(AREA_BYTES), heap::area());
        if bytes.as_ptr() != area {
            // SAFETY: the bytes fit the area, and are in another block; no reference to the area is used any more, and the
            // server is not running.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), area, len) };
        }
        len as i32
    }

    /// Database at the other side of the import. Whoever has it borrowed uses the area.
    struct Importer;

    impl Host for Importer {
        fn room(&mut self) -> Vec<u8> {
            // SAFETY: the area is a block of the allocator for so many bytes, and the allocator keeps it when the vector
            // ends or moves. An invocation asks for one vector, which it clears before it writes a request: what it has
            // read of the area before is not used any more.
            unsafe { Vec::from_raw_parts(heap::area(), 0, AREA_BYTES) }
        }

        #[inline]
        fn exchange(&mut self, request: &[u8]) -> Result<&[u8]> {
            // The server does not return after an error of a call: it drops the module.
            let len = overtake_call(write(request));
            // SAFETY: the answer is borrowed from the importer, without which there is no other call; and the result of
            // the invocation is written after its end. The hook of a panic makes a call of its own, after which nothing
            // reads the answer: the module is not entered again.
            Ok(unsafe { read(len) })
        }
    }

    /// Runs an entry with the arguments in the area. Returns the bytes of the result, or a negative number.
    pub fn invoke<M: Module>(entry: i32, len: i32) -> i32 {
        HOOK.call_once(|| {
            std::panic::set_hook(Box::new(|panic| {
                // The error ends the invocation, so the panic needs no trap of its own.
                // As the server tells the failure of a process.
                let error = Error::new("38000", format!("the routine failed: {panic}"));
                let _ = module::raise(&mut Importer, &error);
            }));
        });
        // SAFETY: the arguments are read before the first call.
        let arguments = module::Arguments::read(unsafe { read(len) });
        match module::invoke::<M>(&mut Importer, entry as u32, arguments) {
            Ok(result) => write(&result),
            Err(_) => -1,
        }
    }
}
