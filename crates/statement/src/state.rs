//! SQLSTATEs, by the names of PostgreSQL's manual (Appendix A).
//!
//! **Invariant:** no other file above the engine writes a code.

use locked::Locked;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

/// A five-character SQLSTATE.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl SqlState {
    /// `00000`
    pub const SUCCESSFUL_COMPLETION: SqlState = SqlState("00000");
    /// `01000`
    pub const WARNING: SqlState = SqlState("01000");
    /// `01006`
    pub const PRIVILEGE_NOT_REVOKED: SqlState = SqlState("01006");
    /// `01007`
    pub const PRIVILEGE_NOT_GRANTED: SqlState = SqlState("01007");
    /// `02000`
    pub const NO_DATA: SqlState = SqlState("02000");
    /// `08006`
    pub const CONNECTION_FAILURE: SqlState = SqlState("08006");
    /// `08007`
    pub const TRANSACTION_RESOLUTION_UNKNOWN: SqlState = SqlState("08007");
    /// `08P01`
    pub const PROTOCOL_VIOLATION: SqlState = SqlState("08P01");
    /// `0A000`
    pub const FEATURE_NOT_SUPPORTED: SqlState = SqlState("0A000");
    /// `0LP01`
    pub const INVALID_GRANT_OPERATION: SqlState = SqlState("0LP01");
    /// `21000`
    pub const CARDINALITY_VIOLATION: SqlState = SqlState("21000");
    /// `22000`
    pub const DATA_EXCEPTION: SqlState = SqlState("22000");
    /// `22001`
    pub const STRING_DATA_RIGHT_TRUNCATION: SqlState = SqlState("22001");
    /// `22003`
    pub const NUMERIC_VALUE_OUT_OF_RANGE: SqlState = SqlState("22003");
    /// `22004`
    pub const NULL_VALUE_NOT_ALLOWED: SqlState = SqlState("22004");
    /// `22007`
    pub const INVALID_DATETIME_FORMAT: SqlState = SqlState("22007");
    /// `22008`
    pub const DATETIME_FIELD_OVERFLOW: SqlState = SqlState("22008");
    /// `22009`
    pub const INVALID_TIME_ZONE_DISPLACEMENT_VALUE: SqlState = SqlState("22009");
    /// `2200C`
    pub const INVALID_USE_OF_ESCAPE_CHARACTER: SqlState = SqlState("2200C");
    /// `2200H`
    pub const SEQUENCE_GENERATOR_LIMIT_EXCEEDED: SqlState = SqlState("2200H");
    /// `22011`
    pub const SUBSTRING_ERROR: SqlState = SqlState("22011");
    /// `22012`
    pub const DIVISION_BY_ZERO: SqlState = SqlState("22012");
    /// `22013`
    pub const INVALID_PRECEDING_OR_FOLLOWING_SIZE: SqlState = SqlState("22013");
    /// `22014`
    pub const INVALID_ARGUMENT_FOR_NTILE_FUNCTION: SqlState = SqlState("22014");
    /// `22015`
    pub const INTERVAL_FIELD_OVERFLOW: SqlState = SqlState("22015");
    /// `22016`
    pub const INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION: SqlState = SqlState("22016");
    /// `2201B`
    pub const INVALID_REGULAR_EXPRESSION: SqlState = SqlState("2201B");
    /// `2201E`
    pub const INVALID_ARGUMENT_FOR_LOGARITHM: SqlState = SqlState("2201E");
    /// `2201F`
    pub const INVALID_ARGUMENT_FOR_POWER_FUNCTION: SqlState = SqlState("2201F");
    /// `2201G`
    pub const INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION: SqlState = SqlState("2201G");
    /// `2201W`
    pub const INVALID_ROW_COUNT_IN_LIMIT_CLAUSE: SqlState = SqlState("2201W");
    /// `2201X`
    pub const INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE: SqlState = SqlState("2201X");
    /// `22021`
    pub const CHARACTER_NOT_IN_REPERTOIRE: SqlState = SqlState("22021");
    /// `22023`
    pub const INVALID_PARAMETER_VALUE: SqlState = SqlState("22023");
    /// `22025`
    pub const INVALID_ESCAPE_SEQUENCE: SqlState = SqlState("22025");
    /// `2202E`
    pub const ARRAY_SUBSCRIPT_ERROR: SqlState = SqlState("2202E");
    /// `22P02`
    pub const INVALID_TEXT_REPRESENTATION: SqlState = SqlState("22P02");
    /// `22P03`
    pub const INVALID_BINARY_REPRESENTATION: SqlState = SqlState("22P03");
    /// `22P04`
    pub const BAD_COPY_FILE_FORMAT: SqlState = SqlState("22P04");
    /// `22P05`
    pub const UNTRANSLATABLE_CHARACTER: SqlState = SqlState("22P05");
    /// `23502`
    pub const NOT_NULL_VIOLATION: SqlState = SqlState("23502");
    /// `23503`
    pub const FOREIGN_KEY_VIOLATION: SqlState = SqlState("23503");
    /// `23505`
    pub const UNIQUE_VIOLATION: SqlState = SqlState("23505");
    /// `23514`
    pub const CHECK_VIOLATION: SqlState = SqlState("23514");
    /// `25001`
    pub const ACTIVE_SQL_TRANSACTION: SqlState = SqlState("25001");
    /// `25006`
    pub const READ_ONLY_SQL_TRANSACTION: SqlState = SqlState("25006");
    /// `25P01`
    pub const NO_ACTIVE_SQL_TRANSACTION: SqlState = SqlState("25P01");
    /// `25P02`
    pub const IN_FAILED_SQL_TRANSACTION: SqlState = SqlState("25P02");
    /// `25P03`
    pub const IDLE_IN_TRANSACTION_SESSION_TIMEOUT: SqlState = SqlState("25P03");
    /// `26000`
    pub const INVALID_SQL_STATEMENT_NAME: SqlState = SqlState("26000");
    /// `27000`
    pub const TRIGGERED_DATA_CHANGE: SqlState = SqlState("27000");
    /// `28000`
    pub const INVALID_AUTHORIZATION_SPECIFICATION: SqlState = SqlState("28000");
    /// `28P01`
    pub const INVALID_PASSWORD: SqlState = SqlState("28P01");
    /// `2BP01`
    pub const DEPENDENT_OBJECTS_STILL_EXIST: SqlState = SqlState("2BP01");
    /// `2D000`
    pub const INVALID_TRANSACTION_TERMINATION: SqlState = SqlState("2D000");
    /// `34000`
    pub const INVALID_CURSOR_NAME: SqlState = SqlState("34000");
    /// `38000`
    pub const EXTERNAL_ROUTINE_EXCEPTION: SqlState = SqlState("38000");
    /// `39000`
    pub const EXTERNAL_ROUTINE_INVOCATION_EXCEPTION: SqlState = SqlState("39000");
    /// `3B001`
    pub const INVALID_SAVEPOINT_SPECIFICATION: SqlState = SqlState("3B001");
    /// `3D000`
    pub const INVALID_CATALOG_NAME: SqlState = SqlState("3D000");
    /// `3F000`
    pub const INVALID_SCHEMA_NAME: SqlState = SqlState("3F000");
    /// `40000`
    pub const TRANSACTION_ROLLBACK: SqlState = SqlState("40000");
    /// `40001`
    pub const SERIALIZATION_FAILURE: SqlState = SqlState("40001");
    /// `40P01`
    pub const DEADLOCK_DETECTED: SqlState = SqlState("40P01");
    /// `42501`
    pub const INSUFFICIENT_PRIVILEGE: SqlState = SqlState("42501");
    /// `42601`
    pub const SYNTAX_ERROR: SqlState = SqlState("42601");
    /// `42602`
    pub const INVALID_NAME: SqlState = SqlState("42602");
    /// `42622`
    pub const NAME_TOO_LONG: SqlState = SqlState("42622");
    /// `42701`
    pub const DUPLICATE_COLUMN: SqlState = SqlState("42701");
    /// `42702`
    pub const AMBIGUOUS_COLUMN: SqlState = SqlState("42702");
    /// `42703`
    pub const UNDEFINED_COLUMN: SqlState = SqlState("42703");
    /// `42704`
    pub const UNDEFINED_OBJECT: SqlState = SqlState("42704");
    /// `42710`
    pub const DUPLICATE_OBJECT: SqlState = SqlState("42710");
    /// `42712`
    pub const DUPLICATE_ALIAS: SqlState = SqlState("42712");
    /// `42723`
    pub const DUPLICATE_FUNCTION: SqlState = SqlState("42723");
    /// `42725`
    pub const AMBIGUOUS_FUNCTION: SqlState = SqlState("42725");
    /// `42803`
    pub const GROUPING_ERROR: SqlState = SqlState("42803");
    /// `42804`
    pub const DATATYPE_MISMATCH: SqlState = SqlState("42804");
    /// `42809`
    pub const WRONG_OBJECT_TYPE: SqlState = SqlState("42809");
    /// `42830`
    pub const INVALID_FOREIGN_KEY: SqlState = SqlState("42830");
    /// `42846`
    pub const CANNOT_COERCE: SqlState = SqlState("42846");
    /// `42883`
    pub const UNDEFINED_FUNCTION: SqlState = SqlState("42883");
    /// `428C9`
    pub const GENERATED_ALWAYS: SqlState = SqlState("428C9");
    /// `42939`
    pub const RESERVED_NAME: SqlState = SqlState("42939");
    /// `42P01`
    pub const UNDEFINED_TABLE: SqlState = SqlState("42P01");
    /// `42P02`
    pub const UNDEFINED_PARAMETER: SqlState = SqlState("42P02");
    /// `42P03`
    pub const DUPLICATE_CURSOR: SqlState = SqlState("42P03");
    /// `42P05`
    pub const DUPLICATE_PREPARED_STATEMENT: SqlState = SqlState("42P05");
    /// `42P06`
    pub const DUPLICATE_SCHEMA: SqlState = SqlState("42P06");
    /// `42P07`
    pub const DUPLICATE_TABLE: SqlState = SqlState("42P07");
    /// `42P08`
    pub const AMBIGUOUS_PARAMETER: SqlState = SqlState("42P08");
    /// `42P09`
    pub const AMBIGUOUS_ALIAS: SqlState = SqlState("42P09");
    /// `42P10`
    pub const INVALID_COLUMN_REFERENCE: SqlState = SqlState("42P10");
    /// `42P11`
    pub const INVALID_CURSOR_DEFINITION: SqlState = SqlState("42P11");
    /// `42P13`
    pub const INVALID_FUNCTION_DEFINITION: SqlState = SqlState("42P13");
    /// `42P16`
    pub const INVALID_TABLE_DEFINITION: SqlState = SqlState("42P16");
    /// `42P17`
    pub const INVALID_OBJECT_DEFINITION: SqlState = SqlState("42P17");
    /// `42P18`
    pub const INDETERMINATE_DATATYPE: SqlState = SqlState("42P18");
    /// `42P19`
    pub const INVALID_RECURSION: SqlState = SqlState("42P19");
    /// `42P20`
    pub const WINDOWING_ERROR: SqlState = SqlState("42P20");
    /// `53000`
    pub const INSUFFICIENT_RESOURCES: SqlState = SqlState("53000");
    /// `53200`
    pub const OUT_OF_MEMORY: SqlState = SqlState("53200");
    /// `53300`
    pub const TOO_MANY_CONNECTIONS: SqlState = SqlState("53300");
    /// `53400`
    pub const CONFIGURATION_LIMIT_EXCEEDED: SqlState = SqlState("53400");
    /// `54000`
    pub const PROGRAM_LIMIT_EXCEEDED: SqlState = SqlState("54000");
    /// `54001`
    pub const STATEMENT_TOO_COMPLEX: SqlState = SqlState("54001");
    /// `54011`
    pub const TOO_MANY_COLUMNS: SqlState = SqlState("54011");
    /// `54023`
    pub const TOO_MANY_ARGUMENTS: SqlState = SqlState("54023");
    /// `55000`
    pub const OBJECT_NOT_IN_PREREQUISITE_STATE: SqlState = SqlState("55000");
    /// `55006`
    pub const OBJECT_IN_USE: SqlState = SqlState("55006");
    /// `55P02`
    pub const CANT_CHANGE_RUNTIME_PARAM: SqlState = SqlState("55P02");
    /// `55P03`
    pub const LOCK_NOT_AVAILABLE: SqlState = SqlState("55P03");
    /// `57014`
    pub const QUERY_CANCELED: SqlState = SqlState("57014");
    /// `57P01`
    pub const ADMIN_SHUTDOWN: SqlState = SqlState("57P01");
    /// `57P02`
    pub const CRASH_SHUTDOWN: SqlState = SqlState("57P02");
    /// `57P03`
    pub const CANNOT_CONNECT_NOW: SqlState = SqlState("57P03");
    /// `57P04`
    pub const DATABASE_DROPPED: SqlState = SqlState("57P04");
    /// `57P05`
    pub const IDLE_SESSION_TIMEOUT: SqlState = SqlState("57P05");
    /// `F0000`
    pub const CONFIG_FILE_ERROR: SqlState = SqlState("F0000");
    /// `P0001`
    pub const RAISE_EXCEPTION: SqlState = SqlState("P0001");
    /// `XX000`
    pub const INTERNAL_ERROR: SqlState = SqlState("XX000");
}

