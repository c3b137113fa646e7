//! `SET`, `RESET` and `SHOW`: names and values of settings, modes of transactions.

use super::action::{Action, TransactionModes};
use crate::context::{value_of, zone_value};
use query::bind::{Binder, column_info};
use query::plan::ColumnInfo;
use statement::error::{SqlError, SqlResult};
use syntax::ast::{SetCommand, SetTarget, SettingName, TransactionMode};
use types::Kind;

/// Action of a `SET`.
///
/// # Errors
/// `22023`, `0A000`; those of an interval's value.
pub(super) fn set(binder: &Binder<'_>, command: &SetCommand) -> SqlResult<Action> {
    let SetCommand { is_local, target } = command;
    let is_local = *is_local;
    Ok(match target {
        SetTarget::Setting(name, values) => {
            let name = name.to_string();
            let value = value_of(&name, values)?;
            if name == "seed" {
                return Err(SqlError::unsupported("SET SEED"));
            }
            assignment(name, value, is_local)
        }
        SetTarget::FromCurrent(_) => return Err(SqlError::unsupported("SET FROM CURRENT")),
        // Modes of a transaction end with it, whatever scope is written.
        SetTarget::Transaction(modes) => Action::SetTransaction(modes_of(modes)),
        SetTarget::Characteristics(modes) => Action::SetCharacteristics(modes_of(modes)),
        SetTarget::TimeZone(zone) => {
            Action::Set { name: "timezone".to_owned(), value: zone_value(binder, zone.as_ref())?, is_local }
        }
    })
}

/// Action of a `RESET`.
pub(super) fn reset(name: &SettingName) -> Action {
    match name {
        SettingName::All => Action::ResetAll,
        SettingName::Named(name) => assignment(name.to_string(), None, false),
    }
}

fn assignment(name: String, value: Option<String>, is_local: bool) -> Action {
    Action::Set { name, value, is_local }
}

/// Action of a `SHOW`, and its columns.
pub(super) fn show(name: &SettingName) -> (Action, Option<Vec<ColumnInfo>>) {
    let text = |name: &str| column_info(name, Kind::Text.into());
    match name {
        SettingName::All => (Action::ShowAll, Some(vec![text("name"), text("setting"), text("description")])),
        SettingName::Named(name) => {
            let name = name.to_string();
            let title = text(settings::title(&name).unwrap_or(&name));
            (Action::Show(name), Some(vec![title]))
        }
    }
}

/// Modes of a transaction as names and values of settings.
pub(super) fn modes_of(modes: &[TransactionMode]) -> TransactionModes {
    let mode = |mode: &TransactionMode| match mode {
        TransactionMode::ReadUncommitted => ("transaction_isolation", "read uncommitted"),
        TransactionMode::ReadCommitted => ("transaction_isolation", "read committed"),
        TransactionMode::RepeatableRead => ("transaction_isolation", "repeatable read"),
        TransactionMode::Serializable => ("transaction_isolation", "serializable"),
        TransactionMode::ReadOnly => ("transaction_read_only", "on"),
        TransactionMode::ReadWrite => ("transaction_read_only", "off"),
        TransactionMode::Deferrable => ("transaction_deferrable", "on"),
        TransactionMode::NotDeferrable => ("transaction_deferrable", "off"),
    };
    modes.iter().map(mode).collect()
}
