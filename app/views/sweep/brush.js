// A front over its cloud, brushed in the browser: points by WebGL, or written as pixels where software would be slower
// at WebGL than that; lines and words on a canvas above them.
// The server hears of it only when a design is opened or a selection is listed.

const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]; // viridis
const HUES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A7A00", "#7F7F7F"]; // Okabe, Ito
const PREFIX = { "-12": "p", "-9": "n", "-6": "µ", "-3": "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P" };
const EDGE = { left: 66, right: 18, top: 14, bottom: 46 };
const NEAR = 14; // px within which a point is hovered
const FAINT = 110; // opacity of what the brush leaves out, of 255
const SLOW = 20; // ms of a frame by WebGL, from which pixels are written instead
const VERTEX = `attribute vec2 at; attribute vec4 ink; uniform float size, near; varying vec4 shade;
void main() {
  gl_Position = vec4(at * 2.0 - 1.0, (ink.a > 0.5 ? 0.0 : 0.5) - near, 1.0); // what is kept lies over what is not
  gl_PointSize = size; shade = ink;
}`;
const FRAGMENT = `precision highp float; varying vec4 shade; uniform float size;
void main() {
  if (size > 5.0 && length(gl_PointCoord - 0.5) > 0.5) discard;
  gl_FragColor = vec4(shade.rgb * shade.a, shade.a);
}`;

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const clamp = (v, low, high) => Math.min(Math.max(v, low), high);

function scaleOf(value, column) { // what is counted keeps the prefix with the number: 1.21 M samples/s, 0.404 tok/J
  const most = Number.isFinite(value) ? Math.abs(value) : 0;
  let power = most ? clamp(3 * Math.floor(Math.log10(most) / 3 + 1e-9), -12, 15) : 0;
  if (column.counted && power === -3) power = 0;
  return { by: 10 ** power, unit: `${PREFIX[power]}${column.counted ? " " : ""}${column.unit}`.trim() };
}

function said(value, column) {
  if (column.names) return column.names[value] ?? "";
  if (!Number.isFinite(value)) return "n/a";
  if (column.unit === "$") return `$${value.toLocaleString("en", { maximumSignificantDigits: 4 })}`;
  const { by, unit } = scaleOf(value, column);
  return `${Number((value / by).toPrecision(3))} ${unit}`.trim();
}

function ticks(low, high, log) {
  if (!log || high / low < 4) {
    const raw = (high - low) / 5 || Math.abs(low) / 5 || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    return Array.from({ length: 12 }, (_, i) => step * (Math.ceil(low / step) + i)).filter((v) => v <= high * 1.000001);
  }
  const decades = Math.log10(high / low);
  const steps = decades <= 1.2 ? [1, 1.5, 2, 3, 5, 7] : decades <= 3.2 ? [1, 2, 5] : [1];
  const found = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++) found.push(...steps.map((m) => m * 10 ** p));
  return found.filter((v) => v >= low && v <= high);
}

function unpack(bytes) {
  const head = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  const meta = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + head)));
  const body = bytes.slice(8 * Math.ceil((4 + head) / 8)).buffer; // a copy, so that it is aligned
  const numbers = new Float64Array(body, 0, meta.n);
  meta.columns.forEach((column, i) => {
    const values = (column.values = new Float32Array(body, 8 * meta.n + 4 * meta.n * i, meta.n));
    let low = Infinity, high = -Infinity;
    for (const v of values) if (v === v) { if (v < low) low = v; if (v > high) high = v; }
    Object.assign(column, { low, high, log: !column.names && low > 0 && (i < meta.figures || high / low > 20) });
  });
  return { meta, numbers };
}

