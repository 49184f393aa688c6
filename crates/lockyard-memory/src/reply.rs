//! What a script returns becomes a reply, by Redis's rules.

use bytes::Bytes;
use lockyard_core::__private::Reply;
use lockyard_core::ServerError;
use mlua::Value;

/// The reply, or the error that the script returns as `{err = …}`.
pub(crate) fn from_lua(value: &Value) -> mlua::Result<Result<Reply, ServerError>> {
    Ok(Ok(match value {
        Value::String(text) => Reply::Text(Bytes::copy_from_slice(&text.as_bytes())),
        Value::Integer(number) => Reply::Number(*number),
        // A fraction is cut off.
        Value::Number(number) => Reply::Number(*number as i64),
        Value::Boolean(true) => Reply::Number(1),
        Value::Table(table) => {
            if let Value::String(text) = table.raw_get("err")? {
                return Ok(Err(ServerError::new(text.to_string_lossy())));
            }
            if let Value::String(_) = table.raw_get("ok")? {
                return Ok(Ok(Reply::Other));
            }
            let mut elements = Vec::with_capacity(table.raw_len());
            // They end at the first nil.
            for element in table.sequence_values::<Value>() {
                elements.push(from_lua(&element?)?.unwrap_or(Reply::Other));
            }
            Reply::Array(elements)
        }
        _ => Reply::Other,
    }))
}
