// What every page has: theme, language, and light colours with all parts open on paper.
const stored = (key, value) => {
  try {
    if (value === undefined) return localStorage.getItem(key);
    localStorage.setItem(key, value);
  } catch { /* a page from disk may have no storage; the choice then lasts for the visit */ }
  return null;
};

const dark = matchMedia('(prefers-color-scheme: dark)');
const themes = ['auto', 'light', 'dark'];
let theme = themes.includes(stored('bpuc-theme')) ? stored('bpuc-theme') : 'auto';
let printing = false;
function applyTheme() {
  const isDark = !printing && (theme === 'dark' || (theme === 'auto' && dark.matches));
  root.toggleAttribute('data-dark', isDark);
  root.toggleAttribute('data-light', !isDark);
  const word = $('theme').firstElementChild;
  word.dataset.t = `theme_${theme}`;
  word.textContent = tr(word.dataset.t);
  readColours();
  tell('theme');
}
$('theme').addEventListener('click', () => {
  theme = themes[(themes.indexOf(theme) + 1) % 3];
  stored('bpuc-theme', theme);
  applyTheme();
});
dark.addEventListener('change', applyTheme);
let opened = [];
function print(start) {
  printing = start;
  opened.forEach((d) => { d.open = false; });
  opened = start ? [...document.querySelectorAll('details:not([open])')] : [];
  opened.forEach((d) => { d.open = true; });
  applyTheme();
  tell('print');
}
addEventListener('beforeprint', () => print(true));
addEventListener('afterprint', () => print(false));

function applyLang(next) {
  lang = next;
  root.lang = lang === 'zh' ? 'zh-CN' : 'en';
  for (const e of document.querySelectorAll('[data-t]')) e.textContent = tr(e.dataset.t);
  for (const name of ['placeholder', 'title', 'aria-label']) {
    for (const e of document.querySelectorAll(`[data-t-${name}]`)) e.setAttribute(name, tr(e.getAttribute(`data-t-${name}`)));
  }
  const button = $('lang');
  button.textContent = lang === 'zh' ? 'English' : '中文';
  button.lang = lang === 'zh' ? 'en' : 'zh-CN';
  button.setAttribute('aria-label', lang === 'zh' ? '语言：English' : 'Language: 中文');
  tell('lang');
}
$('lang').addEventListener('click', () => {
  applyLang(lang === 'zh' ? 'en' : 'zh');
  stored('bpuc-lang', lang);
});

// Called when all parts listen.
function begin() {
  const wanted = stored('bpuc-lang') ?? (navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en');
  readColours();
  applyLang(wanted === 'zh' ? 'zh' : 'en');
  applyTheme();
}
