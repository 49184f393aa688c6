//! lockyard-testkit.
