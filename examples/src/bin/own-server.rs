//! A custom server over stdio. Try it: `wharf tools --mcp 'mine=own-server'`.

use wharf::server::serve_stdio;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    serve_stdio(wharf_examples::calculator()).await?;
    Ok(())
}
