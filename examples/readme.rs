//! Compiles the examples of the project's README as doc tests.

#![doc = include_str!("../README.md")]
