// A simulated user with a browser: opens a page in headless Chromium, fills in the form of oidc-provider, consents, and
// reads the final page. Writes the visited pages to a file, as JSON.
//
// node sign_in.mjs FOLDER URL: writes FOLDER/seen.json, and stores the browser's profile in FOLDER. Ends with the
// provider, independent of its parent process.
import { rename, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const peers = createRequire(new URL('../.peers/package.json', import.meta.url));
const { chromium } = peers('playwright-core');

const LIMIT = 180_000;
const [folder, url] = process.argv.slice(2);
const seen = { pages: [], elsewhere: [] };

async function save() {
  // Renames the file, so that readers find it complete.
  await writeFile(join(folder, 'seen.new'), JSON.stringify(seen));
  await rename(join(folder, 'seen.new'), join(folder, 'seen.json'));
}

async function signIn() {
  const context = await chromium.launchPersistentContext(join(folder, 'profile'), {
    executablePath: fileURLToPath(new URL('../.peers/chromium', import.meta.url)),
    chromiumSandbox: false,
    timeout: LIMIT,
    args: [
      '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync',
    ],
  });
  try {
    context.setDefaultTimeout(LIMIT);
    // Does not wait for third-party resources such as fonts.
    await context.route((address) => address.hostname !== '127.0.0.1', (route) => {
      seen.elsewhere.push(route.request().url());
      return route.abort();
    });
    const page = await context.newPage();
    const look = async () => seen.pages.push({
      address: page.url().split('?')[0], title: await page.title(), text: (await page.innerText('body')).trim(),
    });
    await page.goto(url, { waitUntil: 'domcontentloaded' });
    await page.fill('input[name=login]', 'ada');
    await page.fill('input[name=password]', 'not checked');
    await look();
    await page.click('button[type=submit]');
    await page.locator('input[name=prompt][value=consent]').waitFor({ state: 'attached' });
    await look();
    await page.click('button[type=submit]');
    await page.waitForURL((address) => address.pathname === '/callback', { waitUntil: 'domcontentloaded' });
    await look();
  } finally {
    await context.close();
  }
}

const alive = await fetch(new URL('/test/alive', url));
alive.body.getReader().read().finally(() => process.exit(1));
setTimeout(() => process.exit(1), LIMIT + 10_000).unref();
try {
  await signIn();
} catch (error) {
  seen.error = String(error?.stack ?? error);
}
await save();
process.exit(seen.error ? 1 : 0);
