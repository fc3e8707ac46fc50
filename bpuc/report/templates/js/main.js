// Theme, language, the dock with the selected op, links between the parts, and what tests may ask.
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
  tl.draw();
  graph.draw();
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

const dock = $('dock');
function showDock(i) {
  const o = ops[i];
  dock.hidden = !o;
  if (!o) return;
  const focus = dock.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const field = (key, text, wide) => (text && text !== none
    ? el('div', { className: wide ? 'wide' : '' }, el('dt', { textContent: tr(key) }), el('dd', {}, el('bdi', { textContent: text }))) : null);
  const button = (key, action, sign) => {
    const b = el('button', { type: 'button', textContent: sign ?? tr(key), title: tr(key), ariaLabel: tr(key) });
    b.dataset.key = key;
    b.addEventListener('click', action);
    return b;
  };
  const order = table.order(), at = order.indexOf(i), n = order.length;
  const go = (d) => () => { if (n) { select(order[(Math.max(0, at) + d + n) % n], 'dock'); } };
  dock.replaceChildren(
    el('div', { className: 'top' }, el('h2', {}, el('i', { className: `dot ${o.kind}` }), el('bdi', { textContent: o.name })),
      el('div', { className: 'buttons' }, button('previous', go(-1), '‹'), button('next', go(1), '›'),
        button('on_timeline', () => { select(i, 'link'); $('timeline').scrollIntoView(); }), button('in_graph', () => { select(i, 'link'); $('graph').scrollIntoView(); }), button('in_table', () => select(i, 'details')),
        button('close', () => select(-1, 'dock'), '×'))),
    el('dl', {},
      field('op', o.op), field('device', o.device), field('engine', o.engine), field('segment', o.segment), field('bound', o.bound),
      field('time', isNum(o.latency_us) ? `${time(o.latency_us)} (${share(o.latency_us)})` : none), field('start', isNum(o.start_us) ? three(o.start_us) : none),
      field('compute', time(o.compute_us)), field('transfer', time(o.transfer_us)), field('macs', macs(o.macs)),
      field('read', size(o.read_bytes)), field('write', size(o.write_bytes)), field('shape', o.shape), field('dtype', o.dtype), field('scale', o.scale),
      field('onnx_nodes', o.onnx_nodes.join(', '), true), field('reason', o.reason, true), field('remedy', o.remedy, true)));
  if (focus) dock.querySelector(`[data-key="${focus}"]`)?.focus();
}
on('select', showDock);
on('lang', () => showDock(picked));
addEventListener('keydown', (e) => { if (e.key === 'Escape' && picked >= 0) select(-1, 'dock'); });
document.addEventListener('click', (e) => {
  const link = e.target.closest('a[data-op]');
  if (!link) return;
  e.preventDefault();
  select(Number(link.dataset.op), 'link');
});

const wanted = stored('bpuc-lang') ?? (navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en');
readColours();
applyLang(wanted === 'zh' ? 'zh' : 'en');
applyTheme();
tl.draw();
graph.draw();

const took = (f) => { const a = performance.now(); f(); return performance.now() - a; };
window.bpucReport = {
  ops: ops.length, bars: tl.lanes.reduce((s, l) => s + l.ops.length, 0), rows: table.total, lanes: tl.lanes.length, points: roofline.count, span: tl.span,
  nodes: graph.count, edges: graph.edges, tracks: tracks.list.map((t) => t.label), peaks: () => tracks.list.map((t) => t.peak),
  shown: table.shown, hits: () => find.hits.length, view: () => [tl.from, tl.to], show: tl.show, sort: table.sort, filter: table.setFilter, find: find.set,
  centreOf: (i) => [(tl.x(ops[i].a) + tl.x(ops[i].b)) / 2, tl.laneTop(tl.lanes.findIndex((l) => l.ops.includes(i))) + 10],
  graphView: graph.view, graphCentreOf: graph.centreOf, graphFit: graph.fit, graphZoom: graph.zoom,
  select, picked: () => picked, drawMs: () => took(tl.draw), graphMs: () => took(graph.draw), tableMs: table.lastMs,
};
