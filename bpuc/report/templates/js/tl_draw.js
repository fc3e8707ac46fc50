// Time line, drawing: axis, bars by lane, labels and the overview; the tracks below are in tl_tracks.js.
{
  const { canvas, map } = tl;
  const font = '11px system-ui, sans-serif';

  function fit(c, height) {
    const ratio = window.devicePixelRatio || 1, width = canvas.parentElement.clientWidth || 600;
    tl.width = width;
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

  tl.draw = () => {
    tl.queued = false;
    tl.width = canvas.parentElement.clientWidth || 600;
    const height = tl.trackTop(tracks.list.length);
    const g = fit(canvas, height);
    tl.gutter = tl.narrow() ? 0 : 124;
    axis(g, height);
    g.save();
    g.beginPath();
    g.rect(tl.gutter, 0, tl.width - tl.gutter, height);
    g.clip();
    tl.lanes.forEach((lane, k) => bars(g, lane, tl.laneTop(k), tl.LANE - 8));
    tracks.draw(g);
    if (tl.cursor > tl.gutter) { g.fillStyle = colours.soft; g.fillRect(Math.round(tl.cursor), tl.AXIS, 1, height); }
    g.restore();
    labels(g);
    overview();
    $('tl-range').textContent = `${time(tl.from)} – ${time(tl.to)}`;
  };

  const nice = (s) => {
    const p = 10 ** Math.floor(Math.log10(s));
    return [1, 2, 5, 10].find((m) => m * p >= s) * p;
  };
  const tick = (us, step) => {
    const [f, unit] = tl.to >= 1e6 && step >= 1e3 ? [1e6, 's'] : tl.to >= 2e3 && step >= 1 ? [1e3, 'ms'] : [1, 'us'];
    return `${(us / f).toFixed(Math.max(0, Math.ceil(-Math.log10(step / f) - 1e-9)))} ${unit}`;
  };
  function axis(g, height) {
    const step = nice((tl.to - tl.from) / Math.max(2, (tl.width - tl.gutter) / 90));
    g.textAlign = 'left';
    for (let i = Math.ceil(tl.from / step); i * step <= tl.to; i += 1) {
      const px = Math.round(tl.x(i * step)) + 0.5;
      g.fillStyle = colours.grid;
      g.fillRect(px, tl.AXIS - 4, 1, height - tl.AXIS);
      g.fillStyle = colours.soft;
      const text = tick(i * step, step);
      if (px + 3 + g.measureText(text).width < tl.width) g.fillText(text, px + 3, 9);
    }
  }

  function bars(g, lane, top, h) {
    const { words, width } = tl;
    for (let k = tl.firstAfter(lane.bars, tl.from); k < lane.bars.length; k += 1) {
      const { i, a, b } = lane.bars[k], o = ops[i];
      if (a > tl.to) break;
      const left = Math.max(tl.x(a), tl.gutter - 2), w = Math.max(1, Math.min(tl.x(b), width + 2) - left);
      const dim = words.length && !matches(i, words);
      g.globalAlpha = dim ? 0.16 : i === tl.hover ? 0.8 : 1;
      g.fillStyle = tl.colour(o);
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

  function labels(g) {
    g.textAlign = 'left';
    tl.lanes.forEach((lane, k) => {
      const part = `${(100 * lane.busy).toFixed(0)} %`;
      g.fillStyle = colours.ink;
      if (tl.narrow()) g.fillText(`${lane.label}  ${part}`, 2, tl.laneTop(k) - 7, tl.width - 4);
      else {
        g.fillText(lane.label, 0, tl.laneTop(k) + 11, tl.gutter - 48);
        g.fillStyle = colours.soft;
        g.textAlign = 'right';
        g.fillText(part, tl.gutter - 10, tl.laneTop(k) + 11);
        g.textAlign = 'left';
      }
    });
    tracks.list.forEach((track, k) => {
      const top = tl.trackTop(k), name = `${tr(track.label)}${track.mean && !tl.narrow() ? '' : ` ${track.mean ?? ''}`}`;
      const lines = [name, `${tr('peak')} ${track.text(track.peak)}`, track.roof ? `${tr('roof')} ${track.text(track.roof)}` : ''];
      g.fillStyle = colours.ink;
      if (tl.narrow()) g.fillText(lines.filter(Boolean).join('  '), 2, top - 7, tl.width - 4);
      else {
        lines.forEach((s, n) => { g.fillStyle = n ? colours.soft : colours.ink; g.fillText(s, 0, top + 8 + 15 * n, tl.gutter - 8); });
        g.textAlign = 'right';
        g.fillText(track.mean ?? '', tl.gutter - 10, top + 8);
        g.textAlign = 'left';
      }
    });
  }

  function overview() {
    const g = fit(map, 26), { width, span, lanes, words } = tl, at = (v) => v / span * width, h = Math.max(1, Math.floor(22 / Math.max(1, lanes.length)));
    g.fillStyle = colours.bg;
    g.fillRect(0, 0, width, 26);
    lanes.forEach((lane, k) => {
      for (const { i, a, b } of lane.bars) {
        g.fillStyle = tl.colour(ops[i]);
        g.globalAlpha = words.length && !matches(i, words) ? 0.15 : 1;
        g.fillRect(at(a), 2 + k * h, Math.max(0.6, at(b) - at(a)), Math.max(1, h - 1));
      }
    });
    g.globalAlpha = 0.62;
    g.fillStyle = colours.paper;
    g.fillRect(0, 0, at(tl.from), 26);
    g.fillRect(at(tl.to), 0, width - at(tl.to), 26);
    g.globalAlpha = 1;
    g.strokeStyle = colours.accent;
    g.lineWidth = 1.5;
    g.strokeRect(at(tl.from) + 0.75, 0.75, Math.max(3, at(tl.to) - at(tl.from)) - 1.5, 24.5);
  }
}
