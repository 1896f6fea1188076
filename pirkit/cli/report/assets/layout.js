// Layered layout of an acyclic graph (Sugiyama, Tagawa and Toda, 1981): an operation is below all
// that it reads; barycenters of neighbours order each layer and pull its nodes together.
const WIDTH = 190, HEIGHT = 38, ACROSS = 24, DOWN = 34;

function layered(nodes, edges) { // sets layer, x and y of each node; edges are pairs of indices
  const before = nodes.map(() => []), after = nodes.map(() => []);
  for (const [a, b] of edges) { before[b].push(a); after[a].push(b); }
  const left = before.map((list) => list.length), layer = nodes.map(() => 0);
  const ready = nodes.map((_, k) => k).filter((k) => !left[k]), order = [];
  while (ready.length) {
    const k = ready.pop();
    order.push(k);
    for (const b of after[k]) {
      layer[b] = Math.max(layer[b], layer[k] + 1);
      if (--left[b] === 0) ready.push(b);
    }
  }
  for (let k = order.length - 1; k >= 0; k--) { // what reads nothing stands right above its first user
    const node = order[k];
    if (!before[node].length && after[node].length) {
      layer[node] = Math.max(0, Math.min(...after[node].map((b) => layer[b])) - 1);
    }
  }
  const layers = [];
  nodes.forEach((node, k) => (layers[layer[k]] ||= []).push(k));
  for (let k = 0; k < layers.length; k++) layers[k] ||= [];
  const x = nodes.map(() => 0);
  for (const list of layers) list.forEach((k, i) => { x[k] = (i - (list.length - 1) / 2) * (WIDTH + ACROSS); });
  for (let sweep = 0; sweep < 6; sweep++) {
    const isDown = sweep % 2 === 0, near = isDown ? before : after;
    for (const list of isDown ? layers : [...layers].reverse()) {
      const wish = new Map(list.map((k) => [k, near[k].length ? near[k].reduce((s, o) => s + x[o], 0) / near[k].length : x[k]]));
      list.sort((a, b) => wish.get(a) - wish.get(b));
      let end = -Infinity, shift = 0;
      for (const k of list) {
        x[k] = Math.max(wish.get(k), end);
        shift += wish.get(k) - x[k];
        end = x[k] + WIDTH + ACROSS;
      }
      for (const k of list) x[k] += shift / list.length; // the layer as a whole stays where it wishes
    }
  }
  nodes.forEach((node, k) => {
    node.layer = layer[k];
    node.x = x[k];
    node.y = layer[k] * (HEIGHT + DOWN);
  });
}

// The aligned rows of two lists of numbers, [left, right] with null where one has no partner: numbers
// that both have once anchor the rest, in the longest ascending sequence (patience diff).
function aligned(left, right) {
  const place = new Map(right.map((item, k) => [item, k]));
  const tails = [], links = new Map(), pairs = [];
  left.forEach((item, k) => {
    const at = place.get(item);
    if (at === undefined) return;
    let low = 0, high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[tails[middle]][1] < at) low = middle + 1; else high = middle;
    }
    pairs.push([k, at]);
    links.set(pairs.length - 1, low ? tails[low - 1] : null);
    tails[low] = pairs.length - 1;
  });
  const kept = [];
  for (let k = tails.length ? tails[tails.length - 1] : null; k !== null; k = links.get(k)) kept.push(pairs[k]);
  const rows = [];
  let [a, b] = [0, 0];
  for (const [i, j] of [...kept.reverse(), [left.length, right.length]]) {
    rows.push(...paired(left.slice(a, i), right.slice(b, j)));
    if (i < left.length) rows.push([left[i], right[j]]);
    [a, b] = [i + 1, j + 1];
  }
  return rows;
}
