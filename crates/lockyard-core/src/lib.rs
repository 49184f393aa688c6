//! lockyard-core.
