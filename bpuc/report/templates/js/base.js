// Shared by all parts: the data, words in the chosen language, numbers as text, elements. Text goes in by textContent only.
const data = JSON.parse(document.getElementById('data').textContent);
const ops = data.ops;
const root = document.documentElement;
const $ = (id) => document.getElementById(id);
const listeners = { theme: [], lang: [], select: [], find: [], print: [] };
const on = (what, f) => listeners[what].push(f);
const tell = (what, ...args) => listeners[what].forEach((f) => f(...args));

let lang = 'en';
const tr = (key) => data.words[lang][key] ?? key;
// What binds an op, in words; a word of a document that the page does not know stays.
const bound = (o, language = lang) => data.words[language][`bound_${o.bound}`] ?? o.bound;

function el(tag, props, ...children) {
  const e = document.createElement(tag);
  Object.assign(e, props);
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

const none = '-';
const isNum = (x) => typeof x === 'number';
function three(x) {
  if (x === 0) return '0';
  if (Math.abs(x) >= 999.5) return Math.round(x).toLocaleString('en-US');
  x = Number(x.toPrecision(3));
  return x.toFixed(Math.min(4, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(x)) + 1e-9))));
}
function time(us) {
  if (!isNum(us)) return none;
  const a = Math.abs(us);
  return a < 999.5 ? `${three(us)} us` : a < 999500 ? `${three(us / 1e3)} ms` : `${three(us / 1e6)} s`;
}
function scaled(x, units, step) {
  if (!isNum(x)) return none;
  let i = 0;
  while (Math.abs(x) >= step - 0.5 && i < units.length - 1) { x /= step; i += 1; }
  return `${i ? three(x) : Math.round(x)} ${units[i]}`.trim();
}
const size = (x) => scaled(x, ['B', 'KiB', 'MiB', 'GiB'], 1024);
const macs = (x) => scaled(x, ['', 'k', 'M', 'G', 'T'], 1000);
const share = (us) => (isNum(us) && data.latency ? `${(100 * us / data.latency).toFixed(1)} %` : none);

// What a search looks at, in lower case, once for each op.
const haystack = ops.map((o) => [o.name, o.op, o.device, o.engine, bound(o, 'en'), bound(o, 'zh'), o.dtype, ...o.onnx_nodes].join('\n').toLowerCase());
const wordsOf = (query) => query.toLowerCase().split(/\s+/).filter(Boolean);
const matches = (i, words) => words.every((w) => haystack[i].includes(w));

const colours = {};
function readColours() {
  const style = getComputedStyle(root);
  for (const k of ['ink', 'soft', 'line', 'grid', 'paper', 'bg', 'accent', 'barink', 'rest', 'mac', 'vector', 'move', 'border',
    'rescale', 'cpu', 'overhead', 'b-compute', 'b-memory', 'b-unknown']) colours[k] = style.getPropertyValue(`--${k}`).trim();
  colours['b-overhead'] = colours.overhead;
}
const boundColour = (o) => colours[`b-${o.bound}`] ?? colours['b-unknown'];

let picked = -1;
// from: 'table', 'timeline' or 'roofline'; the part that made the choice does not move itself.
function select(i, from) {
  picked = i;
  tell('select', i, from);
}