class View {
  constructor(root) {
    this.root = root;
    for (const name of ["points", "pixels", "over", "upright", "colour", "count", "clear", "list", "picked", "tip", "legend"])
      this[name] = root.querySelector(`.${name}`);
    this.gl = this.points.getContext("webgl", { antialias: false, preserveDrawingBuffer: true });
    this.flat = this.pixels.getContext("2d");
    this.slow = 0; // frames
    const who = this.gl?.getExtension("WEBGL_debug_renderer_info");
    this.shaded = this.gl && !/swiftshader|llvmpipe|software/i.test(who ? this.gl.getParameter(who.UNMASKED_RENDERER_WEBGL) : "");
    if (this.gl) this.compile();
    this.ranges = new Map(); // column -> [low, high]: what the brush keeps
    this.frames = [];
    root.view = this;
    this.colour.onchange = () => this.recolour();
    this.clear.onclick = () => { this.ranges.clear(); this.recolour(); };
    this.over.onpointerdown = (e) => this.press(e);
    this.over.onpointermove = (e) => this.move(e);
    this.over.onpointerup = (e) => this.release(e);
    this.over.onpointerleave = () => { this.hovered = -1; this.ask(); };
    this.upright.onpointerdown = (e) => this.grasp(e);
    this.upright.onpointermove = (e) => this.slide(e);
    this.upright.onpointerup = () => { this.held = null; };
    this.watch = new ResizeObserver(() => this.data && this.lay());
    this.watch.observe(root);
  }

  stop() { this.watch.disconnect(); cancelAnimationFrame(this.asked); }

  compile() {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    gl.useProgram(program);
    this.program = program;
    [this.placeBuffer, this.inkBuffer] = [gl.createBuffer(), gl.createBuffer()];
    for (const [buffer, name, size, type] of [[this.placeBuffer, "at", 2, gl.FLOAT], [this.inkBuffer, "ink", 4, gl.UNSIGNED_BYTE]]) {
      const where = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(where);
      gl.vertexAttribPointer(where, size, type, type === gl.UNSIGNED_BYTE, 0, 0);
    }
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LESS);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  show(data, trigger) {
    const style = getComputedStyle(this.root);
    const paper = style.getPropertyValue("--st-background-color").trim() || "#ffffff";
    this.dark = paper[0] === "#" && rgb(paper).reduce((a, b) => a + b) < 384;
    this.text = style.getPropertyValue("--st-text-color").trim() || "#1B2430";
    this.font = `12px ${style.getPropertyValue("--st-font").trim() || "sans-serif"}`;
    if (data !== this.raw) {
      this.raw = data;
      const found = unpack(data);
      const same = this.data && this.data.meta.key === found.meta.key;
      const moved = !this.data || this.data.meta.picked !== found.meta.picked;
      this.data = found;
      if (!same) {
        this.ranges.clear();
        this.colour.replaceChildren(
          ...[["-1", "Front and cloud"], ...found.meta.columns.map((c, i) => [String(i), c.label])].map(([value, label]) =>
            Object.assign(document.createElement("option"), { value, textContent: label })),
        );
      }
      if (!same || moved) this.pick(found.numbers.indexOf(found.meta.picked));
    }
    this.list.onclick = () => trigger("listed", this.keptFront());
    this.trigger = trigger;
    this.over.setAttribute("aria-label", this.data.meta.alt);
    this.root.dataset.designs = this.data.meta.n;
    this.lay();
  }

