// Builds one script and one style, and writes the digests of sources and results beside them: a test compares them, so
// that a change of a source without a build does not pass.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vite';

const folder = import.meta.dirname;

function sha256(parts) {
  const hash = createHash('sha256');
  parts.forEach((part) => hash.update(part));
  return hash.digest('hex');
}

function digests() {
  const sources = ['package-lock.json', 'package.json', 'tsconfig.json', 'vite.config.js'];
  sources.push(...readdirSync(join(folder, 'src')).sort().map((name) => `src/${name}`));
  const built = ['dist/report.css', 'dist/report.js'];
  const lines = [...sources, ...built].map((name) => `${sha256([readFileSync(join(folder, name))])}  ${name}\n`);
  writeFileSync(join(folder, 'dist/digests'), lines.join(''));
}

export default defineConfig({
  build: {
    target: ['chrome123', 'firefox125', 'safari17.5'],
    cssTarget: ['chrome123', 'firefox125', 'safari17.5'],
    lib: { entry: join(folder, 'src/main.ts'), formats: ['iife'], name: 'report', fileName: () => 'report.js', cssFileName: 'report' },
  },
  plugins: [{ name: 'digests', closeBundle: digests }],
});
