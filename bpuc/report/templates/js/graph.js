// The graph as a picture: boxes at layers and rows that the page brings along, turned upright on a narrow screen.
const graph = (() => {
  const { layer, row, edges } = data.graph, section = $('graph'), canvas = $('g-canvas'), map = $('g-map');
  const nodes = ops.map((_, i) => i).filter((i) => layer[i] !== null);
  if (!nodes.length) { section.hidden = true; return { count: 0, edges: 0, draw() {}, drawMs: () => 0, view: () => [0, 0, 0] }; }
  const least = Math.min(...nodes.map((i) => row[i]), ...edges.flatMap((e) => e[2].filter((_, k) => k % 2)));
  const most = Math.max(...nodes.map((i) => row[i]), ...edges.flatMap((e) => e[2].filter((_, k) => k % 2)));
  const layers = Math.max(...nodes.map((i) => layer[i])) + 1, rows = most - least + 1;
  const before = ops.map(() => []), after = ops.map(() => []);
  for (const [a, b] of edges) { before[b].push(a); after[a].push(b); }

  const BOX_W = 142, BOX_H = 38, WIDE_STEP = [176, 50], TALL_STEP = [60, 154];
  let width = 0, height = 0, ox = 0, oy = 0, zoom = 1, hover = -1, queued = false, heat = false, placed = false;
  const tall = () => width < 640;
  // Middle of a place in the picture's own pixels.
  const place = (l, r) => (tall() ? [(r - least + 0.5) * TALL_STEP[1], (l + 0.5) * TALL_STEP[0]] : [(l + 0.5) * WIDE_STEP[0], (r - least + 0.5) * WIDE_STEP[1]]);
  const whole = () => (tall() ? [rows * TALL_STEP[1], layers * TALL_STEP[0]] : [layers * WIDE_STEP[0], rows * WIDE_STEP[1]]);
  const longest = Math.max(...nodes.map((i) => ops[i].latency_us ?? 0), 1e-9);

  function fresh(c, h) {
    const ratio = window.devicePixelRatio || 1, w = canvas.parentElement.clientWidth || 600;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) {
      c.width = Math.round(w * ratio);
      c.height = Math.round(h * ratio);
      c.style.height = `${h}px`;
    }
    const g = c.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    return g;
  }

  function draw() {
    queued = false;
    const was = width;
    width = canvas.parentElement.clientWidth || 600;
    height = tall() ? 520 : Math.max(220, Math.min(460, whole()[1] + 24));
    const g = fresh(canvas, height);
    if (!placed || (was && (was < 640) !== tall())) { placed = true; start(); }
    g.scale(zoom, zoom);
    g.translate(-ox, -oy);
    wires(g);
    boxes(g);
    overview();
  }
  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };

  function wires(g) {
    const x0 = ox, x1 = ox + width / zoom, y0 = oy, y1 = oy + height / zoom, turned = tall();
    for (const strong of [false, true]) {
      g.beginPath();
      for (const [a, b, via] of edges) {
        if (strong !== (picked >= 0 && (a === picked || b === picked))) continue;
        const from = place(layer[a], row[a]), to = place(layer[b], row[b]);
        if (turned) { from[1] += BOX_H / 2; to[1] -= BOX_H / 2; } else { from[0] += BOX_W / 2; to[0] -= BOX_W / 2; }
        if (turned ? to[1] < y0 || from[1] > y1 : to[0] < x0 || from[0] > x1) continue;
        g.moveTo(...from);
        let at = from;
        for (let k = 0; k <= via.length; k += 2) {
          const next = k < via.length ? place(via[k], via[k + 1]) : to;
          if (turned) g.bezierCurveTo(at[0], (at[1] + next[1]) / 2, next[0], (at[1] + next[1]) / 2, ...next);
          else g.bezierCurveTo((at[0] + next[0]) / 2, at[1], (at[0] + next[0]) / 2, next[1], ...next);
          at = next;
        }
      }
      g.strokeStyle = strong ? colours.accent : colours.rest;
      g.lineWidth = (strong ? 2.2 : 1.4) * Math.max(1, 0.7 / zoom);
      g.stroke();
    }
  }
  function boxes(g) {
    const near = picked >= 0 ? new Set([picked, ...before[picked], ...after[picked]]) : null;
    g.textBaseline = 'middle';
    for (const i of nodes) {
      const o = ops[i], [cx, cy] = place(layer[i], row[i]), x = cx - BOX_W / 2, y = cy - BOX_H / 2;
      if (x > ox + width / zoom || x + BOX_W < ox || y > oy + height / zoom || y + BOX_H < oy) continue;
      const dim = find.words.length && !matches(i, find.words), fill = colours[o.kind];
      g.globalAlpha = dim ? 0.2 : 1;
      if (zoom < 0.22) {  // far away: dots that can be seen
        const w = Math.max(BOX_W, 3 / zoom), h = Math.max(BOX_H, 3 / zoom);
        g.fillStyle = heat ? colours.rescale : fill;
        g.globalAlpha *= heat ? 0.15 + 0.85 * Math.sqrt((o.latency_us ?? 0) / longest) : 1;
        g.fillRect(cx - w / 2, cy - h / 2, w, h);
        if (i === picked) { g.globalAlpha = 1; g.strokeStyle = colours.ink; g.lineWidth = 2 / zoom; g.strokeRect(cx - w / 2, cy - h / 2, w, h); }
        continue;
      }
      g.beginPath();
      g.roundRect(x, y, BOX_W, BOX_H, o.kind === 'rescale' ? 20 : 6);
      g.fillStyle = colours.paper;
      g.fill();
      g.globalAlpha *= heat ? 0.06 + 0.9 * Math.sqrt((o.latency_us ?? 0) / longest) : o.kind === 'rescale' || o.kind === 'cpu' ? 0.3 : 0.16;
      g.fillStyle = heat ? colours.rescale : fill;
      g.fill();
      g.globalAlpha = dim ? 0.2 : 1;
      g.strokeStyle = i === picked || i === hover ? colours.ink : near?.has(i) ? colours.accent : fill;
      g.lineWidth = i === picked ? 3 : o.kind === 'rescale' || o.kind === 'cpu' || near?.has(i) ? 2 : 1.2;
      g.stroke();
      if (zoom > 0.42) text(g, o, x, y);
    }
    g.globalAlpha = 1;
  }
  function text(g, o, x, y) {
    g.textAlign = 'left';
    g.font = '600 12px system-ui, sans-serif';
    g.fillStyle = colours.ink;
    g.fillText(o.op, x + 10, y + 13, BOX_W - 70);
    g.textAlign = 'right';
    g.font = '11px system-ui, sans-serif';
    g.fillText(o.latency_us ? time(o.latency_us) : '', x + BOX_W - 9, y + 13, 56);
    g.fillStyle = colours.soft;
    g.textAlign = 'left';
    const short = o.name.length > 22 ? `…${o.name.slice(-21)}` : o.name;
    g.fillText(short, x + 10, y + 28, BOX_W - 19);
  }

  function overview() {
    const [w, h] = whole(), tallMap = 40, g = fresh(map, tallMap), turned = tall();
    const along = turned ? h : w, across = turned ? w : h;
    const px = (v) => v / along * width, py = (v) => 3 + v / across * (tallMap - 6);
    g.fillStyle = colours.bg;
    g.fillRect(0, 0, width, tallMap);
    for (const i of nodes) {
      const p = place(layer[i], row[i]), [l, r] = turned ? [p[1], p[0]] : p, o = ops[i];
      g.globalAlpha = find.words.length && !matches(i, find.words) ? 0.15 : 1;
      g.fillStyle = colours[o.kind];
      const big = o.kind === 'rescale' || o.kind === 'cpu';
      g.fillRect(px(l) - (big ? 1.5 : 1), py(r) - (big ? 2.5 : 1.5), big ? 3 : 2, big ? 5 : 3);
    }
    g.globalAlpha = 1;
    const [a, b] = turned ? [oy, oy + height / zoom] : [ox, ox + width / zoom];
    g.strokeStyle = colours.accent;
    g.lineWidth = 1.5;
    g.strokeRect(px(Math.max(0, a)) + 0.75, 0.75, Math.max(4, px(Math.min(along, b)) - px(Math.max(0, a))) - 1.5, tallMap - 1.5);
  }

  function look(x, y, z) {
    const [w, h] = whole();
    zoom = Math.min(2.5, Math.max(Math.min(width / w, height / h, 1) * 0.95, z));
    const vw = width / zoom, vh = height / zoom;
    ox = vw >= w ? (w - vw) / 2 : Math.max(-30 / zoom, Math.min(x, w - vw + 30 / zoom));
    oy = vh >= h ? (h - vh) / 2 : Math.max(-20 / zoom, Math.min(y, h - vh + 20 / zoom));
    redraw();
  }
  const start = () => { const [px, py] = place(layer[nodes[0]], row[nodes[0]]); const z = tall() ? 0.9 : 0.85; look(tall() ? px - width / 2 / z : px - BOX_W, tall() ? 0 : py - height / 2 / z, z); };
  const fitAll = () => { const [w, h] = whole(); look(0, 0, Math.min(width / w, height / h)); };
  const zoomAt = (f, x = width / 2, y = height / 2) => { const z = Math.min(2.5, zoom / f); look(ox + x / zoom - x / z, oy + y / zoom - y / z, z); };
  function reveal(i) {
    if (layer[i] === null) { redraw(); return; }
    const [x, y] = place(layer[i], row[i]), inside = x > ox + 80 && x < ox + width / zoom - 80 && y > oy + 24 && y < oy + height / zoom - 24;
    const z = Math.max(zoom, 0.6);
    if (inside && z === zoom) redraw(); else look(x - width / 2 / z, y - height / 2 / z, z);
  }
  function opAt(px, py) {
    const x = ox + px / zoom, y = oy + py / zoom;
    return nodes.find((i) => { const [cx, cy] = place(layer[i], row[i]); return Math.abs(cx - x) <= BOX_W / 2 && Math.abs(cy - y) <= BOX_H / 2; }) ?? -1;
  }
  const centreOf = (i) => { const [x, y] = place(layer[i], row[i]); return [(x - ox) * zoom, (y - oy) * zoom]; };

  navigate(canvas, {
    pan: (dx, dy) => look(ox - dx / zoom, oy - dy / zoom, zoom),
    zoom: zoomAt,
    hover: (x, y, e) => {
      const was = hover;
      hover = e ? opAt(x, y) : -1;
      canvas.style.cursor = hover >= 0 ? 'pointer' : '';
      if (hover >= 0) tip.op(hover, e); else tip.hide();
      if (was !== hover) redraw();
    },
    click: (x, y) => { const i = opAt(x, y); if (i >= 0) select(i, 'graph'); },
    open: (x, y) => { const i = opAt(x, y); if (i >= 0) select(i, 'details'); else fitAll(); },
  });
  const go = (list) => { const next = picked < 0 ? nodes[0] : list[picked]?.[0]; if (next !== undefined) select(next, 'keys'); };
  onKeys(canvas, {
    ArrowRight: () => go(tall() ? [] : after), ArrowLeft: () => go(tall() ? [] : before), ArrowDown: () => (tall() ? go(after) : beside(1)), ArrowUp: () => (tall() ? go(before) : beside(-1)),
    '+': () => zoomAt(0.7), '=': () => zoomAt(0.7), '-': () => zoomAt(1 / 0.7), 0: fitAll, Enter: () => picked >= 0 && select(picked, 'details'),
  });
  function beside(d) {
    const same = nodes.filter((i) => picked >= 0 && layer[i] === layer[picked]).sort((a, b) => row[a] - row[b]), next = same[same.indexOf(picked) + d];
    if (next !== undefined) select(next, 'keys');
  }
  // To a share of the way from input to output, at the height of the ops that stand there.
  function travel(part) {
    const at = part * layers, near = [...nodes].sort((a, b) => Math.abs(layer[a] - at) - Math.abs(layer[b] - at)).slice(0, 8);
    const [x, y] = place(at - 0.5, near.reduce((s, i) => s + row[i], 0) / near.length);
    look(x - width / 2 / zoom, y - height / 2 / zoom, zoom);
  }
  const drag = (e) => {
    if (e.type === 'pointerdown') map.setPointerCapture(e.pointerId);
    if (e.buttons) travel((e.clientX - map.getBoundingClientRect().left) / map.clientWidth);
  };
  map.addEventListener('pointerdown', drag);
  map.addEventListener('pointermove', drag);
  $('g-in').addEventListener('click', () => zoomAt(0.6));
  $('g-out').addEventListener('click', () => zoomAt(1 / 0.6));
  $('g-fit').addEventListener('click', fitAll);
  $('g-colour').addEventListener('change', (e) => { heat = e.target.value === 'time'; redraw(); });
  on('theme', redraw);
  on('find', redraw);
  on('select', (i, who) => { if (i >= 0 && who !== 'graph') reveal(i); else redraw(); });
  new ResizeObserver(redraw).observe(canvas.parentElement);
  return { count: nodes.length, edges: edges.length, draw, centreOf, travel, fit: fitAll, zoom: zoomAt, view: () => [ox, oy, zoom] };
})();
