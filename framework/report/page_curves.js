// Charts of what runs wrote while they trained, and of their results against what they cost.

// ---- learning curves

const curves = data.curves.filter((curve) => curve.layer === undefined);
const traces = data.curves.filter((curve) => curve.layer !== undefined);
const curveKey = (curve) => curve.split + '\u0000' + curve.metric;
function curveName(key) {
  const [split, metric] = key.split('\u0000');
  return metric.startsWith(split) ? heading(metric) : split + ' ' + heading(metric);
}

const bandAlpha = () => (isDark() ? .2 : .13);
function bandOf(curve, group, scale, log, background) {
  const common = {group, borderWidth: 0, pointRadius: 0, label: '', fill: false, pointHitRadius: 0};
  // A logarithmic axis has no place for a lower edge at or below zero.
  const floor = log ? .5 * curve.y.reduce((a, b) => Math.min(a, b), Infinity) : -Infinity;
  const edge = (sign) => data.steps[curve.x].map((step, at) => ({x: step, y: scale * Math.max(floor, curve.y[at] + sign * curve.sd[at])}));
  return [{...common, data: edge(-1)}, {...common, data: edge(1), fill: '-1', backgroundColor: background}];
}
function curveSets(list) {
  const sets = [];
  for (const curve of list) {
    const scale = unit(curve.metric), x = data.steps[curve.x], colour = colourOf(curve.a);
    const name = data.attentions[curve.a];
    sets.push({
      group: curve.a, label: name, borderColor: colour, backgroundColor: colour, borderWidth: 2,
      borderDash: dashOf(curve.a), pointStyle: shapes[curve.a % shapes.length],
      pointRadius: x.length > 12 ? 0 : 3.5, pointHitRadius: 6, fill: false,
      data: x.map((step, at) => ({x: step, y: scale * curve.y[at], sd: curve.sd ? scale * curve.sd[at] : null})),
      told: (point) => `${name}: ${numberText(point.y)}` + (point.sd === null ? '' : ` ± ${numberText(point.sd)}`),
    });
  }
  // Bands after the curves in the list are drawn below them.
  for (const curve of list) {
    if (curve.sd && data.steps[curve.x].length > 1) {
      sets.push(...bandOf(curve, curve.a, unit(curve.metric), state.log, faded(colourOf(curve.a), bandAlpha())));
    }
  }
  return sets;
}
const stepTitle = (items) => (items.length ? 'step ' + numberText(items[0].raw.x) : '');

// The metric of the comparison where it was followed, else the loss.
function firstCurve(keys, experiment) {
  const metric = data.metric_of[experiment];
  const wanted = ['validation\u0000' + metric, 'test\u0000' + metric, 'train\u0000loss'];
  const many = (key) => curves.some((curve) => curveKey(curve) === key && curve.y.length > 1);
  return wanted.find((key) => keys.includes(key) && many(key)) || keys.find(many) || keys[0];
}
function drawCurves() {
  const box = byId('curves-charts'), controls = byId('curves-controls');
  if (!box) return;
  clear(box);
  controls.replaceChildren();
  const experiment = experimentChoice(controls, experimentsOf(curves));
  const here = curves.filter((curve) => curve.e === experiment);
  const keys = [...new Set(here.map(curveKey))];
  if (!keys.includes(state.curve)) state.curve = firstCurve(keys, experiment);
  choice(controls, 'Metric', keys.map((key) => [key, curveName(key)]), state.curve, (value) => { state.curve = value; drawCurves(); });
  const shown = here.filter((curve) => curveKey(curve) === state.curve).sort((a, b) => a.a - b.a);
  const positive = shown.every((curve) => curve.y.every((value) => value > 0));
  if (!positive) state.log = false;
  if (positive) choice(controls, 'Scale', [['linear', 'linear'], ['log', 'logarithmic']], state.log ? 'log' : 'linear', (value) => { state.log = value === 'log'; drawCurves(); });
  const name = curveName(state.curve);
  const canvas = canvasIn(box, '', `${name} over steps on ${data.experiments[experiment]}, a curve for each of: ` + shown.map((curve) => data.attentions[curve.a]).join(', '));
  draw(canvas, 'line', curveSets(shown), {x: axis('step', 'linear'), y: axis(name, state.log ? 'logarithmic' : 'linear')}, stepTitle);
}

