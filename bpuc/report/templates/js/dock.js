// The dock with the selected op, and links between the parts.
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
      field('op', o.op), field('device', o.device), field('engine', o.engine), field('segment', o.segment), field('bound', bound(o)),
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
