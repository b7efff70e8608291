//! The times of a lock: ttl, wait, and minimum and maximum hold.

use std::time::Duration;

use syn::{Error, Expr, ExprLit, Lit, Result};

use crate::args::{Args, string, ungroup};
use crate::duration::{self, written};
use crate::errors::{all, both, message};

pub(crate) struct Times {
    pub(crate) ttl: Time,
    pub(crate) wait: Option<Wait>,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Time>,
    pub(crate) min_hold: Option<Time>,
}

pub(crate) enum Time {
    Literal(Duration),
    Expr(Box<Expr>),
}

pub(crate) enum Wait {
    Limit(Time),
    Forever,
}

/// The shortest duration of a literal, and the help for durations below it or above `MAX`.
struct Limits {
    min: Duration,
    below: &'static str,
    above: &'static str,
}

const MAX: Duration = Duration::from_secs(24 * 60 * 60);

const TTL: Limits = Limits {
    min: Duration::from_millis(250),
    below: "a shorter lease leaves no time for renewal; with `renew = false`, `100ms` is enough",
    above: "write a short `ttl`, such as \"30s\": the lease is renewed while the body runs",
};

const TTL_NOT_RENEWED: Limits = Limits {
    min: Duration::from_millis(100),
    below: "a shorter lease could end before the reply of the server arrives",
    above: "remove `renew = false`, so that a short `ttl`, such as \"30s\", is renewed",
};

const HOLD: Limits = Limits {
    min: Duration::from_millis(1),
    below: "remove it, or write a longer duration",
    above: "remove it, or use an expression of type `Duration`",
};

const WAIT: Limits = Limits {
    min: Duration::ZERO,
    above: "write `wait = \"forever\"` to wait without limit",
    ..HOLD
};

impl Times {
    /// Checks the times among the arguments; `ttl` is the argument of that name.
    pub(crate) fn check(ttl: &Expr, args: &Args) -> Result<Self> {
        let renew = args.renew.as_ref().map_or(Ok(true), renew);
        let ttl = time("ttl", ttl, if let Ok(false) = renew { &TTL_NOT_RENEWED } else { &TTL });
        let wait = args.wait.as_ref().map(wait).transpose();
        let hold = |name, value: &Option<Expr>| {
            value.as_ref().map(|value| time(name, value, &HOLD)).transpose()
        };
        let holds = both(hold("max_hold", &args.max_hold), hold("min_hold", &args.min_hold));
        let ((ttl, wait), (renew, (max_hold, min_hold))) =
            both(both(ttl, wait), both(renew, holds))?;
        let times = Self { ttl, wait, renew, max_hold, min_hold };
        times.contradictions(args)?;
        Ok(times)
    }

    /// Reports literals that contradict each other.
    fn contradictions(&self, args: &Args) -> Result<()> {
        let ttl = self.ttl.literal();
        let max_hold = self.max_hold.as_ref().and_then(Time::literal);
        let min_hold = self.min_hold.as_ref().and_then(Time::literal);
        let too_long = |name, limit: Option<Duration>| match (min_hold, limit) {
            (Some(min_hold), Some(limit)) if min_hold > limit => {
                let wrong = format_args!("`min_hold` is longer than `{name}`");
                let help = format_args!("write at most `min_hold = \"{}\"`", written(limit));
                Err(Error::new_spanned(&args.min_hold, message(wrong, help)))
            }
            _ => Ok(()),
        };
        let never_reached = match (max_hold, ttl) {
            (Some(max_hold), Some(ttl)) if !self.renew && max_hold >= ttl => {
                let wrong =
                    "`max_hold` is never reached: without renewal, the lock ends after its `ttl`";
                let help = "remove `max_hold` or `renew = false`";
                Err(Error::new_spanned(&args.max_hold, message(wrong, help)))
            }
            _ => Ok(()),
        };
        all([never_reached, too_long("ttl", ttl), too_long("max_hold", max_hold)])?;
        Ok(())
    }
}

impl Time {
    fn literal(&self) -> Option<Duration> {
        match self {
            Self::Literal(duration) => Some(*duration),
            Self::Expr(_) => None,
        }
    }
}

fn time(name: &str, value: &Expr, limits: &Limits) -> Result<Time> {
    let Some(lit) = string(value, &format!("{name} = \"30s\""))? else {
        return Ok(Time::Expr(Box::new(value.clone())));
    };
    let text = lit.value();
    let message = match duration::parse(&text) {
        Ok(duration) if duration < limits.min => {
            let min = written(limits.min);
            message(format_args!("`{name}` must be at least `{min}`"), limits.below)
        }
        Ok(duration) if duration > MAX => {
            let max = written(MAX);
            message(format_args!("`{name}` must be at most `{max}`"), limits.above)
        }
        Ok(duration) => return Ok(Time::Literal(duration)),
        Err(_) if text == "forever" => {
            message(format_args!("`{name}` cannot be \"forever\""), limits.above)
        }
        Err(message) => message,
    };
    Err(Error::new(lit.span(), message))
}

fn wait(value: &Expr) -> Result<Wait> {
    match string(value, "wait = \"2s\"")? {
        Some(lit) if lit.value() == "forever" => Ok(Wait::Forever),
        _ => time("wait", value, &WAIT).map(Wait::Limit),
    }
}

