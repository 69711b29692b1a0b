// Clouds of points that turn under the mouse. One WebGL context, on a canvas outside the page, draws
// all of them, and each view copies its picture: browsers give a page few contexts, prints and
// tests read a plain canvas. Where there is no WebGL nothing is built, and the still pictures stand.

// ---- data

const cloudFrom64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
function cloudPlaces(text) {
  const bytes = cloudFrom64(text), places = new Uint16Array(bytes.length / 2);
  for (let at = 0; at < places.length; ++at) places[at] = bytes[2 * at] + 256 * bytes[2 * at + 1];
  return places;
}
// A ball around the cloud, seen from three of its radii, just fills the view's shorter side.
const cloudNone = 255, cloudShades = 254, cloudDistance = 3, cloudFocal = 3;

// The middle of the points and the radius around it, as shares of the cube.
function cloudFrame(places) {
  const low = [1, 1, 1], high = [0, 0, 0];
  places.forEach((place, at) => {
    low[at % 3] = Math.min(low[at % 3], place / 65535);
    high[at % 3] = Math.max(high[at % 3], place / 65535);
  });
  const radius = Math.hypot(...high.map((value, axis) => value - low[axis])) / 2;
  return {middle: high.map((value, axis) => (value + low[axis]) / 2), radius: Math.max(radius, 1e-5), top: Math.max(high[2], 1e-5)};
}
function cloudPoints(from) {
  const places = cloudPlaces(from.coord);
  return {...cloudFrame(places), places, count: places.length / 3, label: cloudFrom64(from.label), classes: from.classes, low: from.low, side: from.side};
}

// ---- colours

const cloudRgb = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
const cloudRampAt = (share) => data.cloud_colours.ramp[Math.round(share * (data.cloud_colours.ramp.length - 1))];
// What does not count stands back on a dark page, too.
const cloudPalette = () => ({...data.cloud_colours, ...(isDark() ? {uncounted: '#555c68'} : {})});
function cloudColourOf(view, way, at, colours) {
  const {label, classes, places, top} = view.points;
  const ofClass = (one) => (one === cloudNone || one === undefined ? colours.uncounted : classes[one].colour);
  if (way === 'label') return ofClass(label[at]);
  if (way === 'prediction') return ofClass(view.said[at]);
  if (way === 'error') {
    if (label[at] === cloudNone || view.said.length === 0) return colours.uncounted;
    return label[at] === view.said[at] ? colours.right : colours.wrong;
  }
  if (way === 'attention') {
    const weight = view.attention.length ? view.attention[at] : cloudNone;
    return weight === cloudNone ? colours.uncounted : cloudRampAt(weight / cloudShades);
  }
  return cloudRampAt(Math.min(1, places[3 * at + 2] / 65535 / top));
}
// Four bytes a point; the last is its size, half outside a patch and 0 where its class is hidden.
function cloudColours(view, viewer) {
  const bytes = new Uint8Array(4 * view.points.count), known = new Map(), palette = cloudPalette();
  for (let at = 0; at < view.points.count; ++at) {
    const colour = cloudColourOf(view, viewer.way, at, palette);
    if (!known.has(colour)) known.set(colour, cloudRgb(colour));
    bytes.set(known.get(colour), 4 * at);
    const apart = viewer.way === 'attention' && colour === palette.uncounted;
    bytes[4 * at + 3] = viewer.hidden.has(view.points.label[at]) ? 0 : apart ? 150 : 255;
  }
  return bytes;
}

// ---- drawing

const cloudVertex = `
attribute vec3 place;
attribute vec4 colour;
uniform vec3 middle, right, up, near;
uniform float radius, away, size;
uniform mediump float ring;
uniform vec2 shape, shift;
varying vec3 seen;
void main() {
  vec3 p = (place - middle) / radius;
  float d = away - dot(p, near);
  vec2 at = vec2(dot(p, right), dot(p, up)) + shift;
  gl_Position = vec4(shape * at, (d * 40.02 - 1.6) / 39.98, d);
  if (colour.a < .1 && ring < .5) gl_Position = vec4(2., 2., 2., 1.);
  gl_PointSize = ring > .5 ? size : clamp(colour.a * size * pow(3. / max(d, .02), .75), 1., 8. * size);
  seen = colour.rgb;
}`;
// Rims are darker, so that points stand apart and look round.
const cloudFragment = `
precision mediump float;
uniform float ring;
varying vec3 seen;
void main() {
  vec2 c = 2. * gl_PointCoord - 1.;
  float r = dot(c, c);
  if (r > 1.) discard;
  if (ring > .5) {
    if (r < .3) discard;
    gl_FragColor = r < .62 ? vec4(0., 0., 0., 1.) : vec4(1.);
  } else {
    gl_FragColor = vec4(seen * (1. - .3 * r * r), 1.);
  }
}`;

