// Starts the page, and says what tests may ask.
begin();
tl.draw();
graph.draw();
on('print', () => { tl.draw(); graph.draw(); });

const took = (f) => { const a = performance.now(); f(); return performance.now() - a; };
window.bpucReport = {
  ops: ops.length, bars: tl.lanes.reduce((s, l) => s + (l.device === 'DDR' ? 0 : l.bars.length), 0), transfers: data.transfers.length, rows: table.total, lanes: tl.lanes.length, points: roofline.count, span: tl.span,
  nodes: graph.count, edges: graph.edges, tracks: tracks.list.map((t) => t.label), peaks: () => tracks.list.map((t) => t.peak),
  shown: table.shown, hits: () => find.hits.length, view: () => [tl.from, tl.to], show: tl.show, sort: table.sort, filter: table.setFilter, find: find.set,
  centreOf: (i) => [(tl.x(ops[i].a) + tl.x(ops[i].b)) / 2, tl.laneTop(tl.lanes.findIndex((l) => l.bars.some((bar) => bar.i === i))) + 10],
  graphView: graph.view, graphCentreOf: graph.centreOf, graphFit: graph.fit, graphTravel: graph.travel, graphZoom: graph.zoom,
  select, picked: () => picked, drawMs: () => took(tl.draw), graphMs: () => took(graph.draw), tableMs: table.lastMs,
};
