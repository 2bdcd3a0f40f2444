// Light and dark: the system decides until the reader does.

const KEY = 'wharf-report-theme';

/** Applies the choice of an earlier visit. A browser may not let a file store one. */
export function currentTheme(): void {
  try {
    const theme = localStorage.getItem(KEY);
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch { /* The system decides. */ }
}

export function switchTheme(): void {
  const now = document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  const next = now === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch { /* The choice lasts as long as the page. */ }
}
