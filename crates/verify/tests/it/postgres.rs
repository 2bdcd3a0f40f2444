//! The store in a PostgreSQL database, on a real server.

use wharf_testkit::Postgres;
use wharf_verify::store::{PostgresStore, PostgresUrl};

use crate::store_contract;

fn url(text: &str) -> PostgresUrl {
    text.parse().unwrap()
}

#[tokio::test]
async fn the_store_fulfils_the_contract() {
    let postgres = Postgres::start().await;
    let number = std::cell::Cell::new(0);
    store_contract::check(async || {
        number.set(number.get() + 1);
        let url = url(&postgres.create_database(&format!("contract_{}", number.get())));
        PostgresStore::open(&url).await.unwrap()
    })
    .await;
}