// Null where there is no WebGL.
function cloudRenderer() {
  const canvas = document.createElement('canvas');
  const gl = canvas.getContext('webgl', {antialias: true, preserveDrawingBuffer: true});
  if (!gl) return null;
  const renderer = {canvas, gl, places: {}, age: 0};
  const compiled = (type, source) => {
    const shader = gl.createShader(type);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    return shader;
  };
  const start = () => {
    const program = gl.createProgram();
    gl.attachShader(program, compiled(gl.VERTEX_SHADER, cloudVertex));
    gl.attachShader(program, compiled(gl.FRAGMENT_SHADER, cloudFragment));
    gl.bindAttribLocation(program, 0, 'place');
    gl.bindAttribLocation(program, 1, 'colour');
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return false;
    gl.useProgram(program);
    gl.enableVertexAttribArray(0);
    gl.enableVertexAttribArray(1);
    for (const name of ['middle', 'right', 'up', 'near', 'radius', 'away', 'size', 'ring', 'shape', 'shift']) {
      renderer.places[name] = gl.getUniformLocation(program, name);
    }
    ++renderer.age;  // buffers of an earlier context are gone
    return true;
  };
  if (!start()) return null;
  canvas.addEventListener('webglcontextlost', (event) => event.preventDefault());
  canvas.addEventListener('webglcontextrestored', () => {
    if (start()) cloudViewers.forEach((viewer) => viewer.draw());
  });
  return renderer;
}
function cloudBuffer(gl, holder, name, age, values) {
  const kept = holder[name];
  if (kept && kept.age === age && kept.values === values) return gl.bindBuffer(gl.ARRAY_BUFFER, kept.buffer);
  const buffer = kept && kept.age === age ? kept.buffer : gl.createBuffer();
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
  holder[name] = {age, values, buffer};
}
function cloudAxes(camera) {
  const a = camera.turn * Math.PI / 180, e = camera.tilt * Math.PI / 180;
  return {
    right: [Math.cos(a), Math.sin(a), 0],
    up: [-Math.sin(a) * Math.sin(e), Math.cos(a) * Math.sin(e), Math.cos(e)],
    near: [Math.sin(a) * Math.cos(e), -Math.cos(a) * Math.cos(e), Math.sin(e)],
  };
}
function cloudDraw(renderer, view, viewer) {
  const dense = Math.min(window.devicePixelRatio || 1, 2), {canvas, points} = view, {gl, places, age} = renderer;
  const width = Math.round(canvas.clientWidth * dense), height = Math.round(canvas.clientHeight * dense);
  if (width === 0 || height === 0 || gl.isContextLost()) return;
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  if (renderer.canvas.width !== width || renderer.canvas.height !== height) {
    [renderer.canvas.width, renderer.canvas.height] = [width, height];
  }
  gl.viewport(0, 0, width, height);
  gl.clearColor(0, 0, 0, 0);
  gl.enable(gl.DEPTH_TEST);
  gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
  cloudBuffer(gl, points, 'gpu', age, points.places);
  gl.vertexAttribPointer(0, 3, gl.UNSIGNED_SHORT, true, 0, 0);
  cloudBuffer(gl, view, 'gpu', age, view.colours);
  gl.vertexAttribPointer(1, 4, gl.UNSIGNED_BYTE, true, 0, 0);
  const camera = viewer.camera, axes = cloudAxes(camera), side = Math.min(width, height);
  gl.uniform3fv(places.middle, points.middle);
  for (const name of ['right', 'up', 'near']) gl.uniform3fv(places[name], axes[name]);
  gl.uniform1f(places.radius, points.radius);
  gl.uniform1f(places.away, cloudDistance / camera.zoom);
  gl.uniform2f(places.shape, cloudFocal * side / width, cloudFocal * side / height);
  gl.uniform2fv(places.shift, camera.shift);
  gl.uniform1f(places.ring, 0);
  gl.uniform1f(places.size, dense * Math.min(7, Math.max(1.6, .9 * side / dense / Math.sqrt(points.count))));
  gl.drawArrays(gl.POINTS, 0, points.count);
  if (viewer.way === 'attention' && view.attention.length) {
    gl.disable(gl.DEPTH_TEST);
    gl.uniform1f(places.ring, 1);
    gl.uniform1f(places.size, 17 * dense);
    gl.drawArrays(gl.POINTS, view.chosen, 1);
  }
  const context = canvas.getContext('2d');
  context.clearRect(0, 0, width, height);
  context.drawImage(renderer.canvas, 0, 0);
}

