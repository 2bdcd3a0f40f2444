// A reader of Markdown: parses standard input as GitHub does, with tables, raw HTML and automatic links, and prints what it
// found as JSON.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const peers = createRequire(new URL('../.peers/package.json', import.meta.url));
const markdownIt = peers('markdown-it');

const found = { headings: 0, active: [], html: [], tables: [] };
// What a cell shows, without the delimiters of code spans.
const text = (inline) => (inline.children ?? []).map((child) => {
  if (!['text', 'code_inline', 'softbreak'].includes(child.type)) found.active.push(`${child.type} ${child.content}`);
  return child.type === 'softbreak' ? '\n' : child.content;
}).join('');

let row = null;
for (const token of markdownIt({ html: true, linkify: true }).parse(readFileSync(0, 'utf8'), {})) {
  if (token.type === 'heading_open') found.headings += 1;
  if (token.type === 'html_block') found.html.push(token.content.trim());
  if (token.type === 'table_open') found.tables.push([]);
  if (token.type === 'tr_open') row = [];
  if (token.type === 'tr_close') found.tables.at(-1).push(row);
  if (token.type === 'tr_close') row = null;
  if (token.type === 'inline') {
    const shown = text(token);
    if (row) row.push(shown);
  }
}
console.log(JSON.stringify(found));
