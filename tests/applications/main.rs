//! What applications put beside the lock: web frameworks, and data stores that compare fences.

mod fence;
mod frameworks;
mod support;
mod web;
