//! Waits on the loopback interface for the browser to come back from a sign-in.
