//! Receivers, generics and lifetimes.

use std::sync::Arc;

use lock_runtime::redis_lock;

use super::support::{AppError, Shop, holding, locking, tick};

impl Shop {
    #[redis_lock(key = "open:<id>", ttl = "5s")]
    async fn open(self: std::sync::Arc<Self>, id: u64) -> Result<u64, AppError> {
        Ok(self.base + id)
    }
    #[redis_lock(key = "boxed:<id>", ttl = "5s")]
    async fn boxed(self: Box<Self>, id: u64) -> Result<u64, AppError> {
        Ok(self.base + id)
    }
    #[allow(clippy::needless_arbitrary_self_type)] // the point of the test
    #[redis_lock(key = "long:<id>", ttl = "5s")]
    async fn long(self: &Self, id: u64) -> Result<u64, AppError> {
        Ok(self.base + id)
    }
}

#[tokio::test]
async fn accepts_all_types_of_self() {
    let shop = Shop { base: 10 };
    assert_eq!(locking("open:1", Arc::new(shop.clone()).open(1)).await.unwrap(), 11);
    assert_eq!(locking("boxed:1", Box::new(shop.clone()).boxed(1)).await.unwrap(), 11);
    assert_eq!(locking("long:1", shop.long(1)).await.unwrap(), 11);
}

impl Shop {
    const STEP: u64 = 2;
    #[redis_lock(key = "make:<id>", ttl = "5s")]
    async fn make(id: u64) -> Result<Self, AppError> {
        Ok(Self { base: id * Self::STEP })
    }
}

#[tokio::test]
async fn resolves_self_type_of_the_impl() {
    assert_eq!(locking("make:3", Shop::make(3)).await.unwrap().base, 6);
}

trait Store<T> {
    fn get(&self, id: u64) -> impl std::future::Future<Output = Option<T>> + Send;
}
#[redis_lock(key = "load:<id>", ttl = "5s")]
async fn load<S, T>(id: u64, store: &S) -> Result<T, AppError>
where
    S: Store<T> + Sync,
    T: Send,
{
    store.get(id).await.ok_or(AppError::Empty)
}

impl Store<u8> for u8 {
    async fn get(&self, id: u64) -> Option<u8> {
        tick().await;
        (id > 0).then_some(*self)
    }
}

impl Store<String> for Shop {
    async fn get(&self, id: u64) -> Option<String> {
        Some((self.base + id).to_string())
    }
}

#[tokio::test]
async fn needs_no_further_bounds_on_generics() {
    assert_eq!(holding("load:1", load(1, &7_u8)).await.unwrap(), 7);
    assert_eq!(locking("load:2", load(2, &Shop { base: 10 })).await.unwrap(), "12");
}

#[redis_lock(key = "tag:<id>", ttl = "5s")]
async fn tag(id: usize, note: Option<&str>, parts: &[&str]) -> Result<usize, AppError> {
    tick().await;
    Ok(note.map_or(0, str::len) + parts.len() + id)
}

#[tokio::test]
async fn accepts_arguments_borrowed_for_the_call() {
    let note = String::from("abc");
    let parts = [String::from("a"), String::from("b")];
    let parts: Vec<_> = parts.iter().map(String::as_str).collect();
    assert_eq!(holding("tag:1", tag(1, Some(&note), &parts)).await.unwrap(), 6);
}

#[redis_lock(key = "peek:<id>", ttl = "5s")]
async fn peek(id: u64, slot: &mut u64) -> Result<&u64, AppError> {
    *slot += id;
    Ok(slot)
}

#[tokio::test]
async fn returns_a_reference_borrowed_from_an_argument() {
    let mut slot = 1;
    assert_eq!(*locking("peek:2", peek(2, &mut slot)).await.unwrap(), 3);
    assert_eq!(slot, 3);
}

impl Shop {
    #[redis_lock(key = "fill:<id>", ttl = "5s")]
    async fn fill(&mut self, id: u64, buf: &mut [u8]) -> Result<usize, AppError> {
        self.base = id;
        buf.fill(1);
        Ok(buf.len())
    }
}

#[tokio::test]
async fn accepts_two_mutable_borrows_without_lifetimes() {
    let (mut shop, mut buf) = (Shop { base: 0 }, [0; 3]);
    assert_eq!(locking("fill:5", shop.fill(5, &mut buf)).await.unwrap(), 3);
    assert_eq!((shop.base, buf), (5, [1; 3]));
}

#[redis_lock(key = "lt:<id>", ttl = "5s")]
async fn lifetimes<'a, 'b: 'a, const N: usize>(
    id: u64,
    a: &'a str,
    b: &'b [&'b str; N],
) -> Result<&'a str, AppError> {
    tick().await;
    Ok(if id == 0 { a } else { b[N - 1] })
}

#[tokio::test]
async fn keeps_explicit_lifetimes_and_constants() {
    assert_eq!(holding("lt:0", lifetimes(0, "a", &["b"])).await.unwrap(), "a");
    assert_eq!(holding("lt:1", lifetimes(1, "a", &["b", "c"])).await.unwrap(), "c");
}
