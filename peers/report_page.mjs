// A reader with a browser: opens an HTML report in headless Chromium, plays a scenario, and prints what it saw as JSON.
//
// node report_page.mjs SCENARIO FILE FOLDER: stores the browser's profile in FOLDER. `problems` lists what a report must
// never cause: console errors, exceptions, dialogs, and requests.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const peers = createRequire(new URL('../.peers/package.json', import.meta.url));
const { chromium } = peers('playwright-core');

const LIMIT = 120_000;
const [scenario, file, folder] = process.argv.slice(2);
const address = pathToFileURL(file).href;
const problems = [];

const context = await chromium.launchPersistentContext(join(folder, 'profile'), {
  executablePath: fileURLToPath(new URL('../.peers/chromium', import.meta.url)),
  chromiumSandbox: false,
  timeout: LIMIT,
  viewport: { width: 1280, height: 900 },
  colorScheme: 'light',
  args: [
    '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
});
context.setDefaultTimeout(LIMIT);
context.on('request', (request) => {
  const url = request.url();
  if (url.split('#')[0] !== address && !url.startsWith('data:')) problems.push(`request of ${url}`);
});

async function newPage() {
  const page = await context.newPage();
  page.on('console', (message) => problems.push(`console ${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => problems.push(`exception: ${error.stack}`));
  page.on('dialog', (dialog) => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  return page;
}

const ready = (page) => page.waitForFunction(() => document.querySelector('.page') && !document.querySelector('[aria-busy]'));

async function open(page, fragment = '') {
  await page.goto('about:blank');
  await page.goto(`${address}#${fragment}`);
  await ready(page);
}

// Goes to another view of the open report.
async function go(page, fragment) {
  await page.evaluate((to) => { location.hash = to; }, `#${fragment}`);
  await page.waitForFunction((to) => location.hash.replace(/^#/, '') === to, fragment);
  await ready(page);
}

const status = (page) => page.locator('[role=status]').innerText();
const unitOf = (page) => page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get('u'));
const ids = (page) => page.evaluate(async () => {
  const chunk = document.querySelector('script[data-chunk=rows]').textContent;
  const bytes = Uint8Array.from(atob(chunk), (character) => character.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).text();
  return JSON.parse(text).map(([id, , , , , verdict, category, , , score, , errors]) => ({ id, verdict, category, score, errors }));
});

const scenarios = {
  async text(page) {
    await open(page);
    const overview = await page.innerText('main');
    const [{ id }] = await ids(page);
    await open(page, new URLSearchParams({ u: id }).toString());
    return { overview, unit: await page.innerText('main') };
  },

  async hostile(page) {
    const seen = { canary: null, foreign_elements: 0, shows_attack_as_text: false, shows_direction_override: false, raw_direction_override: false };
    // The elements that the script makes; data must not add others.
    const look = async () => {
      const found = await page.evaluate(() => {
        const known = 'a,abbr,aside,body,button,code,dd,details,dialog,div,dl,dt,figcaption,figure,footer,form,h1,h2,h3,header,input,kbd,' +
          'label,li,main,mark,nav,ol,option,p,q,section,select,span,strong,summary,table,tbody,td,th,thead,tr,ul,circle,g,line,path,' +
          'rect,svg,text,tspan,noscript,script';
        const text = document.body.innerText;
        const handlers = [...document.querySelectorAll('*')].filter((element) =>
          [...element.attributes].some(({ name, value }) => name.startsWith('on') || (name === 'href' && !value.startsWith('#') && !value.startsWith('data:'))));
        return {
          canary: window.canary ?? null,
          foreign: [...document.body.querySelectorAll('*')].filter((element) => !element.matches(known)).length + handlers.length +
            document.querySelectorAll('script:not([data-chunk])').length - 1,
          attack: text.includes('<img src=x onerror="canary=1">'), shown: text.includes('U+202E'),
          raw: `${text}${document.title}`.includes('\u202e'),
        };
      });
      seen.canary ??= found.canary;
      seen.foreign_elements += found.foreign;
      seen.shows_attack_as_text ||= found.attack;
      seen.shows_direction_override ||= found.shown;
      seen.raw_direction_override ||= found.raw;
    };
    for (const view of ['', 'view=matrix', 'view=units&q=canary', 'u=%3Cimg%20src%3Dx%20onerror%3Dcanary%3D1%3E', 'view=units']) {
      await open(page, view);
      await look();
    }
    const units = await ids(page);
    // The first one is also opened by its link alone.
    await open(page, new URLSearchParams({ u: units[0].id }).toString());
    await look();
    seen.units = 0;
    for (const { id } of units) {
      await go(page, new URLSearchParams({ u: id }).toString());
      await page.waitForSelector('.trace');
      await page.keyboard.press('e');
      await look();
      seen.units += Number((await unitOf(page)) === id);
    }
    // Every option of every filter.
    await open(page, 'view=units');
    for (const name of ['model', 'judge', 'keyword', 'category']) {
      const select = () => page.locator(`select[name=${name}]`);
      for (let option = 0; option < await select().locator('option').count(); option += 1) {
        await select().selectOption({ index: option });
        await look();
      }
    }
    return seen;
  },

  async filters(page) {
    const seen = {};
    await open(page, 'view=units');
    seen.all = await status(page);
    await page.click('[data-verdict=failed]');
    seen.failed = await status(page);
    await page.selectOption('select[name=model]', 'atlas-mini');
    seen.failed_of_model = await status(page);
    await page.selectOption('select[name=keyword]', 'tides');
    seen.with_keyword = await status(page);
    await page.reload();
    await ready(page);
    seen.reloaded = await status(page);
    // The address changes first, and the page follows.
    const clear = async () => {
      await page.click('.clear');
      await page.waitForFunction((all) => document.querySelector('[role=status]').innerText === all, seen.all);
    };
    await clear();
    await page.selectOption('select[name=category]', 'recursion_limit');
    seen.category = await status(page);
    await clear();
    const search = async (text) => {
      await page.fill('input[type=search]', text);
      await page.waitForFunction((wanted) => new URLSearchParams(location.hash.slice(1)).get('q') === wanted &&
        !document.querySelector('[role=status]').textContent.includes('searching'), text);
    };
    await search('WEATHER-015');
    seen.search_id = await status(page);
    await search('answer: 45.');
    seen.search_answer = await status(page);
    await search('no such text anywhere');
    seen.nothing = await page.locator('.empty').innerText();
    return seen;
  },

  async keys(page) {
    const seen = {};
    const press = (key) => page.keyboard.press(key);
    const focused = () => page.evaluate(() => document.activeElement.closest('tr')?.getAttribute('data-unit') ?? null);
    await open(page);
    await press('3');
    await page.waitForSelector('.units');
    seen.third_view = (await page.locator('.bar [aria-current]').innerText()).replace('\n', ' ');
    seen.focused = [];
    for (const key of ['j', 'j', 'j', 'k']) {
      await press(key);
      seen.focused.push(await focused());
    }
    await press('Enter');
    await page.waitForSelector('.unit');
    seen.opened = await unitOf(page);
    await press('j');
    await page.waitForFunction((before) => new URLSearchParams(location.hash.slice(1)).get('u') !== before, seen.opened);
    seen.next = await unitOf(page);
    await press('Escape');
    await page.waitForSelector('.units');
    seen.closed = await unitOf(page);
    await page.waitForFunction(() => document.activeElement.closest('tr'));
    seen.focus_after_close = await focused();
    await press('/');
    seen.search_has_focus = await page.evaluate(() => document.activeElement.matches('input[type=search]'));
    await press('Escape');
    seen.escape_leaves_search = await page.evaluate(() => !document.activeElement.matches('input[type=search]'));
    const isOpen = () => page.locator('dialog').evaluate((dialog) => dialog.open);
    await press('?');
    seen.help_open = [await isOpen()];
    await press('Escape');
    seen.help_open.push(await isOpen());
    await page.locator('a.open').last().focus();
    await press('j');
    await page.waitForFunction(() => location.hash.includes('page=2') && document.activeElement.closest('tr'));
    seen.page_after_last_row = await focused();
    seen.themes = [];
    for (let times = 0; times < 2; times += 1) {
      await press('t');
      seen.themes.push(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme));
    }
    return seen;
  },

  async unit(page) {
    await open(page);
    const all = await ids(page);
    const { id } = all.find(({ category, score, errors }) => category === 'content' && score !== null && errors > 0);
    const seen = { id };
    await open(page, `u=${id}`);
    const count = (selector) => page.locator(selector).count();
    seen.cut = await count('.cut');
    await page.keyboard.press('e');
    seen.cut_after_expanding = await count('.cut');
    seen.text = await page.innerText('main');
    seen.calls = await count('.call');
    seen.failed_calls = await count('.call.failed');
    seen.fields = await count('.fields:not(.traits) tbody tr');
    seen.assertions = await count('.checks li');
    seen.same_question = await count('.side .dot');
    await open(page, `u=${id.slice(0, 12)}`);
    seen.by_prefix = await page.locator('.facts code').first().innerText();
    await open(page, 'u=nosuchunit');
    seen.unknown = await page.innerText('.callout');
    return seen;
  },

  // The turns of a scenario: their headings, messages and checks.
  async conversation(page) {
    await open(page);
    const all = await ids(page);
    const { id } = all.find(({ errors }) => errors > 0);
    await open(page, new URLSearchParams({ u: id }).toString());
    await page.keyboard.press('e');
    const texts = (selector) => page.locator(selector).allInnerTexts();
    const turns = page.locator('.scenario-turn');
    const messages = [];
    for (let turn = 0; turn < await turns.count(); turn += 1) messages.push(await turns.nth(turn).locator('.messages > li').count());
    return {
      headings: (await texts('.scenario-turn > h3')).map((text) => text.replace(/\s+/g, ' ').replace(/[✓✗] ?/u, '').trim()),
      prompts: (await texts('.turn.user')).map((text) => text.split('\n').at(-1)),
      messages, facts: await page.locator('section.card', { has: page.locator('h2', { hasText: /^Scenario$/ }) }).innerText(),
      answers: await page.locator('h2', { hasText: /^Answer$/ }).count(),
    };
  },

  async calls(page) {
    await open(page);
    const [{ id }] = await ids(page);
    await open(page, new URLSearchParams({ u: id }).toString());
    await page.keyboard.press('e');
    return { calls: await page.locator('.call').allInnerTexts(), messages: await page.locator('.messages > li').count() };
  },

  async lazy(page) {
    // Counts how often the script reads the text of a chunk of details.
    await page.addInitScript(() => {
      window.reads = new Set();
      // Chromium has a property of its own for scripts.
      const owner = Object.hasOwn(HTMLScriptElement.prototype, 'textContent') ? HTMLScriptElement.prototype : Node.prototype;
      const text = Object.getOwnPropertyDescriptor(owner, 'textContent');
      Object.defineProperty(owner, 'textContent', { ...text, get() {
        if (this.dataset?.chunk === 'details') window.reads.add(this);
        return text.get.call(this);
      } });
    });
    await open(page, 'view=units');
    const reads = () => page.evaluate(() => window.reads.size);
    const seen = { chunks: await page.locator('script[data-chunk=details]').count(), loaded_at_start: await reads() };
    await page.locator('a.open').first().click();
    await page.waitForSelector('.trace');
    seen.loaded_after_one = await reads();
    await page.keyboard.press('j');
    await page.waitForFunction(() => document.querySelector('.crumbs')?.textContent.includes('2 of'));
    await page.waitForSelector('.trace');
    seen.loaded_after_neighbor = await reads();
    return seen;
  },

  async accessible(page) {
    const axe = await readFile(peers.resolve('axe-core/axe.min.js'), 'utf8');
    const seen = { checked: 0, violations: [], wider_than_phone: [] };
    await open(page);
    await page.evaluate(axe);
    const units = await ids(page);
    const { id } = units.find(({ errors }) => errors > 0) ?? units[0];
    for (const [theme, width] of [['light', 1280], ['dark', 1280], ['light', 360]]) {
      await page.emulateMedia({ colorScheme: theme });
      await page.setViewportSize({ width, height: 900 });
      for (const view of ['', 'view=matrix', 'view=units', new URLSearchParams({ u: id }).toString()]) {
        await go(page, view);
        const { violations } = await page.evaluate(() => window.axe.run());
        seen.checked += 1;
        for (const { impact, id: rule, nodes } of violations) {
          if (impact === 'serious' || impact === 'critical') {
            seen.violations.push(`${theme} ${width} ${view}: ${rule} ${nodes.slice(0, 3).map(({ html }) => html).join(' ')}`);
          }
        }
        const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        if (isWide) seen.wider_than_phone.push(`${width} ${view}`);
      }
    }
    return seen;
  },

  // A large run: views stay small, and the last unit opens.
  async large(page) {
    const seen = { millis: {} };
    const timed = async (name, action) => {
      const start = Date.now();
      await action();
      seen.millis[name] = Date.now() - start;
    };
    const elements = () => page.evaluate(() => document.querySelectorAll('main *').length);
    await timed('open', () => open(page));
    seen.units = (await page.locator('.bar [data-view=units]').innerText()).replace('\n', ' ');
    await timed('units', () => go(page, 'view=units'));
    seen.list = await elements();
    await timed('matrix', () => go(page, 'view=matrix'));
    seen.matrix = await elements();
    const all = await ids(page);
    const { id } = all.at(-1);
    await timed('unit', () => go(page, new URLSearchParams({ u: id }).toString()));
    await page.waitForSelector('.trace');
    seen.last = [id, await page.locator('.facts code').first().innerText()];
    await timed('search', async () => {
      await go(page, 'view=units&q=no+such+text+anywhere');
      await page.waitForSelector('.empty');
    });
    return seen;
  },

  // Every unit gets the same excerpts and traits.
  async excerpts(page) {
    await page.addInitScript(() => {
      const parse = JSON.parse;
      JSON.parse = (text) => {
        const value = parse(text);
        if (Array.isArray(value) && value[0]?.trace) {
          for (const detail of value) {
            detail.response = 'Twice 42: \u{1f6a2} 42. Before a verbatim <b>excerpt</b> after.';
            detail.trace = [{ role: 'assistant', content: 'In the trace: a verbatim <b>excerpt</b>.' },
              { role: 'assistant', content: detail.response }];
            detail.excerpts = [{ attribute: 'hours', text: 'a verbatim <b>excerpt</b>', similarity: 1, message: 0, start: 14, end: 39 },
              { name: 'concise', text: '42', quoted: 'forty-two', similarity: 0.9, message: 1, start: 12, end: 14 },
              { attribute: 'wrong place', text: 'Before', similarity: 1, message: 1, start: 0, end: 6 },
              { attribute: 'nowhere', text: 'not in any text', similarity: 1, message: 7, start: 0, end: 15 }];
            detail.rubric = { traits: [
              { name: 'polite', higher_is_better: true, value: { boolean: false }, reasoning: 'It is <i>rude</i>.' },
              { name: 'depth', higher_is_better: true, value: { score: { score: 4, min: 1, max: 5 } } },
              { name: 'tone', value: { class: { index: 1, name: 'formal' } } },
              { name: 'items', value: { metrics: { metrics: { f1: 0.5 }, tp: ['crane'], fn: [], fp: [] } } },
              { name: 'tides', absent: 'No tide is mentioned.' }, { name: 'broken', failed: 'The judge refused.' },
            ] };
            detail.judge_reasoning = 'Because the excerpt says so.';
          }
        }
        return value;
      };
    });
    await open(page);
    const [{ id }] = await ids(page);
    await open(page, `u=${id}`);
    return {
      marks: await page.locator('mark').evaluateAll((marks) => marks.map((mark) =>
        [mark.title, mark.previousSibling?.textContent ?? '', mark.textContent])),
      traits: (await page.locator('.traits tbody tr').allInnerTexts())
        .map((row) => row.replace(/\s+/g, ' ').trim()),
      quoted: (await page.innerText('.excerpts')).includes('forty-two'),
      reasoning: (await page.innerText('main')).includes('Because the excerpt says so.'),
    };
  },
};

let seen = null;
try {
  const page = await newPage();
  seen = await scenarios[scenario](page);
} catch (error) {
  problems.push(String(error?.stack ?? error));
} finally {
  await context.close();
}
console.log(JSON.stringify({ problems, seen }));
