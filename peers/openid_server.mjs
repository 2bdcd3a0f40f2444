// An MCP server that requires sign-in, built with the official SDK, and its OpenID provider (oidc-provider), on one port
// of the loopback interface. The provider uses its default pages: a sign-in form and a consent form.
//
// Writes its address to stdout, and ends with its stdin. For the tests: /test/events lists the provider's events,
// /test/expire expires all access tokens, /test/alive is a response that lasts as long as this process.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const peers = createRequire(new URL('../.peers/package.json', import.meta.url));
const load = (name) => import(peers.resolve(name));
const { Provider } = await load('oidc-provider');
const { McpServer } = await load('@modelcontextprotocol/sdk/server/mcp.js');
const { StreamableHTTPServerTransport } = await load('@modelcontextprotocol/sdk/server/streamableHttp.js');

// Hides the provider's notices.
console.info = console.error;

const SCOPES = 'notes:read';
const events = [];
const tokens = new Set();

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const origin = `http://127.0.0.1:${server.address().port}`;
const resource = `${origin}/mcp`;
const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`;

const provider = new Provider(origin, {
  cookies: { keys: ['only for tests'] },
  pkce: { required: () => true },
  scopes: ['openid', 'offline_access'],
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo(_context, wanted) {
        if (wanted !== resource) throw new Error(`unknown resource ${wanted}`);
        return { scope: SCOPES, audience: resource, accessTokenTTL: 3600, accessTokenFormat: 'opaque' };
      },
    },
  },
  issueRefreshToken: async (_context, client) => client.grantTypeAllowed('refresh_token'),
  rotateRefreshToken: true,
});
provider.on('registration_create.success', () => events.push('registered'));
provider.on('interaction.ended', (context) => events.push(`page ${context.oidc.entities.Interaction.prompt.name}`));
provider.on('grant.success', (context) => events.push(context.oidc.params.grant_type));
provider.on('grant.revoked', () => events.push('revoked'));
provider.on('access_token.saved', (token) => tokens.add(token));
for (const wrong of ['server_error', 'authorization.error', 'grant.error', 'registration_create.error', 'revocation.error']) {
  provider.on(wrong, (_context, error) => events.push(`${wrong}: ${error.error_description ?? error.stack}`));
}
const provide = provider.callback();

async function answer(request, response) {
  const json = (status, value, headers = {}) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
  };
  switch (request.url) {
    case '/.well-known/oauth-protected-resource/mcp':
      return json(200, { resource, authorization_servers: [origin], scopes_supported: SCOPES.split(' ') });
    case '/mcp': {
      const shown = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
      const token = shown && (await provider.AccessToken.find(shown));
      if (!token?.isValid || token.aud !== resource) {
        const challenge = `Bearer resource_metadata="${metadata}"`;
        return json(401, { error: 'invalid_token' }, { 'www-authenticate': challenge });
      }
      return serve(token, request, response);
    }
    case '/test/events':
      return json(200, events);
    case '/test/expire':
      for (const token of tokens) await token.destroy();
      tokens.clear();
      return json(200, true);
    case '/test/alive':
      return response.writeHead(200).flushHeaders();
    default:
      return provide(request, response);
  }
}

// One stateless server per request.
async function serve(token, request, response) {
  const mcp = new McpServer({ name: 'notes', version: '1' });
  mcp.registerTool('whoami', { description: 'Tells who has signed in' }, async () => ({
    content: [{ type: 'text', text: `${token.accountId} may ${token.scope}` }],
  }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  response.on('close', () => transport.close());
  await mcp.connect(transport);
  await transport.handleRequest(request, response);
}

process.stdin.on('end', () => process.exit()).resume();
console.log(origin);
