// Charts of pooled runs: a grid's metrics by the values of an axis, distributions over runs, and
// metrics over a number in their names.

// ---- over the grid

const wholeGrid = 'attention';  // the choice that pools all points

function gridMetrics(grid) {
  const names = new Set(grid.metrics);
  for (const cell of data.cells) {
    if (cell.e === grid.all) Object.keys(cell.metrics).forEach((name) => names.add(name));
  }
  return [...names];
}
// One attention's mean and interval in each slice; side by side where they would lie on each other.
function gridPoints(slices, attention, metric, shift) {
  const scale = unit(metric);
  return slices.flatMap((slice, at) => {
    const cell = data.cells.find((one) => one.e === slice && one.a === attention);
    if (!cell || !(metric in cell.metrics)) return [];
    const [mean, low, high, runs] = cell.metrics[metric];
    return [{x: at + shift, y: scale * mean, low: scale * low, high: scale * high, runs}];
  });
}
function gridSets(grid, axisOf, metric) {
  const attentions = [...new Set(data.cells.filter((cell) => cell.e === grid.all).map((cell) => cell.a))].sort((a, b) => a - b);
  return attentions.map((attention, at) => {
    const colour = colourOf(attention), name = data.attentions[attention];
    const step = Math.min(.11, .7 / attentions.length);
    const points = axisOf ? gridPoints(axisOf.slices, attention, metric, (at - (attentions.length - 1) / 2) * step)
      : gridPoints([grid.all], attention, metric, at);
    return {
      group: attention, label: name, borderColor: colour, backgroundColor: faded(colour, .35),
      borderWidth: 1.5, borderDash: dashOf(attention), showLine: Boolean(axisOf), fill: false, clip: 9,
      pointStyle: shapes[attention % shapes.length], pointRadius: 6, pointHoverRadius: 7, data: points,
      told: (point) => `${name}: ${numberText(point.y)} [${numberText(point.low)}, ${numberText(point.high)}] of ${point.runs} runs`,
    };
  });
}
// A linear axis whose ticks are words at 0, 1, 2...
function wordAxis(title, words) {
  return {
    ...axis(title, 'linear'), min: -.5, max: words.length - .5,
    afterBuildTicks: (scale) => { scale.ticks = words.map((word, at) => ({value: at})); },
    ticks: {color: variable('--soft'), maxRotation: 40, autoSkip: false, callback: (value) => words[value]},
    grid: {display: false},
  };
}
function drawGrid() {
  const box = byId('grid-charts'), controls = byId('grid-controls');
  if (!box) return;
  clear(box);
  controls.replaceChildren();
  if (!(state.grid < data.grids.length)) state.grid = 0;
  choice(controls, 'Experiment', data.grids.map((grid, at) => [String(at), grid.base]), state.grid, (value) => { state.grid = Number(value); drawGrid(); });
  const grid = data.grids[state.grid], metrics = gridMetrics(grid);
  if (!metrics.includes(state.metric)) state.metric = metrics[0];
  choice(controls, 'Metric', metrics.map((name) => [name, heading(name)]), state.metric, (value) => { state.metric = value; drawGrid(); });
  const ways = [...grid.axes.map((one) => one.axis), wholeGrid];
  if (!ways.includes(state.by)) state.by = ways[0];
  choice(controls, 'By', ways.map((name) => [name, name]), state.by, (value) => { state.by = value; drawGrid(); });
  const axisOf = grid.axes.find((one) => one.axis === state.by), sets = gridSets(grid, axisOf, state.metric);
  if (sets.every((set) => set.data.length === 0)) return nothing(box, `No run that is done has recorded ${heading(state.metric)}.`);
  const words = axisOf ? axisOf.values : sets.map((set) => set.label);
  const share = (data.metrics[state.metric] || {}).share, name = heading(state.metric);
  const highest = sets.flatMap((set) => set.data.map((point) => point.high)).reduce((a, b) => Math.max(a, b), 0);
  const reach = share ? {min: 0, max: Math.min(100, Math.ceil(highest / 10 + .2) * 10)} : {grace: '5%'};
  const title = axisOf ? `${state.by} (${data.experiments[grid.all]})` : data.experiments[grid.all];
  const canvas = canvasIn(box, '', `${name} by ${state.by} with intervals, ${title}, a mark for each of: ` + sets.map((set) => set.label).join(', '));
  const told = (items) => (items.length && axisOf ? `${state.by} = ${words[Math.round(items[0].raw.x)]}` : '');
  draw(canvas, 'scatter', sets, {x: wordAxis(title, words), y: {...axis(name, 'linear'), ...reach}}, told);
}

// ---- distributions