impl SqlState {
    /// All codes of this file, in their order.
    const ALL: &[SqlState] = &[
        SqlState::SUCCESSFUL_COMPLETION,
        SqlState::WARNING,
        SqlState::PRIVILEGE_NOT_REVOKED,
        SqlState::PRIVILEGE_NOT_GRANTED,
        SqlState::NO_DATA,
        SqlState::CONNECTION_FAILURE,
        SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
        SqlState::PROTOCOL_VIOLATION,
        SqlState::FEATURE_NOT_SUPPORTED,
        SqlState::INVALID_GRANT_OPERATION,
        SqlState::CARDINALITY_VIOLATION,
        SqlState::DATA_EXCEPTION,
        SqlState::STRING_DATA_RIGHT_TRUNCATION,
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        SqlState::NULL_VALUE_NOT_ALLOWED,
        SqlState::INVALID_DATETIME_FORMAT,
        SqlState::DATETIME_FIELD_OVERFLOW,
        SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
        SqlState::INVALID_USE_OF_ESCAPE_CHARACTER,
        SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        SqlState::SUBSTRING_ERROR,
        SqlState::DIVISION_BY_ZERO,
        SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE,
        SqlState::INVALID_ARGUMENT_FOR_NTILE_FUNCTION,
        SqlState::INTERVAL_FIELD_OVERFLOW,
        SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION,
        SqlState::INVALID_REGULAR_EXPRESSION,
        SqlState::INVALID_ARGUMENT_FOR_LOGARITHM,
        SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
        SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION,
        SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE,
        SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE,
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        SqlState::INVALID_PARAMETER_VALUE,
        SqlState::INVALID_ESCAPE_SEQUENCE,
        SqlState::ARRAY_SUBSCRIPT_ERROR,
        SqlState::INVALID_TEXT_REPRESENTATION,
        SqlState::INVALID_BINARY_REPRESENTATION,
        SqlState::BAD_COPY_FILE_FORMAT,
        SqlState::UNTRANSLATABLE_CHARACTER,
        SqlState::NOT_NULL_VIOLATION,
        SqlState::FOREIGN_KEY_VIOLATION,
        SqlState::UNIQUE_VIOLATION,
        SqlState::CHECK_VIOLATION,
        SqlState::ACTIVE_SQL_TRANSACTION,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::NO_ACTIVE_SQL_TRANSACTION,
        SqlState::IN_FAILED_SQL_TRANSACTION,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::TRIGGERED_DATA_CHANGE,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INVALID_PASSWORD,
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        SqlState::INVALID_TRANSACTION_TERMINATION,
        SqlState::INVALID_CURSOR_NAME,
        SqlState::EXTERNAL_ROUTINE_EXCEPTION,
        SqlState::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION,
        SqlState::INVALID_SAVEPOINT_SPECIFICATION,
        SqlState::INVALID_CATALOG_NAME,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::TRANSACTION_ROLLBACK,
        SqlState::SERIALIZATION_FAILURE,
        SqlState::DEADLOCK_DETECTED,
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::SYNTAX_ERROR,
        SqlState::INVALID_NAME,
        SqlState::NAME_TOO_LONG,
        SqlState::DUPLICATE_COLUMN,
        SqlState::AMBIGUOUS_COLUMN,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_OBJECT,
        SqlState::DUPLICATE_OBJECT,
        SqlState::DUPLICATE_ALIAS,
        SqlState::DUPLICATE_FUNCTION,
        SqlState::AMBIGUOUS_FUNCTION,
        SqlState::GROUPING_ERROR,
        SqlState::DATATYPE_MISMATCH,
        SqlState::WRONG_OBJECT_TYPE,
        SqlState::INVALID_FOREIGN_KEY,
        SqlState::CANNOT_COERCE,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::GENERATED_ALWAYS,
        SqlState::RESERVED_NAME,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_PARAMETER,
        SqlState::DUPLICATE_CURSOR,
        SqlState::DUPLICATE_PREPARED_STATEMENT,
        SqlState::DUPLICATE_SCHEMA,
        SqlState::DUPLICATE_TABLE,
        SqlState::AMBIGUOUS_PARAMETER,
        SqlState::AMBIGUOUS_ALIAS,
        SqlState::INVALID_COLUMN_REFERENCE,
        SqlState::INVALID_CURSOR_DEFINITION,
        SqlState::INVALID_FUNCTION_DEFINITION,
        SqlState::INVALID_TABLE_DEFINITION,
        SqlState::INVALID_OBJECT_DEFINITION,
        SqlState::INDETERMINATE_DATATYPE,
        SqlState::INVALID_RECURSION,
        SqlState::WINDOWING_ERROR,
        SqlState::INSUFFICIENT_RESOURCES,
        SqlState::OUT_OF_MEMORY,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::CONFIGURATION_LIMIT_EXCEEDED,
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        SqlState::STATEMENT_TOO_COMPLEX,
        SqlState::TOO_MANY_COLUMNS,
        SqlState::TOO_MANY_ARGUMENTS,
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        SqlState::OBJECT_IN_USE,
        SqlState::CANT_CHANGE_RUNTIME_PARAM,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::DATABASE_DROPPED,
        SqlState::IDLE_SESSION_TIMEOUT,
        SqlState::CONFIG_FILE_ERROR,
        SqlState::RAISE_EXCEPTION,
        SqlState::INTERNAL_ERROR,
    ];

