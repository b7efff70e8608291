//! The future of a locked function: its size, its runtimes, its callers.

use std::future::Future;
use std::pin::Pin;

use lock_runtime::redis_lock;

use super::support::{AppError, Shop, holding, locking, tick, work};

#[redis_lock(key = "dbl:<id>", ttl = "5s")]
async fn double(id: u32) -> Result<u32, AppError> {
    tick().await;
    Ok(id * 2)
}
fn go() -> tokio::task::JoinHandle<Result<u32, AppError>> {
    tokio::spawn(double(3))
}

#[tokio::test]
async fn is_send_and_static() {
    assert_eq!(locking("dbl:3", async { go().await.unwrap() }).await.unwrap(), 6);
}

#[allow(clippy::large_types_passed_by_value)] // the point of the test
#[redis_lock(key = "big:<id>", ttl = "5s")]
async fn big(id: u64, buf: [u8; 8192]) -> Result<u64, AppError> {
    tick().await;
    Ok(u64::from(buf[0]) + id)
}

/// The same body without the attribute, with it, with a lease, and with two attributes.
mod sizes {
    use super::{AppError, redis_lock, tick};

    pub(super) async fn plain<const N: usize>(id: u64, buf: [u8; N]) -> Result<u64, AppError> {
        tick().await;
        Ok(u64::from(buf[0]) + id)
    }
    #[redis_lock(key = "big:<id>", ttl = "5s")]
    pub(super) async fn locked<const N: usize>(id: u64, buf: [u8; N]) -> Result<u64, AppError> {
        tick().await;
        Ok(u64::from(buf[0]) + id)
    }
    #[redis_lock(key = "big:<id>", ttl = "5s", lease = held)]
    pub(super) async fn leased<const N: usize>(id: u64, buf: [u8; N]) -> Result<u64, AppError> {
        tick().await;
        Ok(u64::from(buf[0]) + id + u64::from(held.is_lost()))
    }
    #[redis_lock(key = "big:<id>", ttl = "5s")]
    #[redis_lock(key = "bigger:<id>", ttl = "5s")]
    pub(super) async fn twice<const N: usize>(id: u64, buf: [u8; N]) -> Result<u64, AppError> {
        tick().await;
        Ok(u64::from(buf[0]) + id)
    }

    /// Returns the additional size of the last three futures, compared with the first.
    pub(super) fn surplus<const N: usize>() -> [usize; 3] {
        let buf = [0; N];
        let locked = [
            size_of_val(&locked(1, buf)),
            size_of_val(&leased(1, buf)),
            size_of_val(&twice(1, buf)),
        ];
        locked.map(|size| size - size_of_val(&plain(1, buf)))
    }
}

#[tokio::test]
async fn adds_little_to_the_size_of_the_future() {
    let [locked, leased, twice] = sizes::surplus::<8>();
    let large = sizes::surplus::<8192>();
    println!("one lock +{locked}, a lease +{leased}, two locks +{twice}; with 8 KiB {large:?}");
    assert!(locked <= 120 && leased <= 136, "{locked}, {leased}");
    assert_eq!(large[..2], [locked, leased]);
    // Each lock has its own body, which stores the arguments.
    assert!(large[2] <= twice + 8192, "{large:?}");

    let unlocked = size_of_val(&sizes::plain(1, [0; 8192]));
    assert!(size_of_val(&big(1, [0; 8192])) <= unlocked + 2048);
    assert_eq!(holding("big:1", Box::pin(big(1, [1; 8192]))).await.unwrap(), 2);
}

#[redis_lock(key = "clo:<id>", ttl = "5s")]
async fn closures(id: u64) -> Result<u64, AppError> {
    let f = async |n: u64| work(n).await;
    f(id).await
}

#[tokio::test]
async fn accepts_new_syntax_in_the_body() {
    assert_eq!(holding("clo:1", closures(1)).await.unwrap(), 1);
}

#[redis_lock(key = "rc:<id>", ttl = "5s")]
async fn single(id: u64) -> Result<u64, AppError> {
    let n = std::rc::Rc::new(id);
    tick().await;
    Ok(*n)
}

#[tokio::test(flavor = "current_thread")]
async fn runs_on_one_thread() {
    assert_eq!(holding("rc:1", single(1)).await.unwrap(), 1);
    let local = tokio::task::LocalSet::new();
    let call = local.run_until(async { tokio::task::spawn_local(single(2)).await.unwrap() });
    assert_eq!(locking("rc:2", call).await.unwrap(), 2);
}

impl Shop {
    async fn a(&self, id: u64) -> Result<u64, AppError> {
        self.b(id).await
    }
    #[redis_lock(key = "shop:<id>", ttl = "5s")]
    async fn b(&self, id: u64) -> Result<u64, AppError> {
        work(id + self.base).await
    }
}

#[tokio::test]
async fn holds_the_key_however_the_function_is_called() {
    let shop = Shop { base: 10 };
    assert_eq!(holding("shop:1", shop.a(1)).await.unwrap(), 11);
    let pointer: for<'a> fn(&'a Shop, u64) -> Boxed<'a> = |shop, id| Box::pin(shop.b(id));
    assert_eq!(holding("shop:2", pointer(&shop, 2)).await.unwrap(), 12);
    assert_eq!(holding("shop:3", Box::pin(Shop::b(&shop, 3))).await.unwrap(), 13);
}

type Boxed<'a> = Pin<Box<dyn Future<Output = Result<u64, AppError>> + Send + 'a>>;