// ---- traces

// "key_norm_mean/other" is one line of the quantity "key_norm_mean/": kinds of tokens side by side.
const quantityOf = (metric) => metric.slice(0, metric.indexOf('/') + 1) || metric;
const quantityName = (quantity) => quantity.replace(/\/$/, ' by kind').replaceAll('_', ' ');
const kindOf = (trace) => trace.metric.slice(quantityOf(trace.metric).length).replaceAll('_', ' ');

function traceSets(list, name, nameOf) {
  const names = [...new Set(list.map(nameOf))];
  const sets = list.map((trace) => {
    const at = names.indexOf(nameOf(trace)), colour = layerColour(at, names.length);
    const x = data.steps[trace.x], label = name + nameOf(trace);
    return {
      group: label, label, borderColor: colour, backgroundColor: colour,
      borderWidth: 1.8, borderDash: dashOf(at), pointStyle: 'line', pointRadius: x.length > 1 ? 0 : 3, pointHitRadius: 6,
      fill: false, data: x.map((step, i) => ({x: step, y: trace.y[i], sd: trace.sd ? trace.sd[i] : null})),
      told: (point) => `${label}: ${numberText(point.y)}` + (point.sd === null ? '' : ` ± ${numberText(point.sd)}`),
    };
  });
  list.forEach((trace, i) => {
    if (!trace.sd || trace.y.length < 2) return;
    sets.push(...bandOf(trace, sets[i].group, 1, false, layerColour(names.indexOf(nameOf(trace)), names.length, bandAlpha())));
  });
  return sets;
}
// From the lowest to the highest of what a chart shows, so that charts side by side have one scale.
function reachOf(values) {
  return values.length === 0 ? {} : {
    suggestedMin: values.reduce((a, b) => Math.min(a, b), Infinity),
    suggestedMax: values.reduce((a, b) => Math.max(a, b), -Infinity),
  };
}
function drawTraces() {
  const box = byId('traces-charts'), controls = byId('traces-controls');
  if (!box) return;
  clear(box);
  controls.replaceChildren();
  box.classList.add('many');
  const experiment = experimentChoice(controls, experimentsOf(traces));
  const here = traces.filter((trace) => trace.e === experiment);
  const quantities = [...new Set(here.map((trace) => quantityOf(trace.metric)))];
  if (!quantities.includes(state.trace)) state.trace = quantities.includes('logit_max') ? 'logit_max' : quantities[0];
  choice(controls, 'Quantity', quantities.map((name) => [name, quantityName(name)]), state.trace, (value) => { state.trace = value; drawTraces(); });
  let shown = here.filter((trace) => quantityOf(trace.metric) === state.trace);
  const byKind = state.trace.endsWith('/'), layers = [...new Set(shown.map((trace) => trace.layer))];
  if (byKind) {
    if (!layers.includes(state.layer)) state.layer = layers[0];
    choice(controls, 'Layer', layers.map((layer) => [layer, layer]), state.layer, (value) => { state.layer = value; drawTraces(); });
    shown = shown.filter((trace) => trace.layer === state.layer);
  }
  const reach = reachOf(shown.flatMap((trace) => trace.y.flatMap((y, i) => (trace.sd ? [y - trace.sd[i], y + trace.sd[i]] : [y]))));
  const what = quantityName(state.trace) + (byKind && layers.length > 1 ? `, layer ${state.layer}` : '');
  for (const at of [...new Set(shown.map((trace) => trace.a))].sort((a, b) => a - b)) {
    const own = shown.filter((trace) => trace.a === at), name = data.attentions[at];
    const canvas = canvasIn(box, name, `${what}${byKind ? '' : ' of each layer'} over steps, ${name} on ${data.experiments[experiment]}`);
    const sets = byKind ? traceSets(own, '', kindOf) : traceSets(own, 'layer ', (trace) => trace.layer);
    draw(canvas, 'line', sets, {x: axis('step', 'linear'), y: {...axis(what, 'linear'), ...reach}}, stepTitle);
  }
}

// ---- the bias on the logits, by relative position

