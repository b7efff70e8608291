//! The lock in applications: with web frameworks, and with data stores that compare fences.

mod fence;
mod frameworks;
mod support;
mod web;
