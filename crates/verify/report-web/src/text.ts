// Texts of models, tools and benchmarks. Characters that hide or reorder others are shown by their code point.
import { h, type Child } from './dom';
import type { Mark } from './excerpts';

// Controls without tab and line feed, direction marks, line and paragraph separators, invisible characters, lone
// surrogates and language tags.
const HIDDEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udc7f]/g;

const COLLAPSED_CHARS = 1_500;
const COLLAPSED_LINES = 16;
const INLINE_CHARS = 100;

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}

/** Returns a text for an attribute or a title. */
export function plain(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(HIDDEN, (character) => `[${codePoint(character)}]`);
}

/** Returns a text in one line of at most `max` characters. */
export function short(text: string, max: number): string {
  const line = plain(text.slice(0, max * 4)).replace(/\s+/g, ' ').trim();
  return line.length > max || text.length > max * 4 ? `${line.slice(0, max).replace(/[\ud800-\udbff]$/, '')}…` : line;
}

/** Returns the nodes of a text, with its hidden characters made visible. */
export function shown(text: string): Child[] {
  const clean = text.replace(/\r\n?/g, '\n');
  const nodes: Child[] = [];
  let end = 0;
  for (const match of clean.matchAll(HIDDEN)) {
    nodes.push(clean.slice(end, match.index), h('span', { class: 'hidden-char' }, codePoint(match[0])));
    end = match.index + match[0].length;
  }
  nodes.push(clean.slice(end));
  return nodes;
}

/** Returns the nodes of a text with its marks. */
function marked(text: string, marks: Mark[]): Child[] {
  const nodes: Child[] = [];
  let end = 0;
  for (const { from, to, about } of [...marks].sort((a, b) => a.from - b.from)) {
    if (to <= end || from >= text.length) continue;
    nodes.push(shown(text.slice(end, Math.max(from, end))), h('mark', { title: about === '' ? null : `supports ${about}` }, shown(text.slice(Math.max(from, end), to))));
    end = to;
  }
  nodes.push(shown(text.slice(end)));
  return nodes;
}

export interface TextOptions {
  code?: boolean;
  marks?: Mark[];
}

/** A block of text. A long one shows its beginning and a button. */
export function block(text: string, options: TextOptions = {}): HTMLElement {
  const render = (part: string) => marked(part, options.marks ?? []);
  const body = h('div', { class: options.code ? 'text code' : 'text', dir: 'auto' });
  let cut = Math.min(text.length, COLLAPSED_CHARS);
  for (let line = 0, at = -1; line < COLLAPSED_LINES; line += 1) {
    at = text.indexOf('\n', at + 1);
    if (at < 0) break;
    if (line === COLLAPSED_LINES - 1) cut = Math.min(cut, at);
  }
  if (text.length - cut < 200) {
    body.append(...nodes(render(text)));
    return body;
  }
  const begin = text.slice(0, cut);
  body.append(...nodes(render(begin)));
  const label = `Show all ${text.length.toLocaleString('en-US')} characters`;
  const button = h('button', { class: 'more', type: 'button', 'aria-expanded': 'false', 'data-expand': true }, label);
  button.addEventListener('click', () => {
    const open = button.getAttribute('aria-expanded') !== 'true';
    button.setAttribute('aria-expanded', String(open));
    button.textContent = open ? 'Show less' : label;
    body.replaceChildren(...nodes(render(open ? text : begin)));
    body.classList.toggle('cut', !open);
  });
  body.classList.add('cut');
  return h('div', { class: 'long' }, body, button);
}

function nodes(children: Child[]): Node[] {
  const fragment = document.createDocumentFragment();
  const add = (child: Child): void => {
    if (Array.isArray(child)) child.forEach(add);
    else if (child instanceof Node) fragment.append(child);
    else if (child !== null && child !== undefined && child !== false) fragment.append(String(child));
  };
  add(children);
  return [...fragment.childNodes];
}

/** Indents JSON text that is too long for a line, without parsing it: numbers keep their digits, and depth costs no stack. */
export function indented(json: string): string {
  if (json.length <= INLINE_CHARS && !json.includes('\n')) return json;
  let out = '';
  let depth = 0;
  const line = () => `\n${'  '.repeat(Math.min(depth, 40))}`;
  for (let at = 0; at < json.length; at += 1) {
    const character = json[at] as string;
    if (character === '"') {
      const from = at;
      for (at += 1; at < json.length && json[at] !== '"'; at += 1) if (json[at] === '\\') at += 1;
      out += json.slice(from, at + 1);
    } else if (character === '{' || character === '[') {
      const close = character === '{' ? '}' : ']';
      let next = at + 1;
      while (/\s/.test(json[next] ?? '')) next += 1;
      if (json[next] === close) {
        out += character + close;
        at = next;
      } else {
        depth += 1;
        out += character + line();
      }
    } else if (character === '}' || character === ']') {
      depth = Math.max(0, depth - 1);
      out += line() + character;
    } else if (character === ',') out += character + line();
    else if (character === ':') out += ': ';
    else if (!/\s/.test(character)) out += character;
  }
  return out;
}
