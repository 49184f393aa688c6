//! What a script's error becomes: the text of a reply, and what the script itself sees when it catches one.

use lockyard_core::__private::Script;
use lockyard_core::ServerError;
use mlua::{Error, Lua, Value};

use crate::refusal::Refusal;

/// What `pcall` gives a script.
pub(crate) fn caught(lua: &Lua, fault: Value) -> mlua::Result<Value> {
    match fault {
        // mlua's form of an error on our side of a call.
        Value::Error(error) => lua.create_string(text(&error)).map(Value::String),
        Value::Table(table) => {
            let text: Value = table.raw_get("err")?;
            let is_error = matches!(text, Value::String(_));
            Ok(if is_error { text } else { Value::Table(table) })
        }
        other => Ok(other),
    }
}

/// The reply to a script that ended with an error.
pub(crate) fn of_script(error: &Error, script: &Script) -> ServerError {
    let text = text(error);
    let place =
        line(error).map(|line| format!(" script: {}, on @user_script:{line}.", script.sha()));
    ServerError::new(text + &place.unwrap_or_default())
}

/// The reply to a script that is no Lua.
pub(crate) fn of_compiling(error: &Error) -> ServerError {
    let text = match error {
        Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    ServerError::new(format!("ERR Error compiling script (new function): {text}"))
}

fn text(error: &Error) -> String {
    match (error.downcast_ref::<Refusal>(), error) {
        (Some(refusal), _) => refusal.to_string(),
        (None, Error::CallbackError { cause, .. }) => text(cause),
        (None, Error::RuntimeError(text)) => {
            let (message, _) = text.split_once(TRACEBACK).unwrap_or((text, ""));
            format!("ERR {message}")
        }
        (None, other) => format!("ERR {other}"),
    }
}

const TRACEBACK: &str = "\nstack traceback:";

/// The line of the script that was running.
fn line(error: &Error) -> Option<u32> {
    let traceback = match error {
        Error::CallbackError { traceback, .. } => traceback,
        Error::RuntimeError(text) => text.split_once(TRACEBACK)?.1,
        _ => return None,
    };
    let (_, place) = traceback.split_once("user_script:")?;
    let (line, _) = place.split_once(':')?;
    line.parse().ok()
}
