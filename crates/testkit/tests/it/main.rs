//! The scripted server as a child.
