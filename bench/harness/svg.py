"""Line charts as SVG, nothing but the standard library. A series is a name, points (x, y) or (x, y, low, high), and dashed
for a limit."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 64, 16, 44, 52
COLOURS = ["#0b62a4", "#b3372f", "#2f7d32", "#7a4fa3", "#8a6d00", "#00727a"]


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def nice_ticks(high, n=5):
    """Round numbers from 0 to at least high."""
    raw = max(high, 1e-9) / n
    step = 10 ** math.floor(math.log10(raw))
    step *= next(m for m in (1, 2, 5, 10) if m * step >= raw)
    return [i * step for i in range(int(math.ceil(high / step - 1e-9)) + 1)]


def label(value):
    return f"{value:g}" if abs(value) < 1e5 else f"{value:.0e}"


class Plane:
    """Data to pixels; x by powers of two where log_x."""

    def __init__(self, series, log_x):
        points = [p for s in series for p in s["points"]]
        self.log = log_x
        xs = [self.x_of(p[0]) for p in points]
        self.x0, self.x1 = (min(xs), max(xs)) if log_x else (0, max(xs))
        self.x1 += (self.x1 - self.x0) * 0.03 or 1
        self.y_ticks = nice_ticks(max(p[3] if len(p) > 3 else p[1] for p in points) * 1.03)

    def x_of(self, x):
        return math.log2(x) if self.log else x

    def x(self, x):
        return LEFT + (self.x_of(x) - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, y):
        return HEIGHT - BOTTOM - y / self.y_ticks[-1] * (HEIGHT - TOP - BOTTOM)


def axes(plane, xs, title, x_label, y_label):
    out = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
           f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
           f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
           f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
           f'{escape(y_label)}</text>']
    for y in plane.y_ticks:
        at = plane.y(y)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{label(y)}</text>')
    for x in xs if plane.log else nice_ticks(max(xs)):
        if x <= max(xs) * 1.001:
            out.append(f'<text x="{plane.x(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label(x)}</text>')
    return out


def draw(plane, series, i):
    colour = "#555555" if series.get("dashed") else COLOURS[i % len(COLOURS)]
    line = " ".join(f"{plane.x(p[0]):.1f},{plane.y(p[1]):.1f}" for p in series["points"])
    dash = ' stroke-dasharray="6 4"' if series.get("dashed") else ""
    out = [f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>']
    for p in series["points"]:
        if len(p) > 3:
            out.append(f'<line x1="{plane.x(p[0]):.1f}" x2="{plane.x(p[0]):.1f}" y1="{plane.y(p[2]):.1f}" '
                       f'y2="{plane.y(p[3]):.1f}" stroke="{colour}"/>')
        if not series.get("dashed"):
            out.append(f'<circle cx="{plane.x(p[0]):.1f}" cy="{plane.y(p[1]):.1f}" r="3" fill="{colour}"/>')
    y = TOP + 2 + 16 * i
    out.append(f'<line x1="{LEFT + 12}" x2="{LEFT + 36}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"{dash}/>')
    out.append(f'<text x="{LEFT + 42}" y="{y + 4}">{escape(series["name"])}</text>')
    return out


def chart(title, x_label, y_label, series, log_x=False):
    """The whole file's text."""
    plane = Plane(series, log_x)
    xs = sorted({p[0] for s in series if not s.get("dashed") for p in s["points"]})
    body = axes(plane, xs, title, x_label, y_label)
    for i, s in enumerate(series):
        body += draw(plane, s, i)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">'
            + f"<title>{escape(title)}</title>" + "\n".join(body) + "</svg>\n")
