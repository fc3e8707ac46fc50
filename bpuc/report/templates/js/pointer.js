// What a finger or a mouse does on a canvas, as moves: drag pans, a wheel or two fingers zoom, a click picks.
// act: { pan(dx, dy) in px, zoom(factor, x, y), hover(x, y, event or null), click(x, y), open(x, y), home() }
function navigate(canvas, act) {
  const local = (e) => { const r = canvas.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
  const pointers = new Map();
  let moved = 0;
  canvas.addEventListener('pointerdown', (e) => {
    canvas.setPointerCapture(e.pointerId);
    pointers.set(e.pointerId, local(e));
    moved = 0;
  });
  canvas.addEventListener('pointermove', (e) => {
    const before = pointers.get(e.pointerId), now = local(e);
    if (before === undefined) { act.hover(...now, e); return; }
    const dx = now[0] - before[0], dy = now[1] - before[1];
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== e.pointerId)[1];
      const far = (p) => Math.max(10, Math.hypot(p[0] - other[0], p[1] - other[1]));
      act.zoom(far(before) / far(now), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      moved = 99;
    } else {
      moved += Math.abs(dx) + Math.abs(dy);
      if (moved > 3) act.pan(dx, dy);
    }
    pointers.set(e.pointerId, now);
    act.hover(0, 0, null);
  });
  const up = (e) => {
    if (pointers.delete(e.pointerId) && e.type === 'pointerup' && moved <= 3) act.click(...local(e));
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('pointerleave', () => act.hover(0, 0, null));
  canvas.addEventListener('dblclick', (e) => act.open(...local(e)));
  canvas.addEventListener('wheel', (e) => {
    const mine = e.ctrlKey || e.metaKey || document.activeElement === canvas;
    const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey;
    if (!mine && !sideways) return;  // the page scrolls
    e.preventDefault();
    const lines = e.deltaMode === 1 ? 16 : 1;
    if (sideways) act.pan(-(e.deltaX || e.deltaY) * lines, 0);
    else act.zoom(Math.exp(Math.max(-400, Math.min(400, e.deltaY * lines)) * 0.002), ...local(e));
  }, { passive: false });
}
function onKeys(canvas, keys) {
  canvas.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });
}