  lay() {
    const { meta } = this.data, ratio = Math.min(devicePixelRatio || 1, 2), wide = this.root.clientWidth;
    if (!wide) return;
    this.wide = wide;
    this.high = wide < 560 ? Math.min(meta.height, 330) : meta.height;
    this.inner = { w: wide - EDGE.left - EDGE.right, h: this.high - EDGE.top - EDGE.bottom };
    const upright = wide >= 560 && meta.upright.length > 2 && meta.front > 1;
    this.upright.style.display = upright ? "" : "none";
    for (const [canvas, w, h] of [[this.points, this.inner.w, this.inner.h], [this.pixels, this.inner.w, this.inner.h], [this.over, wide, this.high], [this.upright, wide, 230]]) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
      Object.assign(canvas.style, { width: `${w}px`, height: `${h}px` });
      if (canvas !== this.points) canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    for (const canvas of [this.points, this.pixels]) Object.assign(canvas.style, { left: `${EDGE.left}px`, top: `${EDGE.top}px` });
    this.over.parentElement.style.height = `${this.high}px`;
    this.ratio = ratio;
    this.axes = [meta.x, meta.y].map((at, i) => {
      const column = meta.columns[at];
      const more = [meta.limits[i], meta.current?.[i], column.low, column.high].filter((v) => v > 0 && Number.isFinite(v));
      let low = Math.min(...more), high = Math.max(...more);
      const spare = Math.max((high / low) ** 0.06, 1.02);
      [low, high] = [low / spare, high * spare];
      const a = Math.log(low), b = Math.log(high / low);
      return { column, at, low, high, to: (v) => (Math.log(v) - a) / b, from: (t) => Math.exp(a + t * b) };
    });
    const n = meta.n, place = (this.place = new Float32Array(2 * n));
    this.axes.forEach((axis, i) => { for (let p = 0; p < n; p++) place[2 * p + i] = axis.to(axis.column.values[p]); });
    if (this.gl) {
      this.gl.viewport(0, 0, this.points.width, this.points.height);
      this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.placeBuffer);
      this.gl.bufferData(this.gl.ARRAY_BUFFER, place, this.gl.STATIC_DRAW);
    }
    this.recolour();
  }

  recolour() {
    this.stale = true;
    this.ask();
  }

  filter() { // what the brush keeps, and the colour of every point: a pass over all of them, once a frame
    if (!this.stale) return;
    this.stale = false;
    const { meta } = this.data, n = meta.n, first = n - meta.front;
    const column = meta.columns[Number(this.colour.value)];
    const look = meta.looks[this.dark ? 1 : 0], cloud = rgb(look.cloud), ink = rgb(look.ink);
    const shades = this.ink ?.length === 4 * n ? this.ink : (this.ink = new Uint8Array(4 * n));
    const kept = this.kept?.length === n ? this.kept : (this.kept = new Uint8Array(n));
    kept.fill(1);
    for (const [at, [low, high]] of this.ranges) {
      const values = meta.columns[at].values;
      for (let p = 0; p < n; p++) if (!(values[p] >= low && values[p] <= high)) kept[p] = 0;
    }
    const table = column && this.table(column);
    let all = 0, front = 0;
    for (let p = 0; p < n; p++) {
      const on = kept[p];
      let shade = p < first ? cloud : ink;
      if (column) shade = table[column.names ? column.values[p] % HUES.length : Math.round(255 * this.part(column, column.values[p])) || 0];
      if (!on) shade = cloud;
      shades[4 * p] = shade[0]; shades[4 * p + 1] = shade[1]; shades[4 * p + 2] = shade[2];
      shades[4 * p + 3] = on ? 255 : FAINT;
      if (on) { all++; if (p >= first) front++; }
    }
    if (this.gl) {
      this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.inkBuffer);
      this.gl.bufferData(this.gl.ARRAY_BUFFER, shades, this.gl.DYNAMIC_DRAW);
    }
    this.root.dataset.kept = all;
    this.count.textContent = this.ranges.size
      ? `${all.toLocaleString("en")} of ${n.toLocaleString("en")} drawn designs kept, ${front.toLocaleString("en")} on the front`
      : `${n.toLocaleString("en")} designs drawn; drag a box, or along an upright axis, to keep some`;
    this.clear.disabled = this.list.disabled = !this.ranges.size;
    this.key(column);
  }

  table(column) {
    if (column.names) return HUES.map(rgb);
    return Array.from({ length: 256 }, (_, i) => {
      const t = (i / 255) * (RAMP.length - 1), k = Math.min(Math.floor(t), RAMP.length - 2);
      return RAMP[k].map((v, j) => Math.round(v + (RAMP[k + 1][j] - v) * (t - k)));
    });
  }

  part(column, value) { // where a value lies on its column, 0 to 1
    if (column.high === column.low) return 0.5;
    return column.log ? Math.log(value / column.low) / Math.log(column.high / column.low) : (value - column.low) / (column.high - column.low);
  }

  key(column) {
    const chip = (colour, text) => {
      const dot = Object.assign(document.createElement("i"), { style: `background:${colour}` });
      const one = document.createElement("span");
      one.append(dot, text);
      return one;
    };
    const look = this.data.meta.looks[this.dark ? 1 : 0];
    if (!column) this.legend.replaceChildren(chip(look.ink, "front"), chip(look.cloud, "other designs"));
    else if (column.names) this.legend.replaceChildren(...column.names.slice(0, 12).map((name, i) => chip(HUES[i % HUES.length], name)));
    else {
      const bar = Object.assign(document.createElement("b"), { style: `background:linear-gradient(90deg,${RAMP.map((c) => `rgb(${c})`)})` });
      this.legend.replaceChildren(said(column.low, column), bar, said(column.high, column));
    }
  }

  ask() {
    cancelAnimationFrame(this.asked);
    this.asked = requestAnimationFrame(() => this.draw());
  }

  draw() {
    const began = performance.now();
    this.filter();
    if (this.shaded) {
      this.byShader();
      this.slow += performance.now() - began > SLOW ? 1 : 0;
      if (this.slow > 3) this.shaded = false; // software after all
    } else this.byPixel();
    this.points.style.display = this.shaded ? "" : "none";
    this.pixels.style.display = this.shaded ? "none" : "";
    this.root.dataset.drawn = this.shaded ? "webgl" : "pixels";
    this.words();
    if (this.upright.style.display !== "none") this.lines();
    this.frames.push(performance.now() - began);
    if (this.frames.length > 600) this.frames.shift();
  }

  sizes() { // (first, how many, px) of the cloud and of the front
    const { meta } = this.data, first = meta.n - meta.front;
    return [[0, first, (first > 5000 ? 3 : first > 400 ? 4 : 6) * this.ratio], [first, meta.front, 8 * this.ratio]];
  }

  byShader() {
    const gl = this.gl, size = gl.getUniformLocation(this.program, "size"), near = gl.getUniformLocation(this.program, "near");
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    this.sizes().forEach(([from, many, wide], front) => {
      gl.uniform1f(size, wide);
      gl.uniform1f(near, front * 0.7);
      if (many) gl.drawArrays(gl.POINTS, from, many);
    });
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4)); // waits for it
  }

  byPixel() {
    const wide = this.pixels.width, high = this.pixels.height;
    if (this.image?.width !== wide || this.image.height !== high) this.image = this.flat.createImageData(wide, high);
    const out = new Uint32Array(this.image.data.buffer), ink = new Uint32Array(this.ink.buffer), { place, kept } = this;
    out.fill(0);
    for (const [from, many, px] of this.sizes()) {
      const side = Math.round(px), half = side >> 1;
      for (const on of [0, 1])
        for (let p = from; p < from + many; p++) {
          if (kept[p] !== on) continue;
          const left = Math.round(place[2 * p] * wide) - half, top = Math.round((1 - place[2 * p + 1]) * high) - half;
          if (!(left >= 0 && top >= 0 && left + side <= wide && top + side <= high)) continue;
          for (let row = top * wide + left, y = 0; y < side; y++, row += wide) for (let x = 0; x < side; x++) out[row + x] = ink[p];
        }
    }
    this.flat.putImageData(this.image, 0, 0);
  }

  x(t) { return EDGE.left + t * this.inner.w; }
  y(t) { return EDGE.top + (1 - t) * this.inner.h; }
  spot(p) { // where a point lies, from the corner of the chart [px]
    return { x: this.x(this.place[2 * p]), y: this.y(this.place[2 * p + 1]), number: this.data.numbers[p] };
  }

  words() {
    const c = this.over.getContext("2d"), { meta } = this.data, look = meta.looks[this.dark ? 1 : 0];
    c.clearRect(0, 0, this.wide, this.high);
    c.font = this.font;
    this.axes.forEach((axis, i) => {
      const { by, unit } = axis.column.unit === "$" ? { by: 1, unit: "$" } : scaleOf(Math.sqrt(axis.low * axis.high), axis.column);
      const title = `${axis.column.label}${unit ? ` (${unit})` : ""}, log; better is ${meta.less[i] ? (i ? "down" : "left") : i ? "up" : "right"}`;
      c.fillStyle = this.text;
      c.strokeStyle = look.neutral;
      c.globalAlpha = 0.25;
      c.lineWidth = 1;
      const at = ticks(axis.low / by, axis.high / by, true);
      for (const tick of at) {
        const t = axis.to(tick * by);
        c.beginPath();
        if (i) { c.moveTo(EDGE.left, this.y(t)); c.lineTo(this.x(1), this.y(t)); }
        else { c.moveTo(this.x(t), this.y(0)); c.lineTo(this.x(t), this.y(0) + 4); }
        c.stroke();
      }
      c.globalAlpha = 0.8;
      for (const tick of at) {
        const t = axis.to(tick * by), text = Number(tick.toPrecision(3)).toLocaleString("en");
        c.textAlign = i ? "right" : "center";
        c.textBaseline = i ? "middle" : "top";
        c.fillText(text, i ? EDGE.left - 8 : this.x(t), i ? this.y(t) : this.y(0) + 7);
      }
      c.save();
      if (i) { c.translate(13, EDGE.top + this.inner.h / 2); c.rotate(-Math.PI / 2); } else c.translate(EDGE.left + this.inner.w / 2, this.high - 9);
      c.textAlign = "center";
      c.textBaseline = "middle";
      c.fillText(title, 0, 0, i ? this.inner.h : this.inner.w);
      c.restore();
      c.globalAlpha = 1;
      if (meta.limits[i]) {
        const t = axis.to(meta.limits[i]);
        c.setLineDash([5, 4]);
        c.beginPath();
        if (i) { c.moveTo(EDGE.left, this.y(t)); c.lineTo(this.x(1), this.y(t)); } else { c.moveTo(this.x(t), this.y(0)); c.lineTo(this.x(t), this.y(1)); }
        c.stroke();
        c.setLineDash([]);
        c.textAlign = "right";
        c.textBaseline = "bottom";
        c.fillText(`limit ${said(meta.limits[i], axis.column)}`, i ? this.x(1) : this.x(t) - 5, i ? this.y(t) - 3 : this.y(0) - 4);
      }
    });
    this.stairs(c, look);
    const box = [meta.x, meta.y].map((at) => this.ranges.get(at));
    if (box[0] || box[1]) {
      const [l, r] = box[0] ? box[0].map((v) => this.x(clamp(this.axes[0].to(v), 0, 1))) : [this.x(0), this.x(1)];
      const [b, t] = box[1] ? box[1].map((v) => this.y(clamp(this.axes[1].to(v), 0, 1))) : [this.y(0), this.y(1)];
      c.strokeStyle = look.pick;
      c.lineWidth = 1.5;
      c.strokeRect(l, t, r - l, b - t);
    }
    const spots = Array.from({ length: meta.front }, (_, i) => this.spot(meta.n - meta.front + i));
    const mark = ({ x, y }, word, star) => {
      c.strokeStyle = c.fillStyle = look.pick;
      c.lineWidth = 2.5;
      c.textAlign = "center";
      c.textBaseline = "bottom";
      c.beginPath();
      if (star) {
        for (let k = 0; k < 10; k++) {
          const far = k % 2 ? 3.5 : 8, turn = (Math.PI * k) / 5 - Math.PI / 2;
          c.lineTo(x + far * Math.cos(turn), y + far * Math.sin(turn));
        }
        c.fill();
      } else { c.arc(x, y, 8, 0, 7); c.stroke(); }
      spots.push({ x, y });
      if (!word) return;
      c.fillStyle = this.text;
      const half = c.measureText(word).width / 2; // the word stands where it covers the fewest marks
      const covered = (at) => spots.filter((p) => Math.abs(p.x - at.x) < half + 6 && Math.abs(p.y - at.y + 7) < 13).length;
      const places = [[0, -10], [0, 26], [half + 14, 7], [-half - 14, 7]].map(([dx, dy]) => ({ x: x + dx, y: y + dy }));
      const inside = places.filter((at) => at.x - half > EDGE.left && at.x + half < this.wide && at.y > 14 && at.y < this.y(0));
      const best = (inside.length ? inside : places).reduce((a, b) => (covered(b) < covered(a) ? b : a));
      c.fillText(word, best.x, best.y);
      for (const dx of [-half, 0, half]) spots.push({ x: best.x + dx, y: best.y - 7 });
    };
    const here = meta.current && { x: this.x(this.axes[0].to(meta.current[0])), y: this.y(this.axes[1].to(meta.current[1])) };
    const at = this.chosen >= 0 && this.spot(this.chosen);
    if (here && at) spots.push(at);
    if (here) mark(here, "current", true);
    if (at) mark(at, "selected", false);
    if (this.hovered >= 0 && this.hovered !== this.chosen) mark(this.spot(this.hovered), "", false);
  }

  stairs(c, look) { // the line beyond which nothing lies
    const { meta } = this.data, [lessX, lessY] = meta.less;
    const front = Array.from({ length: meta.front }, (_, i) => meta.n - meta.front + i);
    const x = (p) => this.place[2 * p] * (lessX ? 1 : -1), y = (p) => this.place[2 * p + 1] * (lessY ? 1 : -1);
    front.sort((a, b) => x(a) - x(b) || y(a) - y(b));
    c.strokeStyle = look.ink;
    c.lineWidth = 1.4;
    c.beginPath();
    let last = null;
    for (const p of front) {
      if (last !== null && !(y(p) < y(last))) continue;
      const at = this.spot(p);
      if (last === null) c.moveTo(at.x, at.y);
      else { c.lineTo(at.x, this.spot(last).y); c.lineTo(at.x, at.y); }
      last = p;
    }
    c.stroke();
  }

  column(k) { const { upright } = this.data.meta; return 54 + ((this.wide - 108) * k) / (upright.length - 1); }
  level(column, value) { return 44 + 168 * (1 - this.part(column, value)); }

  lines() { // the front along all axes at once
    const c = this.upright.getContext("2d"), { meta } = this.data, look = meta.looks[this.dark ? 1 : 0];
    c.clearRect(0, 0, this.wide, 230);
    const order = Array.from({ length: meta.front }, (_, i) => meta.n - meta.front + i).filter((p) => p !== this.chosen);
    if (this.chosen >= meta.n - meta.front) order.push(this.chosen);
    for (const on of [0, 1])
      for (const p of order) {
        if (this.kept[p] !== on) continue;
        const mine = p === this.chosen;
        c.strokeStyle = mine ? look.pick : Number(this.colour.value) < 0 ? look.neutral : `rgb(${this.ink[4 * p]},${this.ink[4 * p + 1]},${this.ink[4 * p + 2]})`;
        c.globalAlpha = mine ? 1 : on ? 0.7 : 0.07;
        c.lineWidth = mine ? 2.5 : 1;
        c.beginPath();
        meta.upright.forEach((at, k) => c.lineTo(this.column(k), this.level(meta.columns[at], meta.columns[at].values[p])));
        c.stroke();
      }
    c.globalAlpha = 1;
    c.font = this.font;
    c.fillStyle = this.text;
    meta.upright.forEach((at, k) => {
      const column = meta.columns[at], x = this.column(k), edge = k === 0 ? "left" : k === meta.upright.length - 1 ? "right" : "center";
      c.strokeStyle = look.neutral;
      c.lineWidth = 1;
      c.beginPath();
      c.moveTo(x, 44);
      c.lineTo(x, 212);
      c.stroke();
      const space = (this.wide - 108) / (meta.upright.length - 1) - 8;
      c.textAlign = edge;
      c.textBaseline = "top";
      const from = edge === "left" ? x - 48 : edge === "right" ? x + 48 : x, most = edge === "center" ? space : space / 2 + 48;
      const middle = c.measureText(column.label).width > most ? column.label.indexOf(" ", column.label.length / 2 - 4) : -1;
      const words = middle < 0 ? [column.label] : [column.label.slice(0, middle), column.label.slice(middle + 1)];
      words.forEach((text, line) => c.fillText(text, from, 14 * (line + 2 - words.length), most));
      c.globalAlpha = 0.75;
      c.fillText(said(column.high, column), from, 29, space);
      c.fillText(said(column.low, column), from, 216, space);
      c.globalAlpha = 1;
      const range = this.ranges.get(at);
      if (range) {
        const [b, t] = range.map((v) => this.level(column, clamp(v, column.low, column.high)));
        c.strokeStyle = look.pick;
        c.lineWidth = 6;
        c.beginPath();
        c.moveTo(x, b + 2);
        c.lineTo(x, t - 2);
        c.stroke();
      }
    });
  }

  where(e, canvas) { const box = canvas.getBoundingClientRect(); return { x: e.clientX - box.left, y: e.clientY - box.top }; }

  nearest(at) { // the front's own where both are near
    const { meta } = this.data, first = meta.n - meta.front;
    const find = (from, to) => {
      let best = -1, least = NEAR * NEAR;
      for (let p = from; p < to; p++) {
        if (!this.kept[p]) continue;
        const dx = this.x(this.place[2 * p]) - at.x, dy = this.y(this.place[2 * p + 1]) - at.y, far = dx * dx + dy * dy;
        if (far < least) [best, least] = [p, far];
      }
      return [best, least];
    };
    const [own, close] = find(first, meta.n), [other, far] = find(0, first);
    return own >= 0 && (close <= 36 || close <= far) ? own : other;
  }

  press(e) {
    if (!this.data.meta.n) return;
    this.from = this.where(e, this.over);
    this.dragged = false;
    if (e.pointerType !== "touch") this.over.setPointerCapture(e.pointerId);
  }

  move(e) {
    const at = this.where(e, this.over);
    if (this.from && e.pointerType !== "touch" && (this.dragged || Math.hypot(at.x - this.from.x, at.y - this.from.y) > 4)) {
      this.dragged = true;
      const t = (v, low, span) => clamp((v - low) / span, 0, 1);
      const xs = [this.from.x, at.x].map((v) => this.axes[0].from(t(v, EDGE.left, this.inner.w)));
      const ys = [this.from.y, at.y].map((v) => this.axes[1].from(1 - t(v, EDGE.top, this.inner.h)));
      this.ranges.set(this.axes[0].at, xs.sort((a, b) => a - b));
      this.ranges.set(this.axes[1].at, ys.sort((a, b) => a - b));
      this.tip.style.display = "none";
      this.recolour();
      return;
    }
    const found = this.nearest(at);
    if (found !== this.hovered) { this.hovered = found; this.ask(); }
    this.root.dataset.hovered = found >= 0 ? this.data.numbers[found] : "";
    this.over.style.cursor = found >= 0 ? "pointer" : "crosshair";
    this.tip.style.display = found >= 0 ? "" : "none";
    if (found >= 0) {
      this.tip.textContent = this.told(found, 9).join("\n");
      this.tip.style.left = `${clamp(at.x + 14, 0, this.wide - this.tip.offsetWidth)}px`;
      this.tip.style.top = `${Math.min(at.y + 14, this.high - 20)}px`;
    }
  }

  release(e) {
    if (this.from && !this.dragged) {
      const found = this.nearest(this.where(e, this.over));
      if (found >= 0) this.pick(found);
      else for (const axis of this.axes) this.ranges.delete(axis.at);
      this.recolour();
    }
    this.from = null;
  }

  told(p, most) {
    const { meta } = this.data;
    const shown = [...new Set([meta.x, meta.y, ...meta.columns.keys()])].filter((at) => at < meta.figures ? meta.goals.includes(at) : true);
    return shown.slice(0, most).map((at) => `${meta.columns[at].label} ${said(meta.columns[at].values[p], meta.columns[at])}`);
  }

  pick(p) {
    this.chosen = p;
    this.root.dataset.picked = p >= 0 ? this.data.numbers[p] : "";
    const text = this.picked.querySelector("span"), open = this.picked.querySelector("button");
    this.picked.style.display = p >= 0 ? "" : "none";
    if (p < 0) return;
    text.textContent = this.told(p, 24).join(" · ");
    open.onclick = () => this.trigger("opened", this.data.numbers[this.chosen]);
  }

  keptFront() {
    const { meta } = this.data, found = [];
    for (let p = meta.n - meta.front; p < meta.n; p++) if (this.kept[p]) found.push(this.data.numbers[p]);
    return found;
  }

  grasp(e) {
    const at = this.where(e, this.upright), { upright } = this.data.meta;
    const k = upright.findIndex((_, i) => Math.abs(this.column(i) - at.x) < 22);
    if (k < 0) return;
    this.upright.setPointerCapture(e.pointerId);
    this.held = { k, from: at.y };
    this.ranges.delete(upright[k]);
    this.recolour();
  }

  slide(e) {
    if (!this.held) return;
    const column = this.data.meta.columns[this.data.meta.upright[this.held.k]], at = this.where(e, this.upright).y;
    if (Math.abs(at - this.held.from) < 4) return;
    const value = (y) => {
      const t = clamp(1 - (y - 44) / 168, 0, 1);
      return column.log ? column.low * (column.high / column.low) ** t : column.low + (column.high - column.low) * t;
    };
    const ends = [this.held.from, at].map(value).sort((a, b) => a - b);
    this.ranges.set(this.data.meta.upright[this.held.k], [ends[0] - 1e-6 * Math.abs(ends[0]), ends[1] + 1e-6 * Math.abs(ends[1])]);
    this.recolour();
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".brush");
  const view = root.view ?? new View(root);
  view.show(data, setTriggerValue);
  return () => view.stop();
}
