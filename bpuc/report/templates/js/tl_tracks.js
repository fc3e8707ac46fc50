// Time line, tracks below the lanes: DDR and MAC rates and the memory that is held, one value a pixel.
const tracks = (() => {
  const rateOf = (v) => `${three(v / 1e3)} GB/s`, macsOf = (v) => `${three(v / 1e3)} GMAC/s`;
  const roofs = data.roofs, some = (key) => ops.some((o) => o[key] > 0);
  const list = [
    { label: 'bandwidth', fill: ['b-memory', 'border'], roof: roofs.ddr, text: rateOf, show: some('read_bytes') || some('write_bytes') },
    { label: 'mac_rate', fill: ['mac'], roof: roofs.peak, text: macsOf, show: some('macs') },
    { label: 'onchip_held', fill: ['vector'], roof: roofs.sram, text: size, show: some('sram_bytes') },
    { label: 'ddr_held', fill: ['move'], text: size, show: some('ddr_bytes') },
  ].filter((t) => t.show);

  // When the bytes of an op pass the bus, as its transfers say. A document without them: at full bandwidth, one op after the other, as late as its end allows. With no
  // bandwidth stated, or more bytes than it can pass in time, they are spread over the op.
  const passes = ops.map((o) => [o.a, o.b]);
  const spans = { load: new Map(), store: new Map() };
  for (const [i, engine, a, b] of data.transfers) spans[engine]?.set(i, [a, b]);
  if (!data.transfers.length && roofs.ddr && ops.reduce((s, o) => s + (o.read_bytes ?? 0) + (o.write_bytes ?? 0), 0) / roofs.ddr <= tl.span) {
    let free = tl.span;
    const late = tl.order.slice().sort((a, b) => ops[b].b - ops[a].b);
    for (const i of late) {
      const us = ((ops[i].read_bytes ?? 0) + (ops[i].write_bytes ?? 0)) / roofs.ddr;
      if (!us) continue;
      const end = Math.min(ops[i].b, Math.max(free, us));
      passes[i] = [Math.max(0, end - us), end];
      free = Math.max(0, end - us);
    }
  }

  function values(key, n, per) {
    const out = new Float64Array(n), held = key === 'sram_bytes' || key === 'ddr_bytes', bytes = key === 'read_bytes' || key === 'write_bytes';
    ops.forEach((o, i) => {
      const v = o[key], [a, b] = (bytes && spans[key === 'read_bytes' ? 'load' : 'store'].get(i)) || (bytes ? passes[i] : [o.a, o.b]);
      if (!v || b < tl.from || a > tl.to) return;
      const long = Math.max(b - a, 1e-9);
      const p = Math.max(0, Math.floor((a - tl.from) / per)), q = Math.min(n - 1, Math.floor((b - tl.from) / per));
      for (let j = p; j <= q; j += 1) {
        if (held) { if (b > a) out[j] = Math.max(out[j], v); continue; }
        const part = Math.min(b, tl.from + (j + 1) * per) - Math.max(a, tl.from + j * per);
        if (part > 0) out[j] += v * part / long / per;
      }
    });
    return out;
  }

  const keys = { bandwidth: ['read_bytes', 'write_bytes'], mac_rate: ['macs'], onchip_held: ['sram_bytes'], ddr_held: ['ddr_bytes'] };
  function draw(g) {
    const n = Math.max(1, Math.floor(tl.width - tl.gutter)), per = (tl.to - tl.from) / n;
    list.forEach((track, k) => {
      track.series = keys[track.label].map((key) => values(key, n, per));
      area(g, tl.trackTop(k), track, n);
    });
  }
  const sumAt = (track, j) => track.series.reduce((s, a) => s + (a[j] ?? 0), 0);

  function area(g, top, track, n) {
    let sum = 0;
    track.peak = 0;
    for (let j = 0; j < n; j += 1) { sum += sumAt(track, j); track.peak = Math.max(track.peak, sumAt(track, j)); }
    track.mean = track.roof ? `${(100 * sum / n / track.roof).toFixed(0)} %` : '';
    const full = Math.max(track.peak, track.roof && track.roof < 4 * track.peak ? track.roof : 0) || 1, tall = tl.TRACK - 2;
    const base = new Float64Array(n);
    track.series.forEach((a, s) => {
      g.fillStyle = colours[track.fill[s]];
      for (let j = 0; j < n; j += 1) {
        const h = a[j] / full * tall;
        if (h > 0) g.fillRect(tl.gutter + j, top + tl.TRACK - base[j] - h, 1, h);
        base[j] += h;
      }
    });
    g.fillStyle = colours.line;
    g.fillRect(tl.gutter, top + tl.TRACK, n, 1);
    if (!track.roof || track.roof > full) return;
    g.strokeStyle = colours.soft;
    g.setLineDash([5, 4]);
    g.beginPath();
    const y = Math.round(top + tl.TRACK - track.roof / full * tall) + 0.5;
    g.moveTo(tl.gutter, y);
    g.lineTo(tl.width, y);
    g.stroke();
    g.setLineDash([]);
  }

  // The values under a point of the canvas as pairs (label, text); none above the tracks.
  function at(px, py) {
    if (py < tl.trackTop(0) || px < tl.gutter || !list.length || !list[0].series) return null;
    return list.map((t) => [tr(t.label), t.text(sumAt(t, Math.floor(px - tl.gutter)))]);
  }
  return { list, draw, at };
})();
