//! Servers that are configured for other hosts, in the words of this one.
