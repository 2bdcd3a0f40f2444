//! Grants of requests to a provider.

use wharf_protocol::BoxFuture;

use crate::rate_limit::{Bucket, RateGrant, RateReport, Reserve};
use crate::store::StoreError;

use super::connection::{Connection, Row};
use super::query::{Sql, now};
use super::transaction::Transaction;
use super::writer::Write;

/// A report of a worker, which is answered with a grant.
pub(super) struct ExchangeRate(pub(super) RateReport);

impl Write for ExchangeRate {
    type Output = RateGrant;

    fn is_urgent(&self) -> bool {
        true
    }

    /// The row is locked from the moment it is read, so workers that ask at once are answered one after the other.
    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<RateGrant, StoreError>> {
        const ADD: Sql =
            Sql::same("INSERT INTO provider_rate (provider) VALUES ($1) ON CONFLICT (provider) DO NOTHING");
        const STORE: Sql = Sql::same(
            "UPDATE provider_rate SET updated = $2, paused_until = $3, requests = $4, tokens = $5, usd = $6, \
             average_tokens = $7, average_usd = $8 WHERE provider = $1",
        );
        Box::pin(async move {
            let (connection, provider) = (&mut transaction.connection, &self.0.provider);
            let mut row = read(connection, provider).await?;
            if row.is_none() {
                connection.execute(ADD.query().bind(provider)).await?;
                row = read(connection, provider).await?;
            }
            let row = row.ok_or_else(|| StoreError::Failed(format!("the limits of `{provider}` are not stored")))?;
            let mut bucket = bucket_of(&row)?;
            let grant = bucket.exchange(&self.0, row.int("now")?);
            let store = STORE
                .query()
                .bind(provider)
                .bind(bucket.updated)
                .bind(bucket.paused_until)
                .bind(Some(bucket.requests))
                .bind(Some(bucket.used.tokens))
                .bind(Some(bucket.used.usd))
                .bind(Some(bucket.average.tokens))
                .bind(Some(bucket.average.usd));
            connection.execute(store).await?;
            Ok(grant)
        })
    }
}

async fn read(connection: &mut Connection<'_>, provider: &str) -> Result<Option<Row>, StoreError> {
    const READ: Sql = Sql {
        sqlite: concat!("SELECT *, ", now!(sqlite), " AS now FROM provider_rate WHERE provider = $1"),
        postgres: concat!("SELECT *, ", now!(postgres), " AS now FROM provider_rate WHERE provider = $1 FOR UPDATE"),
    };
    connection.row(READ.query().bind(provider)).await
}

fn bucket_of(row: &Row) -> Result<Bucket, StoreError> {
    Ok(Bucket {
        updated: row.int("updated")?,
        paused_until: row.int("paused_until")?,
        requests: row.float("requests")?,
        used: Reserve { tokens: row.float("tokens")?, usd: row.float("usd")? },
        average: Reserve { tokens: row.float("average_tokens")?, usd: row.float("average_usd")? },
    })
}