function binSets(one, scale, colour) {
  const runs = one.counts.reduce((a, b) => a + b, 0), width = (one.high - one.low) / one.counts.length;
  const name = data.attentions[one.a];
  return [{
    group: one.a, label: name, borderColor: colour, backgroundColor: faded(colour, .75), borderWidth: 0,
    barPercentage: 1, categoryPercentage: .94,
    data: one.counts.map((count, at) => ({x: scale * (one.low + (at + .5) * width), y: 100 * count / runs, count})),
    told: (point) => `${point.count} of ${runs} runs (${numberText(point.y)} %)`,
  }];
}
function drawDistributions() {
  const box = byId('distributions-charts'), controls = byId('distributions-controls');
  if (!box) return;
  clear(box);
  controls.replaceChildren();
  box.classList.add('many');
  const experiment = experimentChoice(controls, experimentsOf(data.histograms));
  const here = data.histograms.filter((one) => one.e === experiment);
  const metrics = [...new Set(here.map((one) => one.metric))];
  if (!metrics.includes(state.distribution)) state.distribution = metrics.includes(data.metric_of[experiment]) ? data.metric_of[experiment] : metrics[0];
  choice(controls, 'Metric', metrics.map((name) => [name, heading(name)]), state.distribution, (value) => { state.distribution = value; drawDistributions(); });
  const shown = here.filter((one) => one.metric === state.distribution).sort((a, b) => a.a - b.a);
  const scale = unit(state.distribution), name = heading(state.distribution);
  const highest = Math.max(...shown.map((one) => 100 * Math.max(...one.counts) / one.counts.reduce((a, b) => a + b, 0)));
  for (const one of shown) {
    const runs = one.counts.reduce((a, b) => a + b, 0), who = data.attentions[one.a], half = (one.high - one.low) / one.counts.length / 2;
    const canvas = canvasIn(box, `${who} (${runs} runs)`, `Distribution of ${name} over ${runs} runs of ${who} on ${data.experiments[experiment]}`);
    const title = (items) => (items.length ? `${name} ${numberText(items[0].raw.x - scale * half)} to ${numberText(items[0].raw.x + scale * half)}` : '');
    const x = {...axis(name, 'linear'), min: scale * one.low, max: scale * one.high, offset: false, grid: {color: variable('--grid'), offset: false}};
    draw(canvas, 'bar', binSets(one, scale, colourOf(one.a)), {x, y: {...axis('runs (%)', 'linear'), min: 0, suggestedMax: highest}}, title);
  }
}

// ---- metrics over a number

const ladderName = (ladder) => `${ladder.heading} over ${ladder.over}`;
function ladderSets(list) {
  return list.map((ladder) => {
    const colour = colourOf(ladder.a), name = data.attentions[ladder.a], scale = ladder.scale;
    return {
      group: ladder.a, label: name, borderColor: colour, backgroundColor: faded(colour, .35),
      borderWidth: 2, borderDash: dashOf(ladder.a), showLine: true, fill: false, clip: 9,
      pointStyle: shapes[ladder.a % shapes.length], pointRadius: 5, pointHoverRadius: 6,
      data: ladder.rungs.map(([x, y, sd, runs]) => ({x, y: scale * y, sd: scale * sd, runs})),
      told: (point) => `${name}: ${numberText(point.y)}` + (point.runs > 1 ? ` ± ${numberText(point.sd)}` : ''),
    };
  });
}
function drawLadders() {
  const box = byId('ladders-charts'), controls = byId('ladders-controls');
  if (!box) return;
  clear(box);
  controls.replaceChildren();
  const experiment = experimentChoice(controls, experimentsOf(data.ladders));
  const here = data.ladders.filter((ladder) => ladder.e === experiment);
  const names = [...new Set(here.map(ladderName))];
  if (!names.includes(state.ladder)) state.ladder = names[0];
  choice(controls, 'Metric', names.map((name) => [name, name]), state.ladder, (value) => { state.ladder = value; drawLadders(); });
  const shown = here.filter((ladder) => ladderName(ladder) === state.ladder).sort((a, b) => a.a - b.a);
  const numbers = shown.flatMap((ladder) => ladder.rungs.map((rung) => rung[0]));
  // Numbers that double from one to the next stand at equal distances.
  const far = Math.min(...numbers) > 0 && Math.max(...numbers) >= 16 * Math.min(...numbers);
  const canvas = canvasIn(box, '', `${state.ladder} on ${data.experiments[experiment]}, a line for each of: ` + shown.map((ladder) => data.attentions[ladder.a]).join(', '));
  const x = {...axis(shown[0].over, far ? 'logarithmic' : 'linear'), grace: far ? 0 : '5%'};
  draw(canvas, 'scatter', ladderSets(shown), {x, y: {...axis(shown[0].heading, 'linear'), grace: '5%'}}, (items) => (items.length ? `${shown[0].over} = ${numberText(items[0].raw.x)}` : ''));
}
