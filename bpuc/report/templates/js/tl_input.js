// Time line, input: pointer, keys, buttons, and the overview as a handle.
{
  const { canvas, map } = tl;
  const per = () => (tl.to - tl.from) / (tl.width - tl.gutter);
  navigate(canvas, {
    pan: (dx) => tl.show(tl.from - dx * per(), tl.to - dx * per()),
    zoom: (factor, x) => tl.zoom(factor, tl.t(x)),
    hover: (x, y, e) => {
      const was = [tl.hover, tl.cursor], held = e && tracks.at(x, y);
      tl.hover = e ? tl.opAt(x, y) : -1;
      tl.cursor = held ? x : -1;
      if (tl.hover >= 0) tip.op(tl.hover, e);
      else if (held) tip.values(time(tl.t(x)), held, e);
      else tip.hide();
      if (was[0] !== tl.hover || was[1] !== tl.cursor) tl.redraw();
    },
    click: (x, y) => { const i = tl.opAt(x, y); if (i >= 0) select(i, 'timeline'); },
    open: () => tl.show(0, tl.span),
  });
  const step = (d) => { const s = tl.order; if (s.length) select(s[(s.indexOf(picked) + d + s.length) % s.length], 'timeline'); };
  onKeys(canvas, {
    ArrowLeft: () => tl.pan(-0.1), ArrowRight: () => tl.pan(0.1), '+': () => tl.zoom(0.7), '=': () => tl.zoom(0.7), '-': () => tl.zoom(1 / 0.7),
    0: () => tl.show(0, tl.span), Home: () => tl.show(0, tl.to - tl.from), End: () => tl.show(tl.span - (tl.to - tl.from), tl.span),
    n: () => step(1), p: () => step(picked < 0 ? 0 : -1), Enter: () => picked >= 0 && select(picked, 'details'),
  });
  const drag = (e) => {
    const c = (e.clientX - map.getBoundingClientRect().left) / map.clientWidth * tl.span, half = (tl.to - tl.from) / 2;
    if (e.type === 'pointerdown') map.setPointerCapture(e.pointerId);
    if (e.buttons) tl.show(c - half, c + half);
  };
  map.addEventListener('pointerdown', drag);
  map.addEventListener('pointermove', drag);
  $('tl-in').addEventListener('click', () => tl.zoom(0.5));
  $('tl-out').addEventListener('click', () => tl.zoom(2));
  $('tl-fit').addEventListener('click', () => tl.show(0, tl.span));
  $('tl-colour').addEventListener('change', (e) => {
    tl.colourBy = e.target.value;
    for (const li of $('tl-legend').children) li.hidden = li.dataset.for !== tl.colourBy;
    tl.redraw();
  });
  on('theme', tl.redraw);
  on('lang', tl.redraw);
  on('find', () => { tl.words = find.words; tl.redraw(); });
  on('select', (i, who) => { if (i >= 0 && who !== 'timeline') tl.reveal(i); else tl.redraw(); });
  new ResizeObserver(tl.redraw).observe(canvas.parentElement);
}
