// Time line: lanes (device, engine) on a canvas, DDR and MAC rates below, an overview above. Times in us.
const timeline = (() => {
  const canvas = $('tl-canvas'), map = $('tl-map'), tip = $('tip'), search = $('tl-search');
  const font = '11px system-ui, sans-serif';
  const AXIS = 22, LANE = 30, TRACK = 46, GAP = 8;
  const lanes = [];
  {
    const known = new Map(), free = new Map();
    const order = ops.map((o, i) => i).sort((a, b) => (ops[a].start_us ?? 0) - (ops[b].start_us ?? 0) || a - b);
    for (const i of order) {
      const o = ops[i], key = JSON.stringify([o.device, o.engine]);
      if (!known.has(key)) {
        known.set(key, { device: o.device, label: o.engine === none || o.engine.toUpperCase() === o.device ? o.device : `${o.device} ${o.engine}`, ops: [] });
        lanes.push(known.get(key));
      }
      const a = o.start_us ?? free.get(key) ?? 0;  // an op without times follows the one before it
      o.a = a;
      o.b = Math.max(a, o.end_us ?? a + (o.latency_us ?? 0));
      free.set(key, o.b);
      known.get(key).ops.push(i);
    }
    const rank = (l) => (l.device.toUpperCase() === 'CPU' ? 1 : 0);
    lanes.sort((x, y) => rank(x) - rank(y));
  }
  const span = ops.reduce((m, o) => Math.max(m, o.b), 0) || 1;
  const busy = lanes.map((l) => l.ops.reduce((s, i) => s + ops[i].b - ops[i].a, 0) / span);
  let from = 0, to = span, width = 0, gutter = 0, colourBy = 'kind', words = [], hover = -1, queued = false, hitList = [];

  const colour = (o) => (colourBy === 'kind' ? colours[o.kind] : boundColour(o));
  const narrow = () => width < 640;
  const laneHeight = () => (narrow() ? LANE + 14 : LANE);
  const laneTop = (k) => AXIS + k * laneHeight() + (narrow() ? 14 : 3);
  const tracksTop = () => AXIS + lanes.length * laneHeight() + GAP;
  const x = (t) => gutter + (t - from) / (to - from) * (width - gutter);
  const t = (px) => from + (px - gutter) / (width - gutter) * (to - from);

  function fit(c, height) {
    const ratio = window.devicePixelRatio || 1;
    width = c.parentElement.clientWidth || 600;
    if (c === map) width = canvas.parentElement.clientWidth || 600;
    if (c.width !== Math.round(width * ratio) || c.height !== Math.round(height * ratio)) {
      c.width = Math.round(width * ratio);
      c.height = Math.round(height * ratio);
      c.style.height = `${height}px`;
    }
    const g = c.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = font;
    g.textBaseline = 'middle';
    return g;
  }

  function draw() {
    queued = false;
    const height = tracksTop() + 2 * (TRACK + GAP);
    const g = fit(canvas, height);
    gutter = narrow() ? 0 : 124;
    axis(g, height);
    g.save();
    g.beginPath();
    g.rect(gutter, 0, width - gutter, height);
    g.clip();
    lanes.forEach((lane, k) => bars(g, lane, laneTop(k), LANE - 8));
    rates(g, tracksTop());
    g.restore();
    labels(g);
    overview();
    $('tl-range').textContent = `${time(from)} – ${time(to)}`;
  }

  function axis(g, height) {
    const step = nice((to - from) / Math.max(2, (width - gutter) / 90));
    g.textAlign = 'left';
    for (let i = Math.ceil(from / step); i * step <= to; i += 1) {
      const px = Math.round(x(i * step)) + 0.5;
      g.fillStyle = colours.grid;
      g.fillRect(px, AXIS - 4, 1, height - AXIS);
      g.fillStyle = colours.soft;
      const text = tick(i * step, step);
      if (px + 3 + g.measureText(text).width < width) g.fillText(text, px + 3, 9);
    }
  }
  const nice = (s) => {
    const p = 10 ** Math.floor(Math.log10(s));
    return [1, 2, 5, 10].find((m) => m * p >= s) * p;
  };
  const tick = (us, step) => {
    const [f, unit] = to >= 1e6 && step >= 1e3 ? [1e6, 's'] : to >= 2e3 && step >= 1 ? [1e3, 'ms'] : [1, 'us'];
    return `${(us / f).toFixed(Math.max(0, Math.ceil(-Math.log10(step / f) - 1e-9)))} ${unit}`;
  };

  // Index of the first op of a lane that ends after time v; ops of a lane are sorted and do not overlap.
  function firstAfter(list, v) {
    let lo = 0, hi = list.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (ops[list[mid]].b < v) lo = mid + 1; else hi = mid;
    }
    return lo;
  }

  function bars(g, lane, top, h) {
    for (let k = firstAfter(lane.ops, from); k < lane.ops.length; k += 1) {
      const i = lane.ops[k], o = ops[i];
      if (o.a > to) break;
      const left = Math.max(x(o.a), gutter - 2), w = Math.max(1, Math.min(x(o.b), width + 2) - left);
      const dim = words.length && !matches(i, words);
      g.globalAlpha = dim ? 0.16 : i === hover ? 0.8 : 1;
      g.fillStyle = colour(o);
      g.fillRect(left, top, w > 3 ? w - 0.7 : w, h);
      if (w > 34 && !dim) {
        g.fillStyle = colours.barink;
        const room = Math.floor((w - 8) / 6), name = o.name;
        g.textAlign = 'left';
        g.fillText(name.length <= room ? name : `…${name.slice(name.length - room + 1)}`, left + 4, top + h / 2 + 0.5, w - 6);
      }
      g.globalAlpha = 1;
      if (words.length && !dim) { g.fillStyle = colours.ink; g.fillRect(left, top + h, Math.max(2, w - 0.7), 3); }
      if (i === picked) { g.strokeStyle = colours.ink; g.lineWidth = 2; g.strokeRect(left - 1, top - 1, Math.max(w, 3) + 1, h + 2); }
    }
  }

  // Rates over time, one value a pixel: bytes and MACs of an op are spread evenly from its start to its end.
  function rates(g, top) {
    const n = Math.max(1, Math.floor(width - gutter)), per = (to - from) / n;
    const read = new Float64Array(n), write = new Float64Array(n), mac = new Float64Array(n);
    for (const o of ops) {
      if (o.b < from || o.a > to || !(o.read_bytes || o.write_bytes || o.macs)) continue;
      const long = Math.max(o.b - o.a, 1e-9);
      const p = Math.max(0, Math.floor((o.a - from) / per)), q = Math.min(n - 1, Math.floor((o.b - from) / per));
      for (let j = p; j <= q; j += 1) {
        const part = (Math.min(o.b, from + (j + 1) * per) - Math.max(o.a, from + j * per)) / long / per;
        if (part <= 0) continue;
        read[j] += (o.read_bytes ?? 0) * part;
        write[j] += (o.write_bytes ?? 0) * part;
        mac[j] += (o.macs ?? 0) * part;
      }
    }
    area(g, top, [[read, colours['b-memory']], [write, colours.border]], data.roofs.ddr, tr('bandwidth'), (v) => `${three(v / 1e3)} GB/s`);
    area(g, top + TRACK + GAP, [[mac, colours.mac]], data.roofs.peak, tr('mac_rate'), (v) => `${three(v / 1e3)} GMAC/s`);
  }

  function area(g, top, series, roof, label, text) {
    const n = series[0][0].length;
    let peak = 0;
    for (let j = 0; j < n; j += 1) peak = Math.max(peak, series.reduce((s, [a]) => s + a[j], 0));
    const full = Math.max(peak, roof && roof < 3 * peak ? roof : 0) || 1;
    const base = new Float64Array(n);
    for (const [a, fill] of series) {
      g.fillStyle = fill;
      for (let j = 0; j < n; j += 1) {
        const h = a[j] / full * (TRACK - 2);
        if (h > 0) g.fillRect(gutter + j, top + TRACK - base[j] - h, 1, h);
        base[j] += h;
      }
    }
    g.fillStyle = colours.line;
    g.fillRect(gutter, top + TRACK, n, 1);
    if (roof && roof <= full) {
      g.strokeStyle = colours.soft;
      g.setLineDash([5, 4]);
      g.beginPath();
      const y = Math.round(top + TRACK - roof / full * (TRACK - 2)) + 0.5;
      g.moveTo(gutter, y);
      g.lineTo(width, y);
      g.stroke();
      g.setLineDash([]);
    }
    trackLabels.push([label, peak ? `${tr('peak')} ${text(peak)}` : none, roof ? `${tr('roof')} ${text(roof)}` : '', top]);
  }
  let trackLabels = [];

  function labels(g) {
    g.textAlign = 'left';
    lanes.forEach((lane, k) => {
      const text = `${lane.label}`, part = `${(100 * busy[k]).toFixed(0)} %`;
      g.fillStyle = colours.ink;
      if (narrow()) g.fillText(`${text}  ${part}`, 2, laneTop(k) - 7, width - 4);
      else {
        g.fillText(text, 0, laneTop(k) + 11, gutter - 48);
        g.fillStyle = colours.soft;
        g.textAlign = 'right';
        g.fillText(part, gutter - 10, laneTop(k) + 11);
        g.textAlign = 'left';
      }
    });
    for (const [label, peak, roof, top] of trackLabels) {
      g.fillStyle = colours.ink;
      if (narrow()) g.fillText([label, peak, roof].filter(Boolean).join('  '), 2, top + 4, width - 4);
      else [label, peak, roof].forEach((s, k) => { g.fillStyle = k ? colours.soft : colours.ink; g.fillText(s, 0, top + 8 + 15 * k, gutter - 8); });
    }
    trackLabels = [];
  }

  function overview() {
    const g = fit(map, 26), at = (v) => v / span * width, h = Math.max(1, Math.floor(22 / Math.max(1, lanes.length)));
    g.fillStyle = colours.bg;
    g.fillRect(0, 0, width, 26);
    lanes.forEach((lane, k) => {
      for (const i of lane.ops) {
        g.fillStyle = colour(ops[i]);
        g.globalAlpha = words.length && !matches(i, words) ? 0.15 : 1;
        g.fillRect(at(ops[i].a), 2 + k * h, Math.max(0.6, at(ops[i].b) - at(ops[i].a)), Math.max(1, h - 1));
      }
    });
    g.globalAlpha = 0.62;
    g.fillStyle = colours.paper;
    g.fillRect(0, 0, at(from), 26);
    g.fillRect(at(to), 0, width - at(to), 26);
    g.globalAlpha = 1;
    g.strokeStyle = colours.accent;
    g.lineWidth = 1.5;
    g.strokeRect(at(from) + 0.75, 0.75, Math.max(3, at(to) - at(from)) - 1.5, 24.5);
  }

  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };

  function show(a, b) {
    const least = Math.min(span, 0.05), wide = Math.min(span, Math.max(least, b - a));
    from = Math.min(Math.max(0, a), span - wide);
    to = from + wide;
    redraw();
  }
  const zoom = (factor, centre = (from + to) / 2) => show(centre - (centre - from) * factor, centre + (to - centre) * factor);
  const pan = (part) => show(from + (to - from) * part, to + (to - from) * part);
  function reveal(i) {
    const o = ops[i], wide = to - from;
    if (o.a >= from && o.b <= to && x(o.b) - x(o.a) > 24) { redraw(); return; }
    const want = Math.min(wide, Math.max((o.b - o.a) * 12, 1));
    show((o.a + o.b - want) / 2, (o.a + o.b + want) / 2);
  }

  function opAt(px, py) {
    const k = lanes.findIndex((_, n) => py >= laneTop(n) - 3 && py <= laneTop(n) + LANE - 5);
    if (k < 0 || px < gutter) return -1;
    const list = lanes[k].ops, at = t(px), slack = 3 * (to - from) / (width - gutter);
    let best = -1, gap = slack;
    for (let n = firstAfter(list, at - slack); n < list.length && ops[list[n]].a <= at + slack; n += 1) {
      const o = ops[list[n]], d = Math.max(0, o.a - at, at - o.b);
      if (d < gap || (d === 0 && gap === 0)) { best = list[n]; gap = d; }
    }
    return best;
  }

  function showTip(i, e) {
    hover = i;
    tip.hidden = i < 0;
    if (i < 0) return;
    const o = ops[i];
    const line = (...pairs) => el('div', {}, pairs.filter(([, s]) => s && s !== none).map(([k, s]) => `${k ? `${tr(k)} ` : ''}${s}`).join('  ·  '));
    tip.replaceChildren(
      el('b', { textContent: o.name }),
      line(['', o.op], ['', o.engine === none ? o.device : `${o.device} ${o.engine}`], ['bound', o.bound]),
      line(['', time(o.latency_us)], ['', share(o.latency_us)], ['compute', time(o.compute_us)], ['transfer', time(o.transfer_us)]),
      line(['shape', o.shape], ['dtype', o.dtype], ['scale', o.scale]),
      line(['macs', macs(o.macs)], ['read', size(o.read_bytes)], ['write', size(o.write_bytes)]),
      line(['onnx_nodes', o.onnx_nodes.slice(0, 6).join(', ') + (o.onnx_nodes.length > 6 ? ' …' : '')]),
      line(['reason', o.reason ?? '']),
    );
    const r = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(e.clientX + 14, innerWidth - r.width - 8))}px`;
    tip.style.top = `${e.clientY + 18 + r.height > innerHeight ? Math.max(4, e.clientY - r.height - 12) : e.clientY + 18}px`;
  }

  const local = (c, e) => { const r = c.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
  const pointers = new Map();
  let moved = 0;
  canvas.addEventListener('pointerdown', (e) => {
    canvas.setPointerCapture(e.pointerId);
    pointers.set(e.pointerId, e.clientX);
    moved = 0;
  });
  canvas.addEventListener('pointermove', (e) => {
    const before = pointers.get(e.pointerId);
    if (before === undefined) {
      const [px, py] = local(canvas, e), was = hover;
      showTip(opAt(px, py), e);
      if (was !== hover) redraw();
      return;
    }
    const left = canvas.getBoundingClientRect().left, per = (to - from) / (width - gutter);
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== e.pointerId)[1];
      const old = Math.max(10, Math.abs(before - other)), now = Math.max(10, Math.abs(e.clientX - other));
      zoom(old / now, t((e.clientX + other) / 2 - left));
      moved = 99;
    } else {
      moved += Math.abs(e.clientX - before);
      if (moved > 3) show(from - (e.clientX - before) * per, to - (e.clientX - before) * per);
    }
    pointers.set(e.pointerId, e.clientX);
    showTip(-1);
  });
  const up = (e) => {
    if (pointers.delete(e.pointerId) && e.type === 'pointerup' && moved <= 3) {
      const i = opAt(...local(canvas, e));
      if (i >= 0) select(i, 'timeline');
    }
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('pointerleave', () => { showTip(-1); redraw(); });
  canvas.addEventListener('dblclick', () => show(0, span));
  canvas.addEventListener('wheel', (e) => {
    const mine = e.ctrlKey || e.metaKey || document.activeElement === canvas;
    const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey;
    if (!mine && !sideways) return;  // the page scrolls
    e.preventDefault();
    const lines = e.deltaMode === 1 ? 16 : 1;
    if (sideways) pan((e.deltaX || e.deltaY) * lines / (width - gutter));
    else zoom(Math.exp(Math.max(-400, Math.min(400, e.deltaY * lines)) * 0.002), t(local(canvas, e)[0]));
  }, { passive: false });
  canvas.addEventListener('keydown', (e) => {
    const sorted = () => ops.map((_, i) => i).sort((a, b) => ops[a].a - ops[b].a || a - b);
    const step = (d) => { const s = sorted(); if (s.length) select(s[(s.indexOf(picked) + d + s.length) % s.length], 'timeline'); };
    const keys = {
      ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1), '+': () => zoom(0.7), '=': () => zoom(0.7), '-': () => zoom(1 / 0.7),
      0: () => show(0, span), Home: () => show(0, to - from), End: () => show(span - (to - from), span),
      n: () => step(1), p: () => step(picked < 0 ? 0 : -1), Enter: () => picked >= 0 && select(picked, 'details'),
    };
    if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });
  const drag = (e) => {
    const [px] = local(map, e), c = px / map.clientWidth * span, half = (to - from) / 2;
    if (e.type === 'pointerdown') map.setPointerCapture(e.pointerId);
    if (e.buttons) show(c - half, c + half);
  };
  map.addEventListener('pointerdown', drag);
  map.addEventListener('pointermove', drag);

  const find = () => {
    words = wordsOf(search.value);
    hitList = words.length ? ops.map((_, i) => i).filter((i) => matches(i, words)).sort((a, b) => ops[a].a - ops[b].a) : [];
    $('tl-hits').textContent = words.length ? `${hitList.length} ${tr('hits')}` : '';
    redraw();
  };
  search.addEventListener('input', find);
  search.addEventListener('keydown', (e) => {
    if (e.key !== 'Enter' || !hitList.length) return;
    e.preventDefault();
    const n = hitList.length, k = hitList.indexOf(picked);
    select(hitList[(k + (e.shiftKey ? -1 : 1) + n) % n], 'search');
  });
  $('tl-in').addEventListener('click', () => zoom(0.5));
  $('tl-out').addEventListener('click', () => zoom(2));
  $('tl-fit').addEventListener('click', () => show(0, span));
  $('tl-colour').addEventListener('change', (e) => {
    colourBy = e.target.value;
    for (const li of $('tl-legend').children) li.hidden = li.dataset.for !== colourBy;
    redraw();
  });
  on('theme', redraw);
  on('lang', find);
  on('select', (i, who) => { if (i >= 0 && who !== 'timeline') reveal(i); else redraw(); });
  new ResizeObserver(redraw).observe(canvas.parentElement);
  return { show, zoom, draw, redraw, span, lanes, view: () => [from, to], count: () => lanes.reduce((s, l) => s + l.ops.length, 0),
    hits: () => hitList.length, centreOf: (i) => [(x(ops[i].a) + x(ops[i].b)) / 2, laneTop(lanes.findIndex((l) => l.ops.includes(i))) + 10] };
})();