// ---- what lies under the mouse

function cloudUnder(view, viewer, x, y) {
  const {points} = view, camera = viewer.camera, {right, up, near} = cloudAxes(camera);
  const width = view.canvas.clientWidth, height = view.canvas.clientHeight, scale = cloudFocal / 2 * Math.min(width, height);
  let found = -1, nearest = Infinity;
  for (let at = 0; at < points.count; ++at) {
    if (viewer.hidden.has(points.label[at])) continue;
    let across = camera.shift[0], above = camera.shift[1], d = cloudDistance / camera.zoom;
    for (let axis = 0; axis < 3; ++axis) {
      const p = (points.places[3 * at + axis] / 65535 - points.middle[axis]) / points.radius;
      across += p * right[axis];
      above += p * up[axis];
      d -= p * near[axis];
    }
    if (d < .04 || d >= nearest) continue;
    if (Math.hypot(width / 2 + scale * across / d - x, height / 2 - scale * above / d - y) < 5) [found, nearest] = [at, d];
  }
  return found;
}
function cloudWords(view, at) {
  const {points} = view, words = [];
  const named = (one) => (one === cloudNone ? 'not counted' : points.classes[one].name);
  if (view.said.length) words.push('says ' + named(view.said[at]));
  if (points.label.length) words.push('is ' + named(points.label[at]));
  if (view.attention.length) {
    words.push(view.attention[at] === cloudNone ? 'outside the patch' : 'attention ' + numberText(Number((view.attention[at] / cloudShades * view.most).toPrecision(2))));
  }
  const place = [0, 1, 2].map((axis) => numberText(Number((points.low[axis] + points.side * points.places[3 * at + axis] / 65535).toPrecision(4))));
  return words.concat('at ' + place.join(', ')).join(' · ');
}

// ---- the viewer of one cloud: a view for each attention, all from one place

const cloudViewers = [];
const cloudWays = {label: 'Label', prediction: 'Prediction', error: 'Error', attention: 'Attention', height: 'Height'};
const cloudElement = (parent, tag, className, text = '') => {
  const element = parent.appendChild(document.createElement(tag));
  element.className = className;
  element.textContent = text;
  return element;
};
function cloudButton(parent, text, name, onClick) {
  const button = cloudElement(parent, 'button', '', text);
  button.type = 'button';
  if (name) button.setAttribute('aria-label', name);
  button.addEventListener('click', onClick);
  return button;
}
const cloudNumber = (name, otherwise) => (Number.isFinite(Number.parseFloat(asked.get(name))) ? Number.parseFloat(asked.get(name)) : otherwise);
const cloudStart = () => ({turn: cloudNumber('turn', 30), tilt: cloudNumber('tilt', 30), zoom: cloudNumber('zoom', 1), shift: [0, 0]});