    /// Returns the code that is written so, if it is one of this file.
    pub fn of_code(code: &str) -> Option<SqlState> {
        let place = SqlState::ALL.binary_search_by_key(&code, |state| state.0).ok()?;
        SqlState::ALL.get(place).copied()
    }

    /// Returns the code that a routine raises: one of this file, or one of its own, of five digits and upper-case
    /// letters. `None` for any other text, and for a code beyond the first 4,096 that the process has met: each is kept
    /// until its end.
    pub fn raised(code: &str) -> Option<SqlState> {
        /// Greatest number of codes that are kept.
        const KEPT_MAX: usize = 4_096;
        static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        if let Some(known) = SqlState::of_code(code) {
            return Some(known);
        }
        let is_sign = |sign: u8| sign.is_ascii_digit() || sign.is_ascii_uppercase();
        if code.len() != 5 || !code.bytes().all(is_sign) {
            return None;
        }
        let mut kept = KEPT.locked_anyway();
        if let Some(kept) = kept.get(code) {
            return Some(SqlState(kept));
        }
        if KEPT_MAX <= kept.len() {
            return None;
        }
        let code: &'static str = Box::leak(code.into());
        kept.insert(code);
        Some(SqlState(code))
    }

    /// Returns the class of the code: its first two characters.
    pub fn class(self) -> &'static str {
        &self.0[..2]
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_found() {
        assert!(SqlState::ALL.is_sorted_by_key(|state| state.0));
        assert!(SqlState::ALL.iter().all(|state| SqlState::of_code(state.0) == Some(*state)));
        assert_eq!(SqlState::of_code("99999"), None);
    }

    #[test]
    fn routines_raise_codes_of_their_own() {
        assert_eq!(SqlState::raised("23505"), Some(SqlState::UNIQUE_VIOLATION));
        assert_eq!(SqlState::raised("OT001").map(|state| state.0), Some("OT001"));
        assert_eq!(SqlState::raised("OT001"), SqlState::raised("OT001"));
        for wrong in ["", "OT01", "ot001", "OT0010", "OT 01", "ÄT01"] {
            assert_eq!(SqlState::raised(wrong), None, "{wrong}");
        }
    }
}
