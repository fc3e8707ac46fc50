// Roofline: MAC rate over MACs per DDR byte, both axes logarithmic; one circle an op that has both.
const roofline = (() => {
  const svg = $('roof'), points = [];
  ops.forEach((o, i) => {
    const bytes = (o.read_bytes ?? 0) + (o.write_bytes ?? 0);
    if (o.macs > 0 && bytes > 0 && o.latency_us > 0) points.push({ i, x: o.macs / bytes, y: o.macs / o.latency_us / 1e3 });
  });
  const { peak, ddr } = data.roofs;
  const node = (tag, attrs, text) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  if (!points.length) $('roofline').hidden = true;

  function draw() {
    if (!points.length) return;
    const w = svg.clientWidth || 600, h = svg.clientHeight || 340, left = 52, bottom = 36, top = 24, right = 16;
    const xs = points.map((p) => p.x), ys = points.map((p) => p.y);
    if (peak) ys.push(peak / 1e3);
    if (peak && ddr) xs.push(peak / ddr);
    const range = (v) => [Math.floor(Math.log10(Math.min(...v)) - 0.1), Math.ceil(Math.log10(Math.max(...v)) + 0.1)];
    const [x0, x1] = range(xs), [y0, y1] = range(ys);
    const px = (x) => left + (Math.log10(x) - x0) / (x1 - x0) * (w - left - right);
    const py = (y) => h - bottom - (Math.log10(y) - y0) / (y1 - y0) * (h - bottom - top);
    const out = [];
    const label = (e) => (e >= -2 && e <= 4 ? String(Number((10 ** e).toPrecision(1))) : `1e${e}`);
    for (let e = x0; e <= x1; e += 1) {
      out.push(node('line', { x1: px(10 ** e), x2: px(10 ** e), y1: top, y2: h - bottom }));
      out.push(node('text', { x: px(10 ** e), y: h - bottom + 15, 'text-anchor': 'middle' }, label(e)));
    }
    for (let e = y0; e <= y1; e += 1) {
      out.push(node('line', { x1: left, x2: w - right, y1: py(10 ** e), y2: py(10 ** e) }));
      out.push(node('text', { x: left - 6, y: py(10 ** e) + 4, 'text-anchor': 'end' }, label(e)));
    }
    out.push(node('text', { x: w - right, y: h - 6, 'text-anchor': 'end' }, tr('intensity')));
    out.push(node('text', { x: 2, y: 11 }, tr('rate')));
    if (peak && ddr) {
      const knee = peak / ddr, low = Math.max(10 ** x0, 10 ** y0 * 1e3 / ddr);
      out.push(node('path', { class: 'peak', d: `M${px(low)} ${py(ddr * low / 1e3)}L${px(knee)} ${py(peak / 1e3)}L${w - right} ${py(peak / 1e3)}` }));
    } else if (peak) out.push(node('path', { class: 'peak', d: `M${left} ${py(peak / 1e3)}L${w - right} ${py(peak / 1e3)}` }));
    if (peak) out.push(node('text', { x: w - right, y: py(peak / 1e3) - 6, 'text-anchor': 'end' }, `${three(peak / 1e3)} GMAC/s`));
    const longest = Math.max(...points.map((p) => ops[p.i].latency_us));
    for (const p of points) {
      const o = ops[p.i];
      const c = node('circle', { cx: px(p.x), cy: py(p.y), r: 2.5 + 11 * Math.sqrt(o.latency_us / longest), fill: boundColour(o), stroke: boundColour(o), 'data-i': p.i });
      if (p.i === picked) c.classList.add('picked');
      c.append(node('title', {}, `${o.name}\n${o.op}, ${time(o.latency_us)}, ${three(p.y)} GMAC/s, ${three(p.x)} MAC/B`));
      out.push(c);
    }
    svg.replaceChildren(...out);
  }
  svg.addEventListener('click', (e) => {
    const c = e.target.closest('circle');
    if (c) select(Number(c.dataset.i), 'roofline');
  });
  on('theme', draw);
  on('lang', draw);
  on('select', (i) => {
    svg.querySelector('.picked')?.classList.remove('picked');
    svg.querySelector(`circle[data-i="${i}"]`)?.classList.add('picked');
  });
  new ResizeObserver(draw).observe(svg.parentElement);
  return { count: points.length };
})();