function cloudSwatch(parent, colour) {
  cloudElement(parent, 'span', 'swatch').style.background = colour;
}
function cloudLegend(viewer) {
  const box = viewer.legend, colours = cloudPalette();
  box.replaceChildren();
  const entry = (colour, text) => {
    const item = cloudElement(box, 'span', 'entry');
    cloudSwatch(item, colour);
    item.append(text);
  };
  const uncounted = viewer.views.some((view) => view.points.label.includes(cloudNone));
  if (viewer.way === 'error') {
    entry(colours.right, 'right');
    entry(colours.wrong, 'wrong');
  }
  if (viewer.way === 'height') {
    const item = cloudElement(box, 'span', 'entry', 'low');
    cloudSwatch(item, `linear-gradient(to right, ${colours.ramp.join(',')})`);
    item.lastChild.classList.add('ramp');
    item.append('high');
  }
  if (viewer.way === 'attention') entry(colours.uncounted, 'outside the patch');
  else if (uncounted && viewer.way !== 'height') entry(colours.uncounted, 'not counted');
  const byClass = viewer.way === 'label' || viewer.way === 'prediction';
  const {classes} = viewer.views[0].points;
  classes.forEach((one, number) => {
    const there = viewer.views.some((view) => view.points.label.includes(number) || view.said.includes(number));
    if (!there) return;
    const button = cloudButton(box, '', '', () => {
      if (!viewer.hidden.delete(number)) viewer.hidden.add(number);
      viewer.colour();
    });
    button.className = 'entry';
    button.setAttribute('aria-pressed', String(!viewer.hidden.has(number)));
    button.title = viewer.hidden.has(number) ? 'Show points with this label' : 'Hide points with this label';
    if (byClass) cloudSwatch(button, one.colour);
    button.append(one.name);
    viewer.classButtons.set(number, button);
  });
}
function cloudScale(view, way) {
  view.scale.replaceChildren();
  if (way !== 'attention') return;
  if (!view.attention.length) return view.scale.append('No attention is known.');
  view.scale.append('0 ');
  cloudSwatch(view.scale, `linear-gradient(to right, ${data.cloud_colours.ramp.join(',')})`);
  view.scale.lastChild.classList.add('ramp');
  view.scale.append(` ${numberText(Number(view.most.toPrecision(2)))} (attention of point ${view.point})`);
}

