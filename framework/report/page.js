// What all of the page's scripts share: data, themes, tables that sort, colours, charts, controls.
// Names from the data reach the page as text alone (textContent, canvas), never as markup. The page
// holds page.js, page_curves.js, page_grid.js and page_start.js one after the other in
// one function.
const data = JSON.parse(document.getElementById('data').textContent);
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const say = (text) => { byId('said').textContent = text; };

// ---- themes

const darkSystem = matchMedia('(prefers-color-scheme: dark)');
const themes = ['auto', 'light', 'dark'];
let theme = 'auto';
const stored = (value) => {
  try {  // pages from files may have no storage
    if (value !== undefined) localStorage.setItem('attnlab-theme', value);
    return localStorage.getItem('attnlab-theme');
  } catch (refused) {
    return null;
  }
};
// Behind the address: #theme=dark, #only=grid&by=lr&metric=accuracy, for pictures made by a program.
const asked = new URLSearchParams(location.hash.slice(1));
let printing = false;
const isDark = () => !printing && (theme === 'dark' || (theme === 'auto' && darkSystem.matches));
function setTheme(value) {
  theme = themes.includes(value) ? value : 'auto';
  if (theme === 'auto') delete root.dataset.theme;
  else root.dataset.theme = theme;
  byId('theme').textContent = 'Theme: ' + theme;
}

// ---- sorting

function compareCells(a, b) {
  const x = Number(a), y = Number(b);
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, undefined, {numeric: true}) : x - y;
}
// What is missing stands last whichever the direction; equal rows keep their order.
function sortTable(table, column, descending) {
  const body = table.tBodies[0];
  const order = (row) => row.cells[column].dataset.order;
  const rows = [...body.rows].sort((a, b) => {
    const x = order(a), y = order(b);
    if (x === '' || y === '') return (x === '') - (y === '');
    return (descending ? -1 : 1) * compareCells(x, y);
  });
  body.append(...rows);
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (at === column) head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
    else head.removeAttribute('aria-sort');
  });
}
for (const table of document.querySelectorAll('table.sortable')) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.querySelector('button').addEventListener('click', () => {
      const descending = head.getAttribute('aria-sort') === 'ascending';
      sortTable(table, column, descending);
      say('Sorted by ' + head.textContent + (descending ? ', largest first' : ', smallest first'));
    });
  });
}

// ---- colours: Okabe and Ito's, made darker or lighter until they stand out; dashes differ too

const lightColours = ['#3d4249', '#0072b2', '#d55e00', '#00805c', '#b4508a', '#9a6a00', '#2a86bd', '#7a5c99'];
const darkColours = ['#d5d9e0', '#5fb4ee', '#ff9350', '#3ecf9f', '#ec9dcb', '#ecbb45', '#9ad4f5', '#c3a9e6'];
const dashes = [[], [7, 3], [2, 3], [10, 3, 2, 3], [14, 4]];
const shapes = ['circle', 'triangle', 'rect', 'rectRot', 'star', 'crossRot', 'cross'];
const colourOf = (at) => (isDark() ? darkColours : lightColours)[at % lightColours.length];
const dashOf = (at) => dashes[at % dashes.length];
const variable = (name) => getComputedStyle(root).getPropertyValue(name).trim();
// Layers have an order, and so have their colours: from blue, the first, over purple to orange, the last.
function layerColour(at, count, alpha = 1) {
  const part = count < 2 ? 0 : at / (count - 1);
  return `hsl(${Math.round(220 + 165 * part) % 360} ${isDark() ? '80% 70%' : '72% 42%'} / ${alpha})`;
}
function faded(colour, alpha) {
  const value = parseInt(colour.slice(1), 16);
  return `rgba(${value >> 16}, ${(value >> 8) & 255}, ${value & 255}, ${alpha})`;
}
function numberText(value) {
  const size = Math.abs(value);
  if (size >= 100000 || (size > 0 && size < 0.001)) return value.toExponential(2);
  return value.toLocaleString('en', {maximumSignificantDigits: 5, useGrouping: size >= 10000});
}

// ---- charts

const charts = [];
// What is shown; what is not there is replaced where it is drawn.
const state = {
  experiment: Math.max(0, data.experiments.indexOf(asked.get('experiment'))), log: asked.get('scale') === 'log',
  curve: (asked.get('curve') || '').replace('/', '\u0000'), trace: asked.get('trace'), layer: asked.get('layer'),
  cost: asked.get('cost'), metric: asked.get('metric'), by: asked.get('by'), distribution: asked.get('distribution'), ladder: asked.get('ladder'), grid: 0,
};
const unit = (metric) => (data.metrics[metric] || {scale: 1}).scale;
const heading = (metric) => (data.metrics[metric] || {heading: metric}).heading;