function biasSets(bias) {
  return bias.heads.map((head, at) => {
    const colour = layerColour(at, bias.heads.length), label = `head ${at}`;
    return {
      group: label, label, borderColor: colour, backgroundColor: colour, borderWidth: 1.8, borderDash: dashOf(at),
      pointStyle: 'line', pointRadius: head.length > 1 ? 0 : 3, pointHitRadius: 6, fill: false,
      data: head.map((y, column) => ({x: bias.first + column, y})),
      told: (point) => `${label}: ${numberText(point.y)}`,
    };
  });
}
function drawBias() {
  const box = byId('bias-charts'), controls = byId('bias-controls');
  if (!box) return;
  clear(box);
  controls.replaceChildren();
  box.classList.add('many');
  const experiment = experimentChoice(controls, experimentsOf(data.biases));
  const here = data.biases.filter((bias) => bias.e === experiment);
  const attentions = [...new Set(here.map((bias) => bias.a))].sort((a, b) => a - b);
  if (!attentions.includes(state.biasOf)) state.biasOf = attentions[0];
  choice(controls, 'Attention', attentions.map((at) => [String(at), data.attentions[at]]), state.biasOf, (value) => { state.biasOf = Number(value); drawBias(); });
  const own = here.filter((bias) => bias.a === state.biasOf), seeds = [...new Set(own.map((bias) => bias.seed))];
  if (!seeds.includes(state.seed)) state.seed = seeds[0];
  choice(controls, 'Seed', seeds.map((seed) => [String(seed), String(seed)]), state.seed, (value) => { state.seed = Number(value); drawBias(); });
  const shown = own.filter((bias) => bias.seed === state.seed), name = data.attentions[state.biasOf];
  const reach = reachOf(shown.flatMap((bias) => bias.heads.flat()).filter((value) => value !== null));
  for (const bias of shown) {
    const where = `layer ${bias.layer}, step ${numberText(bias.step)}`;
    const canvas = canvasIn(box, where, `mean bias of each head by relative position, ${where}, ${name} with seed ${bias.seed} on ${data.experiments[experiment]}`);
    const title = (items) => (items.length ? 'key − query: ' + numberText(items[0].raw.x) : '');
    draw(canvas, 'line', biasSets(bias), {x: axis('place of the key − place of the query', 'linear'), y: {...axis('bias', 'linear'), ...reach}}, title);
  }
}

// ---- what is compared against cost

function drawCost() {
  const box = byId('cost-charts'), controls = byId('cost-controls');
  clear(box);
  controls.replaceChildren();
  if (data.points.length === 0) return nothing(box, 'No run that is done has recorded a cost.');
  const experiment = experimentChoice(controls, experimentsOf(data.points));
  const here = data.points.filter((point) => point.e === experiment);
  const costs = data.costs.filter((cost) => here.some((point) => cost.name in point.costs));
  if (!costs.some((cost) => cost.name === state.cost)) state.cost = (costs.find((cost) => cost.better === 'higher') || costs[0]).name;
  choice(controls, 'Cost', costs.map((cost) => [cost.name, cost.heading]), state.cost, (value) => { state.cost = value; drawCost(); });
  const cost = costs.find((one) => one.name === state.cost), metric = data.metric_of[experiment], scale = unit(metric);
  const sets = here.filter((point) => cost.name in point.costs).map((point) => {
    const colour = colourOf(point.a), name = data.attentions[point.a];
    return {
      group: point.a, label: name, borderColor: colour, backgroundColor: faded(colour, .35), borderWidth: 2,
      pointStyle: shapes[point.a % shapes.length], pointRadius: 8, pointHoverRadius: 9,
      data: [{x: point.costs[cost.name] * cost.scale, y: scale * point.y, sd: scale * point.sd}],
      told: (at) => `${name}: ${numberText(at.y)} at ${numberText(at.x)}`,
    };
  });
  const reach = sets.flatMap((set) => set.data.flatMap((at) => [at.y - at.sd, at.y + at.sd]));
  const low = Math.min(...reach), high = Math.max(...reach), margin = .08 * (high - low) || Math.abs(high) * .02 || 1;
  const y = {...axis(heading(metric), 'linear'), suggestedMin: low - margin, suggestedMax: high + margin};
  const canvas = canvasIn(box, '', `${heading(metric)} against ${cost.heading} on ${data.experiments[experiment]}`);
  draw(canvas, 'scatter', sets, {x: {...axis(cost.heading, 'linear'), grace: '8%'}, y}, () => cost.heading);
}