function cloudMoves(viewer, view) {
  const canvas = view.canvas, camera = viewer.camera, held = new Map();
  const turned = (across, down) => {
    camera.turn -= .4 * across;
    camera.tilt = Math.max(-90, Math.min(90, camera.tilt + .4 * down));
    viewer.draw();
  };
  // As far as the mouse goes, at the depth of the cloud's middle.
  const shifted = (across, down) => {
    const pixels = cloudFocal / 2 / cloudDistance * camera.zoom * Math.min(canvas.clientWidth, canvas.clientHeight);
    camera.shift[0] += across / pixels;
    camera.shift[1] -= down / pixels;
    viewer.draw();
  };
  canvas.addEventListener('pointerdown', (event) => {
    canvas.focus();
    try {
      canvas.setPointerCapture(event.pointerId);
    } catch (gone) {
      // A pointer that is there no more, or a script's, turns the cloud as long as it is over it.
    }
    held.set(event.pointerId, [event.clientX, event.clientY]);
    view.told.textContent = '';
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!held.has(event.pointerId)) {
      const box = canvas.getBoundingClientRect();
      const at = cloudUnder(view, viewer, event.clientX - box.left, event.clientY - box.top);
      view.told.textContent = at < 0 ? '' : cloudWords(view, at);
      return;
    }
    const [x, y] = held.get(event.pointerId), other = [...held].find(([id]) => id !== event.pointerId);
    held.set(event.pointerId, [event.clientX, event.clientY]);
    if (other) {  // two fingers
      const [, [otherX, otherY]] = other;
      viewer.zoomed(Math.hypot(event.clientX - otherX, event.clientY - otherY) / Math.max(1, Math.hypot(x - otherX, y - otherY)));
    } else if (event.shiftKey) shifted(event.clientX - x, event.clientY - y);
    else turned(event.clientX - x, event.clientY - y);
  });
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, (event) => held.delete(event.pointerId));
  canvas.addEventListener('pointerleave', () => { view.told.textContent = ''; });
  canvas.addEventListener('wheel', (event) => {
    if (document.activeElement !== canvas) return;  // who scrolls the page scrolls past
    event.preventDefault();
    viewer.zoomed(Math.exp(-.0015 * event.deltaY * (event.deltaMode === 1 ? 30 : 1)));
  }, {passive: false});
  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const moved = event.shiftKey ? shifted : turned;
    const keys = {
      ArrowLeft: () => moved(-25, 0), ArrowRight: () => moved(25, 0), ArrowUp: () => moved(0, -25), ArrowDown: () => moved(0, 25),
      '+': () => viewer.zoomed(1.25), '=': () => viewer.zoomed(1.25), '-': () => viewer.zoomed(.8),
      '0': viewer.reset, Home: viewer.reset,
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}
function cloudView(viewer, box, cloud, drawing) {
  const own = drawing.coord === undefined ? cloud.points : cloudPoints(drawing);
  const view = {
    points: own, said: cloudFrom64(drawing.said), attention: cloudFrom64(drawing.attention), most: drawing.most,
    chosen: drawing.chosen, point: drawing.point,
  };
  const figure = cloudElement(box, 'figure', 'view');
  cloudElement(figure, 'figcaption', '', `${drawing.name}, seed ${drawing.seed}`);
  view.canvas = cloudElement(figure, 'canvas', 'points');
  view.canvas.tabIndex = 0;
  view.canvas.setAttribute('role', 'application');
  view.canvas.setAttribute('aria-roledescription', 'cloud of points');
  view.canvas.setAttribute('aria-label', `${cloud.name}, ${drawing.name}: arrow keys turn, with Shift they move, plus and minus zoom, 0 resets`);
  view.scale = cloudElement(figure, 'p', 'scale');
  view.told = cloudElement(figure, 'p', 'told');
  cloudMoves(viewer, view);
  return view;
}
function cloudViewer(renderer, place) {
  const cloud = data.clouds[Number(place.dataset.cloud)];
  cloud.points = cloudPoints(cloud);
  const ways = Object.keys(cloudWays).filter((way) => cloud.drawings.some((drawing) => drawing.ways.includes(way)));
  const viewer = {camera: cloudStart(), hidden: new Set(), classButtons: new Map(), way: ways.includes(asked.get('colour')) ? asked.get('colour') : ways[0]};
  const box = document.createElement('div');
  box.className = 'viewer';
  const controls = cloudElement(box, 'div', 'controls'), by = cloudElement(controls, 'div', 'choices');
  by.setAttribute('role', 'group');
  by.setAttribute('aria-label', 'Colour by');
  const buttons = ways.map((way) => cloudButton(by, cloudWays[way], '', () => {
    viewer.way = way;
    viewer.colour();
    say('Coloured by ' + way);
  }));
  const camera = cloudElement(controls, 'div', 'choices');
  cloudButton(camera, '−', 'Farther away', () => viewer.zoomed(.8));
  cloudButton(camera, '+', 'Nearer', () => viewer.zoomed(1.25));
  cloudButton(camera, 'Reset view', '', () => viewer.reset());
  viewer.legend = cloudElement(box, 'div', 'legend');
  const views = cloudElement(box, 'div', 'views');
  viewer.draw = () => viewer.views.forEach((view) => cloudDraw(renderer, view, viewer));
  viewer.zoomed = (factor) => {
    viewer.camera.zoom = Math.min(40, Math.max(.3, viewer.camera.zoom * factor));
    viewer.draw();
  };
  viewer.reset = () => {
    Object.assign(viewer.camera, cloudStart());
    viewer.draw();
  };
  viewer.colour = () => {
    const focused = [...viewer.classButtons].find(([, button]) => button === document.activeElement);
    buttons.forEach((button, at) => button.setAttribute('aria-pressed', String(ways[at] === viewer.way)));
    viewer.classButtons.clear();
    cloudLegend(viewer);
    if (focused) viewer.classButtons.get(focused[0]).focus();  // the button was made anew
    for (const view of viewer.views) {
      view.colours = cloudColours(view, viewer);
      cloudScale(view, viewer.way);
    }
    viewer.draw();
  };
  viewer.views = cloud.drawings.map((drawing) => cloudView(viewer, views, cloud, drawing));
  cloudElement(box, 'p', 'note', 'Drag to turn, with Shift to move; after a click the wheel zooms. Keys: arrows, + and −, 0.' + (cloud.points.classes.length ? ' Select a class to hide the points with that label.' : ''));
  place.insertBefore(box, place.querySelector('.stills'));
  place.querySelector('.stills').open = false;
  viewer.colour();
  new ResizeObserver(() => viewer.draw()).observe(views);
  return viewer;
}
function drawClouds() {
  const places = [...document.querySelectorAll('[data-cloud]')];
  if (places.length === 0) return;
  if (cloudViewers.length > 0) return cloudViewers.forEach((viewer) => viewer.colour());
  const renderer = cloudRenderer();
  if (renderer) places.forEach((place) => cloudViewers.push(cloudViewer(renderer, place)));
}
