// The ops table: rows come from the page; this sorts, filters and groups them. Only rows that match are in the document.
const table = (() => {
  const tbody = $('ops-table').tBodies[0], rows = [...tbody.rows], heads = [...document.querySelectorAll('#ops-table th')];
  const collator = new Intl.Collator('en', { numeric: true });
  const value = {
    name: (o) => o.name, op: (o) => o.op, engine: (o) => (o.engine === none ? o.device : o.engine), bound: (o) => o.bound, dtype: (o) => o.dtype,
    shape: (o) => o.shape, share: (o) => o.latency_us,
  };
  const keys = {
    type: (o) => o.op, engine: (o) => `${o.device} ${o.engine}`, bound: (o) => bound(o), segment: (o) => o.segment ?? none,
    module: (o) => (o.onnx_nodes[0] ?? o.name).split(/[/.]/).filter(Boolean).slice(0, -1).slice(0, 2).join('/') || none,
  };
  const filter = $('ops-filter');
  let sortKey = null, down = false, group = 'none', shown = ops.map((_, i) => i), lastMs = 0;
  const closed = new Set();

  function compare(a, b) {
    const get = value[sortKey] ?? ((o) => o[sortKey]);
    const p = get(ops[a]), q = get(ops[b]);
    const emptyP = p === null || p === none, emptyQ = q === null || q === none;
    if (emptyP || emptyQ) return emptyP - emptyQ || a - b;  // what is absent comes last either way
    const order = isNum(p) ? p - q : collator.compare(p, q);
    return (down ? -order : order) || a - b;
  }

  function apply() {
    const begin = performance.now();
    const words = wordsOf(filter.value);
    shown = ops.map((_, i) => i).filter((i) => matches(i, words));
    if (sortKey) shown.sort(compare);
    const out = group === 'none' ? shown.map((i) => rows[i]) : grouped();
    tbody.replaceChildren(...out);
    for (const h of heads) {
      if (h.dataset.key === sortKey) h.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else h.removeAttribute('aria-sort');
    }
    count();
    lastMs = performance.now() - begin;
  }
  const count = () => { $('ops-count').textContent = `${shown.length} / ${ops.length} ${tr('shown')}`; };

  function grouped() {
    const parts = new Map();
    for (const i of shown) {
      const k = keys[group](ops[i]);
      if (!parts.has(k)) parts.set(k, []);
      parts.get(k).push(i);
    }
    const sum = (list, key) => list.reduce((s, i) => s + (ops[i][key] ?? 0), 0);
    const order = [...parts].sort((a, b) => sum(b[1], 'latency_us') - sum(a[1], 'latency_us'));
    return order.flatMap(([k, list]) => {
      const us = sum(list, 'latency_us'), name = `${k} (${list.length})`;
      const cell = (css, text) => el('td', { className: css, textContent: text });
      const head = el('tr', { className: 'group' },
        el('td', { className: 'n' }, el('button', { type: 'button', textContent: name })), cell('', ''), cell('c2', ''), cell('num c3', ''),
        cell('num', us.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 })), cell('num c2', share(us)),
        cell('num c3', three(sum(list, 'compute_us'))), cell('num c3', three(sum(list, 'transfer_us'))), cell('num c2', macs(sum(list, 'macs'))),
        cell('num c3', size(sum(list, 'read_bytes'))), cell('num c3', size(sum(list, 'write_bytes'))));
      const id = `${group} ${k}`;
      head.setAttribute('aria-expanded', String(!closed.has(id)));
      head.addEventListener('click', () => { if (!closed.delete(id)) closed.add(id); apply(); });
      return closed.has(id) ? [head] : [head, ...list.map((i) => rows[i])];
    });
  }

  function sort(key, descending) {
    sortKey = key;
    down = descending;
    apply();
  }
  for (const h of heads) {
    h.firstElementChild.addEventListener('click', () => {
      const text = ['name', 'op', 'engine', 'bound', 'dtype', 'shape', 'start_us'].includes(h.dataset.key);
      sort(h.dataset.key, sortKey === h.dataset.key ? !down : !text);
    });
  }
  const setFilter = (text) => { filter.value = text; apply(); };
  filter.addEventListener('input', apply);
  $('ops-group').addEventListener('change', (e) => { group = e.target.value; apply(); });
  for (const b of document.querySelectorAll('[data-filter-type]')) {
    b.addEventListener('click', () => { setFilter(b.dataset.filterType); $('ops').scrollIntoView(); });
  }
  tbody.addEventListener('click', (e) => {
    const row = e.target.closest('tr[data-i]');
    if (row) select(Number(row.dataset.i), 'table');
  });
  $('ops-scroll').addEventListener('keydown', (e) => {
    if (!['ArrowDown', 'ArrowUp'].includes(e.key) || !shown.length) return;
    e.preventDefault();
    const visible = [...tbody.rows].filter((r) => r.dataset.i !== undefined), at = visible.indexOf(rows[picked]);
    const next = visible[Math.max(0, Math.min(visible.length - 1, at + (e.key === 'ArrowDown' ? 1 : -1)))];
    if (next) { select(Number(next.dataset.i), 'table'); next.scrollIntoView({ block: 'nearest' }); }
  });
  let last = null;
  on('select', (i, who) => {
    last?.classList.remove('picked');
    last = rows[i] ?? null;
    last?.classList.add('picked');
    if (last?.isConnected && who !== 'table' && who !== 'details') {  // inside its box, the page stays where it is
      const box = $('ops-scroll'), at = last.offsetTop - box.clientHeight / 2;
      if (last.offsetTop < box.scrollTop + 34 || last.offsetTop + 30 > box.scrollTop + box.clientHeight) box.scrollTop = at;
    }
    if (last && who === 'details') {
      if (!last.isConnected) { closed.clear(); setFilter(''); }
      last.scrollIntoView({ block: 'center' });
    }
  });
  on('lang', () => {
    for (const r of rows) for (const e of r.querySelectorAll('[data-t]')) e.textContent = tr(e.dataset.t);  // also those that a filter hides
    apply();
  });
  apply();
  return { sort, setFilter, shown: () => shown.length, order: () => shown, total: rows.length, lastMs: () => lastMs };
})();
