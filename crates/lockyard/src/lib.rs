//! lockyard.
