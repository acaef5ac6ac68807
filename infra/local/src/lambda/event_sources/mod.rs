//! Event source mappings.
