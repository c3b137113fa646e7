//! Refusal of unsupported features.

/// Returns from the function with `0A000` if a condition holds: `refuse!(is_there => "the feature", …)`.
#[macro_export]
macro_rules! refuse {
    ($($is_there:expr => $what:expr),+ $(,)?) => {
        $(if $is_there {
            return Err($crate::error::SqlError::unsupported($what));
        })+
    };
}
