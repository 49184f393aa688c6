//! The Lua scripts of Lockyard.