fn renew(value: &Expr) -> Result<bool> {
    if let Expr::Lit(ExprLit { lit: Lit::Bool(lit), .. }) = ungroup(value) {
        return Ok(lit.value);
    }
    let help = "write `renew = false` to let the lock end after its `ttl`";
    Err(Error::new_spanned(value, message("`renew` must be `true` or `false`", help)))
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::{ToTokens as _, quote};
    use syn::parse2;

    use super::*;

    fn check(args: TokenStream) -> Result<Times> {
        let args: Args = parse2(args)?;
        Times::check(args.ttl.as_ref().unwrap(), &args)
    }

    fn wrong(args: TokenStream) -> Vec<String> {
        let errors = check(args).err().unwrap().into_iter().map(|error| error.to_string());
        errors.map(|error| error.lines().next().unwrap().to_owned()).collect()
    }

    fn millis(time: &Time) -> u128 {
        time.literal().unwrap().as_millis()
    }

    #[test]
    fn parses_literals_as_durations() {
        let times = check(quote! {
            ttl = "30s", wait = "2s", renew = true, max_hold = "5m", min_hold = "500ms"
        });
        let times = times.unwrap();
        assert_eq!(millis(&times.ttl), 30_000);
        assert!(matches!(&times.wait, Some(Wait::Limit(limit)) if millis(limit) == 2_000));
        assert!(times.renew);
        assert_eq!(millis(&times.max_hold.unwrap()), 300_000);
        assert_eq!(millis(&times.min_hold.unwrap()), 500);
    }

    #[test]
    fn keeps_expressions_as_written() {
        let times = check(quote!(ttl = TTL, wait = self.wait, max_hold = 2 * TTL)).unwrap();
        let Some(Wait::Limit(wait)) = times.wait else { panic!("no limit") };
        let shown = |time| match time {
            Time::Expr(expr) => expr.to_token_stream().to_string(),
            Time::Literal(duration) => panic!("the literal {duration:?}"),
        };
        let times = [times.ttl, wait, times.max_hold.unwrap()];
        assert_eq!(times.map(shown), ["TTL", "self . wait", "2 * TTL"]);
    }

    #[test]
    fn accepts_zero_and_forever_only_for_a_wait() {
        let times = check(quote!(ttl = "5s", wait = "0s")).unwrap();
        assert!(matches!(&times.wait, Some(Wait::Limit(limit)) if millis(limit) == 0));
        let times = check(quote!(ttl = "5s", wait = "forever")).unwrap();
        assert!(matches!(times.wait, Some(Wait::Forever)));
        assert_eq!(
            wrong(quote!(ttl = "forever", max_hold = "0ms", min_hold = "forever")),
            [
                "`ttl` cannot be \"forever\"",
                "`max_hold` must be at least `1ms`",
                "`min_hold` cannot be \"forever\"",
            ]
        );
    }

    #[test]
    fn refuses_a_ttl_too_short_to_renew() {
        assert!(check(quote!(ttl = "250ms")).is_ok());
        assert!(check(quote!(ttl = "100ms", renew = false)).is_ok());
        assert_eq!(wrong(quote!(ttl = "249ms")), ["`ttl` must be at least `250ms`"]);
        assert_eq!(wrong(quote!(ttl = "249ms", renew = true)), ["`ttl` must be at least `250ms`"]);
        assert_eq!(wrong(quote!(ttl = "99ms", renew = false)), ["`ttl` must be at least `100ms`"]);
        assert_eq!(wrong(quote!(ttl = "0s")), ["`ttl` must be at least `250ms`"]);
    }

    #[test]
    fn refuses_literals_longer_than_a_day() {
        assert!(check(quote!(ttl = "24h", wait = "24h", max_hold = "24h")).is_ok());
        assert_eq!(wrong(quote!(ttl = "24h1ms")), ["`ttl` must be at most `24h`"]);
        assert_eq!(
            wrong(quote!(ttl = "9223372036854775807s", wait = "99999999999999999999s")),
            ["`ttl` must be at most `24h`", "`wait` must be at most `24h`"]
        );
    }

    #[test]
    fn refuses_literals_of_another_kind() {
        assert_eq!(
            wrong(quote!(ttl = 30, wait = true, renew = "false", max_hold = 1.5)),
            [
                "expected a string, found `30`",
                "expected a string, found `true`",
                "`renew` must be `true` or `false`",
                "expected a string, found `1.5`",
            ]
        );
    }

    #[test]
    fn refuses_literals_that_contradict_each_other() {
        assert_eq!(
            wrong(quote!(ttl = "5s", max_hold = "6s", min_hold = "7s")),
            ["`min_hold` is longer than `ttl`", "`min_hold` is longer than `max_hold`"]
        );
        assert_eq!(
            wrong(quote!(ttl = "5s", renew = false, max_hold = "5s")),
            ["`max_hold` is never reached: without renewal, the lock ends after its `ttl`"]
        );
        assert!(check(quote!(ttl = "5s", max_hold = "5s", min_hold = "5s")).is_ok());
        assert!(check(quote!(ttl = "5s", renew = false, max_hold = "4999ms")).is_ok());
        assert!(check(quote!(ttl = TTL, renew = false, min_hold = "9s", max_hold = "9s")).is_ok());
    }
}
