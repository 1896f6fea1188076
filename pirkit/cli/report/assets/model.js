// The facts of one part of the input, with the tables that the views look things up in.
const ROW = { results: 0, op: 1, operands: 2, attributes: 3, type: 4, bytes: 5, places: 6, depth: 7 };
const OUTPUT = "pir.shadow_output";

function make(tag, options, ...children) {
  const node = document.createElement(tag);
  const { on, data, ...rest } = options || {};
  for (const [name, value] of Object.entries(rest)) {
    if (name === "style") node.style.cssText = value; else node[name] = value;
  }
  for (const [name, value] of Object.entries(data || {})) node.dataset[name] = value;
  for (const [name, act] of Object.entries(on || {})) node.addEventListener(name, act);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const count = (number) => number.toLocaleString("en");
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
function size(bytes) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (bytes < 1024) return `${unit === "B" ? bytes : bytes.toFixed(1)} ${unit}`;
    bytes /= 1024;
  }
  return `${bytes.toFixed(2)} GiB`;
}
const micros = (us) => us >= 1000 ? `${(us / 1000).toFixed(2)} ms` : `${us.toFixed(us < 10 ? 2 : 1)} µs`;
const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);

class Part {
  constructor(facts) {
    Object.assign(this, facts);
    this.texts = new Map();
    this.found = new Map();
    this.modulesMade = new Map();
    this.changed = this.steps.filter((step, k) => k === 0 || step.module !== this.steps[k - 1].module);
    this.last = this.modules.length - 1;
    this.findCosts();
  }

  name(row) { return this.strings[this.rows[row][ROW.op]]; }
  short(row) { return this.name(row).replace(/^\w+\./, ""); }
  results(row) { return this.rows[row][ROW.results]; }
  operands(row) { return this.rows[row][ROW.operands]; }
  places(row) { return this.rows[row][ROW.places]; }
  type(row) { return this.strings[this.rows[row][ROW.type]]; }

  text(row) { // as it is printed, with names that stay the same in all modules
    let found = this.texts.get(row);
    if (found === undefined) {
      const [results, op, operands, attributes, type, , , depth] = this.rows[row];
      const held = this.strings[attributes], types = this.strings[type];
      found = "  ".repeat(depth) + (results.length ? results.map((v) => "%" + v).join(", ") + " = " : "")
        + this.strings[op] + "(" + operands.map((v) => "%" + v).join(", ") + ")"
        + (held ? ` {${held}}` : "") + (types ? ` : ${types}` : "");
      this.texts.set(row, found);
    }
    return found;
  }

  module(number) { // its operations in order, and who makes and uses each value
    let found = this.modulesMade.get(number);
    if (!found) {
      found = { number, ops: [], program: [], makers: new Map(), users: new Map(), at: new Map(), names: [] };
      for (const [name, rows] of this.modules[number]) {
        found.names.push(name);
        for (const row of rows) {
          const k = found.ops.push(row) - 1;
          found.program.push(name);
          found.at.set(row, k);
          for (const value of this.operands(row)) {
            if (!found.users.has(value)) found.users.set(value, []);
            if (!found.users.get(value).includes(k)) found.users.get(value).push(k);
          }
          for (const value of this.results(row)) found.makers.set(value, k);
        }
      }
      this.modulesMade.set(number, found);
    }
    return found;
  }

  makersOf(module, k) {
    const found = this.operands(module.ops[k]).map((value) => module.makers.get(value));
    return [...new Set(found.filter((other) => other !== undefined && other !== k))];
  }
  usersOf(module, k) {
    return [...new Set(this.results(module.ops[k]).flatMap((value) => module.users.get(value) || []))];
  }

  stepName(number) {
    const k = this.steps.findIndex((step) => step.module === number);
    return `${k}: ${this.steps[k].name}`;
  }

  // The function of the user's program that a row comes from; "" if that is not known.
  functionOf(row) {
    const place = this.places(row)[0];
    if (!place) return "";
    const [file, line] = place;
    const inside = this.files[file].functions.filter(([, first, last]) => first <= line && line <= last);
    return inside.length ? inside[inside.length - 1][0] : baseName(this.files[file].path);
  }
  place([file, line]) { return `${baseName(this.files[file].path)}:${line}`; }

  // Microseconds: measured, or the least that the machine needs for the bytes and operations.
  least(item) {
    return Math.max(item.bytes / this.machine.bandwidth, item.flops / this.machine.flops) * 1e6;
  }
  // The instruction of an operation: of a program before the last one, that which makes its values,
  // or those of the kernel that it becomes a part of.
  instructionOf(row) {
    if (!this.found.has(row)) this.found.set(row, this.findInstruction(row));
    return this.found.get(row);
  }
  findInstruction(row) {
    const last = this.module(this.last);
    const making = (rows) => rows.flatMap((other) => this.results(other)).map((value) => last.makers.get(value)).find((k) => k !== undefined && this.itemOf.has(last.ops[k]));
    let k = this.itemOf.has(row) ? last.at.get(row) : making([row]);
    for (const fusion of k === undefined ? this.fusion : []) {
      const kernel = fusion.kernelOf.find(([other]) => other === row)?.[1];
      if (kernel !== undefined) k = making(fusion.kernelOf.filter(([, other]) => other === kernel).map(([other]) => other));
    }
    return k === undefined ? undefined : this.itemOf.get(last.ops[k]);
  }
  cost(item) { return this.profiled ? item.us || 0 : this.least(item); }

  findCosts() {
    this.items = (this.plans || []).flatMap((plan) => (plan.rows || []).map((item, k) => ({ ...item, plan, at: k })));
    this.itemOf = new Map(); // row of the last module -> instruction
    this.lineCost = new Map(); // "file:line" -> { cost, items }
    this.total = 0;
    for (const item of this.items) {
      const cost = this.cost(item), lines = new Set();
      this.total += cost;
      for (const row of item.ops) {
        this.itemOf.set(row, item);
        for (const place of this.places(row)) lines.add(place.join(":"));
      }
      for (const line of lines) { // a kernel of several lines counts for each in equal shares
        const held = this.lineCost.get(line) || { cost: 0, items: [] };
        held.cost += cost / lines.size;
        held.items.push(item);
        this.lineCost.set(line, held);
      }
    }
  }

  fusionOf(number) { // kernels of the operations of a module, if it is the one that was fused
    const found = this.fusion.filter((fusion) => fusion.module === number);
    const kernelOf = new Map(), why = new Map(), names = [];
    for (const fusion of found) {
      for (const [row, kernel] of fusion.kernelOf) kernelOf.set(row, names.length + kernel);
      names.push(...fusion.kernels);
      for (const [maker, user, reason] of fusion.edges) why.set(`${maker}-${user}`, fusion.reasons[reason]);
    }
    return found.length ? { kernelOf, why, names } : null;
  }
}
