//! Where sign-ins are kept: one file that only its owner can read, written by one process at a time.
