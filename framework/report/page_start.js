// Draws everything, and again when the theme changes or the page is printed.

function drawAll() {
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  drawGrid();
  drawDistributions();
  drawLadders();
  drawCurves();
  drawTraces();
  drawBias();
  drawCost();
}

// One section's charts and nothing else.
function showOnly(id) {
  const wanted = byId(id);
  if (!wanted || wanted.tagName !== 'SECTION') return;
  wanted.classList.add('chosen');
  document.body.classList.add('alone');
}

showOnly(asked.get('only'));
setTheme(asked.get('theme') || stored() || 'auto');
byId('theme').hidden = false;
byId('theme').addEventListener('click', () => {
  setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]);
  stored(theme);
  drawAll();
});
darkSystem.addEventListener('change', drawAll);
const print = (now) => () => { printing = now; drawAll(); };
addEventListener('beforeprint', print(true));
addEventListener('afterprint', print(false));
drawAll();
root.dataset.ready = 'true';
