// Time line, its state: lanes (device, engine) of ops in time, those of the DDR bus among them, the window in view, and
// what is where. Times in us.
const tl = { canvas: $('tl-canvas'), map: $('tl-map'), lanes: [], from: 0, to: 1, width: 0, gutter: 0, colourBy: 'kind', words: [], hits: [],
  hover: -1, cursor: -1, queued: false, AXIS: 22, LANE: 30, TRACK: 46, GAP: 8 };
{
  const known = new Map(), free = new Map();
  const order = ops.map((o, i) => i).sort((a, b) => (ops[a].start_us ?? 0) - (ops[b].start_us ?? 0) || a - b);
  for (const i of order) {
    const o = ops[i], key = JSON.stringify([o.device, o.engine]);
    if (!known.has(key)) {
      known.set(key, { device: o.device, label: o.engine === none || o.engine.toUpperCase() === o.device ? o.device : `${o.device} ${o.engine}`, bars: [] });
      tl.lanes.push(known.get(key));
    }
    const a = o.start_us ?? free.get(key) ?? 0;  // an op without times follows the one before it
    o.a = a;
    o.b = Math.max(a, o.end_us ?? a + (o.latency_us ?? 0));
    free.set(key, o.b);
    known.get(key).bars.push({ i, a: o.a, b: o.b });
  }
  for (const [i, engine, a, b] of data.transfers) {  // what the bus carries for op i
    const key = `DDR ${engine}`;
    if (!known.has(key)) {
      known.set(key, { device: 'DDR', label: key, bars: [] });
      tl.lanes.push(known.get(key));
    }
    known.get(key).bars.push({ i, a, b });
  }
  const rank = (l) => ({ DDR: 1, CPU: 2 }[l.device.toUpperCase()] ?? 0);
  tl.lanes.sort((x, y) => rank(x) - rank(y));
  tl.order = order;
}
tl.span = ops.reduce((m, o) => Math.max(m, o.b), 0) || 1;
tl.to = tl.span;
for (const l of tl.lanes) l.busy = l.bars.reduce((s, bar) => s + bar.b - bar.a, 0) / tl.span;

tl.narrow = () => tl.width < 640;
tl.laneHeight = () => (tl.narrow() ? tl.LANE + 14 : tl.LANE);
tl.laneTop = (k) => tl.AXIS + k * tl.laneHeight() + (tl.narrow() ? 14 : 3);
tl.trackTop = (k) => tl.AXIS + tl.lanes.length * tl.laneHeight() + tl.GAP + k * (tl.TRACK + tl.GAP) + (tl.narrow() ? 14 * (k + 1) : 0);
tl.x = (t) => tl.gutter + (t - tl.from) / (tl.to - tl.from) * (tl.width - tl.gutter);
tl.t = (px) => tl.from + (px - tl.gutter) / (tl.width - tl.gutter) * (tl.to - tl.from);

// Index of the first bar of a lane that ends after time v; bars of a lane are sorted and do not overlap.
tl.firstAfter = (list, v) => {
  let lo = 0, hi = list.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (list[mid].b < v) lo = mid + 1; else hi = mid;
  }
  return lo;
};
tl.opAt = (px, py) => {
  const k = tl.lanes.findIndex((_, n) => py >= tl.laneTop(n) - 3 && py <= tl.laneTop(n) + tl.LANE - 5);
  if (k < 0 || px < tl.gutter) return -1;
  const list = tl.lanes[k].bars, at = tl.t(px), slack = 3 * (tl.to - tl.from) / (tl.width - tl.gutter);
  let best = -1, gap = slack;
  for (let n = tl.firstAfter(list, at - slack); n < list.length && list[n].a <= at + slack; n += 1) {
    const bar = list[n], d = Math.max(0, bar.a - at, at - bar.b);
    if (d < gap || (d === 0 && gap === 0)) { best = bar.i; gap = d; }
  }
  return best;
};

tl.redraw = () => { if (!tl.queued) { tl.queued = true; requestAnimationFrame(() => tl.draw()); } };
tl.show = (a, b) => {
  const least = Math.min(tl.span, 0.05), wide = Math.min(tl.span, Math.max(least, b - a));
  tl.from = Math.min(Math.max(0, a), tl.span - wide);
  tl.to = tl.from + wide;
  tl.redraw();
};
tl.zoom = (factor, centre = (tl.from + tl.to) / 2) => tl.show(centre - (centre - tl.from) * factor, centre + (tl.to - centre) * factor);
tl.pan = (part) => tl.show(tl.from + (tl.to - tl.from) * part, tl.to + (tl.to - tl.from) * part);
tl.reveal = (i) => {
  const o = ops[i], wide = tl.to - tl.from;
  if (o.a >= tl.from && o.b <= tl.to && tl.x(o.b) - tl.x(o.a) > 24) { tl.redraw(); return; }
  const want = Math.min(wide, Math.max((o.b - o.a) * 12, 1));
  tl.show((o.a + o.b - want) / 2, (o.a + o.b + want) / 2);
};
tl.colour = (o) => (tl.colourBy === 'kind' ? colours[o.kind] : boundColour(o));
