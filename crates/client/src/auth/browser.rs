//! Shows a person the page on which they sign in.
