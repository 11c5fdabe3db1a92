// The timeline of one step on a canvas: an overview, the critical path, threads and streams.
//
// In: the object of report_timeline.c in the element #data. Times are ns from the beginning of what is drawn. Out:
// a picture that zooms (ctrl + wheel, keys, the overview), moves (drag) and explains what is pointed at.
(function () {
    'use strict';
    const data = JSON.parse(document.getElementById('data').textContent);
    const canvas = document.getElementById('timeline'), about = document.getElementById('slice');
    if (!canvas || !canvas.getContext) return;
    const pen = canvas.getContext('2d');
    const OVERVIEW = 34, AXIS = 22, ROW = 17, PATH = 15, GAP = 7, CURVE = 30;
    const SOFT = ['range', 'operator', 'call', 'wait', 'overhead', 'annotation', 'stream-wait'];
    const WORDS = ['range', 'operator', 'call', 'wait of the host', 'overhead of the driver or profiler',
        'range on the device', 'wait of a stream'];
    const view = { from: 0, to: data.length };
    let gutter = 148, colours = [], ink = {}, chosen = null, hovered = null, marked = null, width = 0, height = 0;

    // ---- what is drawn: rows of slices that do not overlap, sorted ----
    const rows = [], links = new Map();
    let y = OVERVIEW + AXIS;
    const pathTop = y;
    if (data.path.length) y += PATH + GAP;
    for (const track of data.tracks) {
        track.top = y;
        const levels = [];
        let start = 0;
        track.d.forEach((duration, i) => {
            start += track.s[i];
            const level = track.l[i], slice = { track, start, end: start + duration, name: track.n[i], kind: track.k[i],
                info: track.i[i], link: track.c[i], level };
            (levels[level] = levels[level] || []).push(slice);
            track.slices = track.slices || [];
            track.slices.push(slice);
            if (slice.link) links.set(slice.link, (links.get(slice.link) || []).concat(slice));
        });
        levels.forEach((slices, level) => rows.push({ y: y + level * ROW, slices, track }));
        track.height = Math.max(1, levels.length) * ROW;
        y += track.height + GAP;
    }
    for (const curve of data.samples) { // counters over time: one value from each moment to the next
        curve.top = y;
        let at = 0;
        curve.at = curve.s.map(distance => at += distance);
        y += CURVE + GAP;
    }
    height = y + 2;

    const time = ns => {
        const [unit, name] = ns >= 999.5e6 ? [1e9, 's'] : ns >= 999.5e3 ? [1e6, 'ms'] : ns >= 999.5 ? [1e3, 'µs'] : [1, 'ns'];
        const value = ns / unit;
        return value.toFixed(unit === 1 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2) + ' ' + name;
    };
    const x = ns => gutter + (ns - view.from) / (view.to - view.from) * (width - gutter);
    const ns = px => view.from + (px - gutter) / (width - gutter) * (view.to - view.from);
    const whole = px => (px - gutter) / (width - gutter) * data.length;

    // ---- drawing ----
    function readColours() {
        const style = getComputedStyle(document.documentElement), of = name => style.getPropertyValue('--' + name).trim();
        colours = data.kinds.map((_, i) => of('k' + i)).concat(SOFT.map(of));
        for (const name of ['ink', 'quiet', 'line', 'card', 'paper', 'accent', 'label', 'soft-label', 'critical', 'band', 'roof'])
            ink[name] = of(name);
    }

    function firstVisible(slices) {
        let low = 0, high = slices.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (slices[middle].end < view.from) low = middle + 1; else high = middle;
        }
        return low;
    }

    function clipped(text, room) {
        if (pen.measureText(text).width <= room) return text;
        let low = 0, high = text.length;
        while (low < high) {
            const middle = (low + high + 1) >> 1;
            if (pen.measureText(text.slice(0, middle) + '…').width <= room) low = middle; else high = middle - 1;
        }
        return low > 2 ? text.slice(0, low) + '…' : '';
    }

    function drawSlice(slice, top, tall) {
        const left = Math.max(x(slice.start), gutter), right = Math.min(x(slice.end), width);
        const wide = Math.max(right - left, 1), soft = slice.kind >= data.kinds.length;
        pen.globalAlpha = marked && !marked.has(slice) ? .22 : 1;
        pen.fillStyle = colours[slice.kind] || ink.roof;
        pen.fillRect(left, top, wide > 3 ? wide - .6 : wide, tall);
        if (wide > 34) {
            pen.fillStyle = soft ? ink['soft-label'] : ink.label;
            pen.fillText(clipped(data.names[slice.name], wide - 8), left + 4, top + tall / 2 + .5);
        }
        pen.globalAlpha = 1;
    }

    function drawRow(row) {
        let last = -1;
        for (let i = firstVisible(row.slices); i < row.slices.length && row.slices[i].start <= view.to; i++) {
            const slice = row.slices[i], right = x(slice.end);
            if (right - last < .7 && right - x(slice.start) < .7 && !(marked && marked.has(slice))) continue;
            drawSlice(slice, row.y, ROW - 1.5);
            last = right;
        }
    }

    function drawAxis() {
        const span = view.to - view.from, room = (width - gutter) / 110, raw = span / Math.max(room, 2);
        const power = Math.pow(10, Math.floor(Math.log10(raw)));
        const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= raw) || power * 10;
        // as many digits as tell one mark from the next
        const [unit, name] = view.to - data.zero >= 1e9 ? [1e9, 's'] : view.to - data.zero >= 1e6 ? [1e6, 'ms'] : [1e3, 'µs'];
        const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
        pen.textAlign = 'left';
        for (let at = Math.ceil((view.from - data.zero) / step) * step; at + data.zero <= view.to; at += step) {
            const px = x(at + data.zero);
            pen.fillStyle = ink.line;
            pen.fillRect(px, OVERVIEW + 4, 1, height - OVERVIEW - 4);
            pen.fillStyle = ink.quiet;
            const text = Math.abs(at) < step / 2 ? '0' : (at < 0 ? '−' : '') + (Math.abs(at) / unit).toFixed(digits) + ' ' + name;
            if (px + 8 + pen.measureText(text).width < width) pen.fillText(text, px + 4, OVERVIEW + 12);
        }
        for (const edge of [data.zero, data.zero + data.step]) {
            if (edge < view.from || edge > view.to) continue;
            pen.fillStyle = ink.accent;
            pen.fillRect(x(edge) - .5, OVERVIEW + 4, 1.5, height - OVERVIEW - 4);
        }
    }

    function drawOverview() {
        const scale = (width - gutter) / data.length;
        pen.fillStyle = ink.paper;
        pen.fillRect(gutter, 2, width - gutter, OVERVIEW - 8);
        for (const row of rows) {
            if (row.track.host) continue;
            for (const slice of row.slices) {
                if (slice.kind >= data.kinds.length) continue;
                const from = Math.max(slice.start, 0), to = Math.min(slice.end, data.length);
                pen.fillStyle = colours[slice.kind];
                pen.fillRect(gutter + from * scale, 6, Math.max((to - from) * scale, .4), OVERVIEW - 16);
            }
        }
        const left = gutter + view.from * scale, right = gutter + view.to * scale;
        pen.globalAlpha = .72;
        pen.fillStyle = ink.card;
        pen.fillRect(gutter, 2, left - gutter, OVERVIEW - 8);
        pen.fillRect(right, 2, width - right, OVERVIEW - 8);
        pen.globalAlpha = 1;
        pen.strokeStyle = ink.accent;
        pen.lineWidth = 1.2;
        pen.strokeRect(left + .5, 2.5, Math.max(right - left - 1, 2), OVERVIEW - 9);
    }

    function drawPath() {
        if (!data.path.length) return;
        for (const [start, duration, kind] of data.path) {
            if (start + duration < view.from || start > view.to) continue;
            const left = Math.max(x(start), gutter), right = Math.min(x(start + duration), width);
            pen.fillStyle = colours[kind];
            pen.fillRect(left, pathTop, Math.max(right - left, .5), PATH - 4);
        }
    }

    function sampleAt(curve, at) {
        let low = 0, high = curve.at.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (curve.at[middle] <= at) low = middle + 1; else high = middle;
        }
        return low - 1;
    }

    function drawCurve(curve, i) {
        const last = curve.at.length - 1, bottom = curve.top + CURVE;
        pen.fillStyle = ink.line;
        pen.fillRect(gutter, bottom, width - gutter, 1);
        pen.fillStyle = colours[i % data.kinds.length];
        pen.beginPath();
        pen.moveTo(Math.max(x(curve.at[Math.max(sampleAt(curve, view.from), 0)]), gutter), bottom);
        let right = gutter;
        for (let k = Math.max(sampleAt(curve, view.from), 0); k <= last && curve.at[k] <= view.to; k++) {
            const top = bottom - curve.v[k] / 1000 * (CURVE - 2);
            const end = k < last ? curve.at[k + 1] : curve.at[k] + (k ? curve.at[k] - curve.at[k - 1] : 0);
            right = Math.min(Math.max(x(end), gutter), width);
            pen.lineTo(Math.max(x(curve.at[k]), gutter), top);
            pen.lineTo(right, top);
        }
        pen.lineTo(right, bottom);
        pen.fill();
    }

    function curveAt(px, py) {
        const curve = px >= gutter && data.samples.find(c => py >= c.top && py < c.top + CURVE);
        const k = curve ? sampleAt(curve, ns(px)) : -1;
        return k < 0 ? null : { curve, k };
    }

    function drawTitles() {
        pen.fillStyle = ink.card;
        pen.fillRect(0, 0, gutter - 6, height);
        pen.fillStyle = ink.quiet;
        pen.textAlign = 'left';
        pen.fillText('device', 0, OVERVIEW / 2 - 2);
        if (data.path.length) {
            pen.fillStyle = ink.ink;
            pen.fillText(clipped('critical path', gutter - 14), 0, pathTop + PATH / 2 - 2);
        }
        for (const track of data.tracks) {
            pen.fillStyle = track.host ? ink.quiet : ink.ink;
            const title = gutter < 120 ? track.title.replace(/^gpu (\d+) · stream /, '$1 · ') : track.title;
            pen.fillText(clipped(title, gutter - 14), 0, track.top + ROW / 2);
        }
        pen.fillStyle = ink.ink;
        for (const curve of data.samples) pen.fillText(clipped(curve.title, gutter - 14), 0, curve.top + CURVE / 2);
    }

    // From the call to what it started, and the other way.
    function drawLinks() {
        if (!chosen || !chosen.link) return;
        pen.strokeStyle = ink.accent;
        pen.lineWidth = 1.4;
        for (const other of links.get(chosen.link)) {
            if (other === chosen) continue;
            const [a, b] = chosen.track.host ? [chosen, other] : [other, chosen];
            const ax = x(a.start), ay = a.track.top + a.level * ROW + ROW - 2, bx = x(b.start), by = b.track.top + b.level * ROW;
            pen.beginPath();
            pen.moveTo(ax, ay);
            pen.bezierCurveTo(ax, ay + 30, bx, by - 30, bx, by);
            pen.stroke();
        }
    }

    function drawOutline(slice, colour) {
        const left = Math.max(x(slice.start), gutter), right = Math.min(x(slice.end), width);
        pen.strokeStyle = colour;
        pen.lineWidth = 1.6;
        pen.strokeRect(left - .5, slice.track.top + slice.level * ROW - .5, Math.max(right - left, 2), ROW - .5);
    }

    let waiting = false;
    function draw() {
        if (waiting) return;
        waiting = true;
        requestAnimationFrame(() => {
            waiting = false;
            const ratio = window.devicePixelRatio || 1;
            width = canvas.clientWidth;
            gutter = Math.min(148, Math.round(width * .24)); // for titles; the picture needs its room
            canvas.style.height = height + 'px';
            if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
                canvas.width = Math.round(width * ratio);
                canvas.height = Math.round(height * ratio);
            }
            pen.setTransform(ratio, 0, 0, ratio, 0, 0);
            pen.clearRect(0, 0, width, height);
            pen.font = '11.5px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
            pen.textBaseline = 'middle';
            data.tracks.forEach((track, i) => {
                if (i % 2) return;
                pen.fillStyle = ink.band;
                pen.fillRect(gutter, track.top - GAP / 2, width - gutter, track.height + GAP);
            });
            drawAxis();
            rows.forEach(drawRow);
            data.samples.forEach(drawCurve);
            drawPath();
            drawLinks();
            if (hovered) drawOutline(hovered, ink.quiet);
            if (chosen) drawOutline(chosen, ink.accent);
            drawTitles();
            drawOverview();
        });
    }

    // ---- what is pointed at ----
    function sliceAt(px, py) {
        if (px < gutter) return null;
        const row = rows.find(r => py >= r.y && py < r.y + ROW);
        if (!row) return null;
        const at = ns(px), slack = (view.to - view.from) / (width - gutter) * 2;
        for (let i = firstVisible(row.slices); i < row.slices.length && row.slices[i].start <= at + slack; i++)
            if (row.slices[i].end >= at - slack) return row.slices[i];
        return null;
    }

    const escape = text => text.replace(/[&<>]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c]);
    function explain(slice) {
        if (!slice) {
            about.innerHTML = 'Point at a slice to see what it is; drag to move, ctrl + wheel or W and S to zoom, ' +
                'double-click to zoom to a slice. The line between two blue marks is the step.';
            return;
        }
        const kind = slice.kind < data.kinds.length ? data.kinds[slice.kind] : WORDS[slice.kind - data.kinds.length];
        about.innerHTML = '<b>' + escape(data.names[slice.name]) + '</b><br>' + time(slice.end - slice.start) + ', ' + escape(kind) +
            ', at ' + time(Math.abs(slice.start - data.zero)) + (slice.start < data.zero ? ' before the step' : ' of the step') +
            (slice.info ? ' · ' + escape(data.names[slice.info]) : '');
    }

    function explainSample({ curve, k }) {
        const at = curve.at[k] - data.zero;
        about.innerHTML = '<b>' + escape(curve.title) + '</b><br>' + (curve.v[k] / 10).toFixed(1) + ' % of what the device can, at ' +
            time(Math.abs(at)) + (at < 0 ? ' before the step' : ' of the step');
    }

    function zoom(factor, centre) {
        const span = Math.min(Math.max((view.to - view.from) * factor, 200), data.length);
        const part = (centre - view.from) / (view.to - view.from);
        show(centre - part * span, centre - part * span + span);
    }
    function show(from, to) {
        const span = Math.min(to - from, data.length);
        view.from = Math.min(Math.max(from, 0), data.length - span);
        view.to = view.from + span;
        draw();
    }

    // ---- hands ----
    let drag = null;
    canvas.addEventListener('pointerdown', event => {
        const inOverview = event.offsetY < OVERVIEW;
        drag = { x: event.offsetX, from: view.from, to: view.to, overview: inOverview, moved: false };
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', event => {
        if (!drag) {
            const slice = sliceAt(event.offsetX, event.offsetY), sample = curveAt(event.offsetX, event.offsetY);
            if (sample) explainSample(sample);
            if (slice !== hovered) {
                hovered = slice;
                explain(slice || chosen);
                draw();
            }
            return;
        }
        if (Math.abs(event.offsetX - drag.x) > 3) drag.moved = true;
        if (!drag.moved) return;
        if (drag.overview) {
            const ends = [whole(drag.x), whole(event.offsetX)].sort((a, b) => a - b);
            if (ends[1] - ends[0] > data.length / 1e4) show(Math.max(ends[0], 0), Math.min(ends[1], data.length));
        } else {
            const by = (drag.x - event.offsetX) / (width - gutter) * (drag.to - drag.from);
            show(drag.from + by, drag.to + by);
        }
    });
    canvas.addEventListener('pointerup', event => {
        if (drag && !drag.moved && drag.overview) {
            const half = (view.to - view.from) / 2, at = whole(event.offsetX);
            show(at - half, at + half);
        } else if (drag && !drag.moved) {
            chosen = sliceAt(event.offsetX, event.offsetY);
            if (!chosen) marked = null;
            explain(chosen);
            draw();
        }
        drag = null;
    });
    canvas.addEventListener('pointerleave', () => { hovered = null; explain(chosen); draw(); });
    canvas.addEventListener('dblclick', event => {
        const slice = sliceAt(event.offsetX, event.offsetY);
        if (slice) show(slice.start - (slice.end - slice.start) * .2 - 1, slice.end + (slice.end - slice.start) * .2 + 1);
    });
    canvas.addEventListener('wheel', event => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        zoom(Math.exp(event.deltaY * .002), ns(event.offsetX));
    }, { passive: false });
    canvas.addEventListener('keydown', event => {
        const span = view.to - view.from, middle = view.from + span / 2, by = span * .15;
        const acts = {
            w: () => zoom(.7, middle), s: () => zoom(1 / .7, middle), '+': () => zoom(.7, middle), '-': () => zoom(1 / .7, middle),
            a: () => show(view.from - by, view.to - by), d: () => show(view.from + by, view.to + by),
            ArrowLeft: () => show(view.from - by, view.to - by), ArrowRight: () => show(view.from + by, view.to + by),
            Escape: () => { chosen = marked = null; explain(null); show(0, data.length); },
        };
        const act = !event.ctrlKey && !event.metaKey && acts[event.key];
        if (act) { act(); event.preventDefault(); }
    });
    const button = (id, act) => { const found = document.getElementById(id); if (found) found.addEventListener('click', act); };
    const middle = () => (view.from + view.to) / 2;
    button('zoom-in', () => zoom(.5, middle()));
    button('zoom-out', () => zoom(2, middle()));
    button('zoom-step', () => { marked = null; show(data.zero, data.zero + data.step); });
    for (const found of document.querySelectorAll('button[data-finding]'))
        found.addEventListener('click', () => {
            const slices = data.findings[found.dataset.finding].map(([track, i]) => data.tracks[track].slices[i]);
            if (!slices.length) return;
            marked = new Set(slices);
            chosen = slices[0];
            const from = Math.min(...slices.map(s => s.start)), to = Math.max(...slices.map(s => s.end)), room = (to - from) * .05 + 1000;
            explain(chosen);
            show(from - room, to + room);
            canvas.scrollIntoView({ behavior: 'smooth', block: 'center' });
        });
    window.addEventListener('resize', draw);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); draw(); });
    readColours();
    explain(null);
    show(data.zero, data.zero + data.step);
})();
