//! What a fleet does, seen from outside.
