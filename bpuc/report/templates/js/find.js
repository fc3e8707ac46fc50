// One search for the time line and the graph: its words, the ops that match in order of time, and the fields that ask for it.
const find = { words: [], hits: [] };
{
  const fields = [...document.querySelectorAll('input.find')];
  find.set = (text) => {
    find.words = wordsOf(text);
    find.hits = find.words.length ? ops.map((_, i) => i).filter((i) => matches(i, find.words)).sort((a, b) => ops[a].a - ops[b].a) : [];
    for (const f of fields) if (f.value !== text) f.value = text;
    find.count();
    tell('find');
  };
  find.count = () => {
    for (const out of document.querySelectorAll('output.hits')) out.textContent = find.words.length ? `${find.hits.length} ${tr('hits')}` : '';
  };
  for (const f of fields) {
    f.addEventListener('input', () => find.set(f.value));
    f.addEventListener('keydown', (e) => {
      if (e.key !== 'Enter' || !find.hits.length) return;
      e.preventDefault();
      const n = find.hits.length, k = find.hits.indexOf(picked);
      select(find.hits[(k + (e.shiftKey ? -1 : 1) + n) % n], 'search');
    });
  }
  on('lang', find.count);
}
