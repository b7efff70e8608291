//! The queue on Redis, and a majority of independent servers: what they do, and what follows from it for
//! their clients.

mod bugs;
mod client;
mod protocol;
mod random;
mod redlock;
mod reference;
mod scripts;
mod steps;
mod world;
