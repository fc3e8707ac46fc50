// The box beside the pointer: an op, or pairs of a label and a value.
const tip = (() => {
  const box = $('tip');
  const line = (...pairs) => el('div', {}, pairs.filter(([, s]) => s && s !== none).map(([k, s]) => `${k ? `${tr(k)} ` : ''}${s}`).join('  ·  '));
  function at(e, ...children) {
    box.replaceChildren(...children);
    box.hidden = false;
    const r = box.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(e.clientX + 14, innerWidth - r.width - 8))}px`;
    box.style.top = `${e.clientY + 18 + r.height > innerHeight ? Math.max(4, e.clientY - r.height - 12) : e.clientY + 18}px`;
  }
  function op(i, e) {
    const o = ops[i];
    at(e,
      el('b', { textContent: o.name }),
      line(['', o.op], ['', o.engine === none ? o.device : `${o.device} ${o.engine}`], ['bound', bound(o)]),
      line(['', time(o.latency_us)], ['', share(o.latency_us)], ['compute', time(o.compute_us)], ['transfer', time(o.transfer_us)]),
      line(['shape', o.shape], ['dtype', o.dtype], ['scale', o.scale]),
      line(['macs', macs(o.macs)], ['read', size(o.read_bytes)], ['write', size(o.write_bytes)]),
      line(['onnx_nodes', o.onnx_nodes.slice(0, 6).join(', ') + (o.onnx_nodes.length > 6 ? ' …' : '')]),
      line(['reason', o.reason ?? '']));
  }
  const values = (head, pairs, e) => at(e, el('b', { textContent: head }), ...pairs.map(([k, v]) => el('div', { textContent: `${k}  ${v}` })));
  return { op, values, hide: () => { box.hidden = true; } };
})();