function axis(title, type) {
  return {
    type,
    title: {display: true, text: title, color: variable('--soft')},
    grid: {color: variable('--grid')},
    ticks: {color: variable('--soft'), maxRotation: 0, autoSkipPadding: 16},
  };
}
function canvasIn(box, title, label) {
  const outer = document.createElement('div');
  outer.className = 'chart';
  if (title) outer.appendChild(document.createElement('h3')).textContent = title;
  const holder = outer.appendChild(document.createElement('div'));
  holder.className = 'canvas';
  const canvas = holder.appendChild(document.createElement('canvas'));
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', label);
  box.appendChild(outer);
  return canvas;
}
function clear(box) {
  for (let at = charts.length - 1; at >= 0; --at) {
    if (box.contains(charts[at].canvas)) charts.splice(at, 1)[0].destroy();
  }
  box.replaceChildren();
}
function nothing(box, text) {
  const line = box.appendChild(document.createElement('p'));
  line.className = 'empty';
  line.textContent = text;
}
// A curve and its band hide together.
function toggle(event, item, legend) {
  const chart = legend.chart, visible = chart.isDatasetVisible(item.datasetIndex);
  const group = chart.data.datasets[item.datasetIndex].group;
  chart.data.datasets.forEach((set, at) => {
    if (set.group === group) chart.setDatasetVisibility(at, !visible);
  });
  chart.update();
}
// Lines in the legend, dashed as the curves are, whatever marks their points.
function lineLabels(chart) {
  const labels = Chart.defaults.plugins.legend.labels.generateLabels(chart);
  const dash = (label) => chart.data.datasets[label.datasetIndex].borderDash;
  return labels.map((label) => ({...label, pointStyle: 'line', lineWidth: 2, lineDash: dash(label)}));
}
function draw(canvas, type, datasets, scales, title) {
  const chart = new Chart(canvas, {
    type,
    data: {datasets},
    options: {
      animation: false,
      maintainAspectRatio: false,
      interaction: type === 'line' ? {mode: 'nearest', axis: 'x', intersect: false} : {mode: 'nearest', intersect: true},
      scales,
      plugins: {
        legend: {
          display: datasets.filter((set) => set.label).length > 1,
          position: 'bottom',
          onClick: toggle,
          labels: {
            color: variable('--ink'), usePointStyle: true, filter: (item) => Boolean(item.text),
            ...(type === 'line' ? {pointStyleWidth: 34, generateLabels: lineLabels} : {}),
          },
        },
        tooltip: {
          filter: (item) => Boolean(item.dataset.label),
          callbacks: {title, label: (item) => item.dataset.told(item.raw)},
        },
      },
    },
    plugins: type === 'scatter' ? [errorBars] : [],
  });
  charts.push(chart);
}
const errorBars = {
  id: 'errorBars',
  afterDatasetsDraw(chart) {
    const context = chart.ctx, scale = chart.scales.y;
    chart.data.datasets.forEach((set, at) => {
      if (!chart.isDatasetVisible(at)) return;
      set.data.forEach((point) => {
        const [low, high] = 'low' in point ? [point.low, point.high] : [point.y - point.sd, point.y + point.sd];
        if (!(high > low)) return;
        const x = chart.scales.x.getPixelForValue(point.x);
        context.save();
        context.strokeStyle = set.borderColor;
        context.lineWidth = 1.5;
        context.beginPath();
        context.moveTo(x, scale.getPixelForValue(low));
        context.lineTo(x, scale.getPixelForValue(high));
        context.stroke();
        context.restore();
      });
    });
  },
};

// ---- controls

function choice(box, name, options, chosen, onChange) {
  if (options.length < 2) return;
  const label = box.appendChild(document.createElement('label'));
  label.append(name + ' ');
  const select = label.appendChild(document.createElement('select'));
  options.forEach(([value, text]) => {
    const option = select.appendChild(document.createElement('option'));
    option.value = value;
    option.textContent = text;
  });
  select.value = String(chosen);
  select.addEventListener('change', () => onChange(select.value));
}
// Experiments that have something to show; the chosen one stays where it can.
function experimentChoice(box, having) {
  const list = data.experiments.map((name, at) => [String(at), name]).filter(([at]) => having.has(Number(at)));
  if (list.length === 0) return -1;
  const chosen = having.has(state.experiment) ? state.experiment : Number(list[0][0]);
  choice(box, 'Experiment', list, chosen, (value) => {
    state.experiment = Number(value);
    drawAll();
  });
  return chosen;
}
const experimentsOf = (list) => new Set(list.map((one) => one.e));
