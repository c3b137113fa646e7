//! Procedure that interrupts queries, for WebAssembly.

use guest::{Call, Error, Result, module};

module! {
    tables { KEY_VALUE: "glass_kv" (k, v); }
    entries { touch; }
}

/// Adds one to the value of a key.
fn touch(call: &mut Call) -> Result<()> {
    let key = call.argument::<i32>(0)?;
    let row = call.get_for_update(KEY_VALUE, key)?.ok_or_else(|| Error::new("P0002", "the row does not exist"))?;
    call.put(KEY_VALUE, (key, row.get::<i32>(1)? + 1))
}
