//! Lua scripts, which Redis runs atomically.

use std::sync::OnceLock;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use super::fault;
use super::line::{Line, Written};
use crate::store::StoreError;

/// A script, which names all keys that it uses.
#[derive(Debug)]
pub(in crate::store) struct Script {
    code: &'static str,
    hash: OnceLock<String>,
}

impl Script {
    pub(in crate::store) const fn new(code: &'static str) -> Self {
        Self { code, hash: OnceLock::new() }
    }

    /// Runs the script.
    pub(in crate::store) async fn call(
        &self,
        line: &Line,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Value, StoreError> {
        match line.call(&self.command(line, keys, args)).await {
            Err(error) if fault::is_script_unknown(&error) => {
                line.call(&self.in_full(keys, args)).await
            }
            answer => answer,
        }
    }

    /// Runs the script and has what it writes acknowledged, as [`Line::call_replicated`] does.
    pub(super) async fn call_replicated(
        &self,
        line: &Line,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Written, StoreError> {
        match line.call_replicated(self.command(line, keys, args)).await {
            Err(error) if fault::is_script_unknown(&error) => {
                line.call_replicated(self.in_full(keys, args)).await
            }
            answer => answer,
        }
    }

    /// Runs the script for many keys at once, and answers for each, as
    /// [`Line::call_each_replicated`] does.
    pub(super) async fn call_each_replicated<'a, const N: usize>(
        &self,
        line: &Line,
        calls: impl Iterator<Item = (&'a str, [&'a [u8]; N])> + Clone,
        patience: Duration,
    ) -> Result<Vec<Result<Written, StoreError>>, StoreError> {
        let mut commands = Pipeline::new();
        for (key, args) in calls.clone() {
            commands.add_command(self.command(line, &[key], &args[..]));
        }
        let mut answers = line.call_each_replicated(commands, patience).await?;
        for (answer, (key, args)) in answers.iter_mut().zip(calls) {
            if answer.as_ref().is_err_and(fault::is_script_unknown) {
                *answer = line.call_replicated(self.in_full(&[key], &args)).await;
            }
        }
        Ok(answers)
    }

    /// The first time on a line in full, because the server may be new, and a renewal may have no time
    /// for two round trips; what is sent behind that finds the script known.
    fn command(&self, line: &Line, keys: &[&str], args: &[&[u8]]) -> Cmd {
        if line.is_first_call(self.code) {
            return self.in_full(keys, args);
        }
        let hash = self.hash.get_or_init(|| redis::Script::new(self.code).get_hash().to_owned());
        command("EVALSHA", hash, keys, args)
    }

    /// Also teaches the server the script.
    fn in_full(&self, keys: &[&str], args: &[&[u8]]) -> Cmd {
        command("EVAL", self.code, keys, args)
    }
}

fn command(name: &str, script: &str, keys: &[&str], args: &[&[u8]]) -> Cmd {
    let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), 256);
    command.arg(name).arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}
