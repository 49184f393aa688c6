//! lockyard-lock.
