#!/usr/bin/python3
"""Compare two result files of bench_engine: counts tightly, times loosely.

    bench/compare.py BASE.csv NEW.csv [--times 0.25] [--counts 0.0]

Rows are matched by scene and dt (the last row of each wins). Exact work counts may differ by the
fraction --counts, times may grow by the fraction --times (they are compared only if both files come
from the same CPU model and compiler). Residuals may not grow tenfold above 1e-9. Exit code 1 if
anything got worse, 2 on a bad file."""
import argparse
import csv
import sys

COUNTS = ("steps passes newton halvings failsafe contacts rows active solver_iterations set_changes "
          "factorizations solves fallbacks candidates vt_tests ee_tests hits list_rebuilds allocations "
          "contacts_max active_max passes_max").split()
TIMES = "median_us p99_us mean_us".split()
PHASES = "ns_assemble ns_detect ns_rows ns_solve ns_certify".split()  # wall time: shown, not judged
RESIDUALS = "natural_ratio err energy_step energy_drift".split()


def read(path):
    rows = {}
    try:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                rows[row["scene"], float(row["dt"])] = row
    except (OSError, KeyError, ValueError, TypeError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        sys.exit(2)
    if not rows:
        print(f"{path}: no rows", file=sys.stderr)
        sys.exit(2)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("new")
    parser.add_argument("--times", type=float, default=0.25, help="allowed growth of times (0.25)")
    parser.add_argument("--counts", type=float, default=0.0, help="allowed change of counts (0)")
    args = parser.parse_args()
    base, new = read(args.base), read(args.new)
    worse = 0
    for key in sorted(set(base) | set(new)):
        name = f"{key[0]} dt {1e3 * key[1]:g} ms"
        if key not in base or key not in new:
            print(f"{name}: only in {args.base if key in base else args.new}")
            continue
        a, b = base[key], new[key]
        comparable = a["cpu"] == b["cpu"] and a["compiler"] == b["compiler"]
        print(f"{name}: median {float(a['median_us']):.1f} -> {float(b['median_us']):.1f} us, "
              f"p99 {float(a['p99_us']):.1f} -> {float(b['p99_us']):.1f} us, "
              f"state {'same' if a['hash'] == b['hash'] else 'differs'}"
              f"{'' if comparable else ' (other CPU or compiler: times not compared)'}")
        for field in COUNTS:
            p, q = int(a[field]), int(b[field])
            if abs(q - p) > args.counts * max(abs(p), abs(q)):
                more = q > p
                worse += more
                print(f"  {field}: {p} -> {q} ({100.0 * (q - p) / p if p else 100:+.1f} %)"
                      f"{'  WORSE' if more else ''}")
        for field in TIMES if comparable else ():
            p, q = float(a[field]), float(b[field])
            if q > p * (1 + args.times):
                worse += 1
                print(f"  {field}: {p:.1f} -> {q:.1f} us  WORSE")
        for field in PHASES if comparable else ():
            p, q = float(a[field]), float(b[field])
            if q > p * (1 + args.times) + 1:
                print(f"  {field}: {p:.1f} -> {q:.1f} us")
        for field in RESIDUALS:
            p, q = float(a[field]), float(b[field])
            if q > 1e-9 and q > 10 * p:
                worse += 1
                print(f"  {field}: {p:.1e} -> {q:.1e}  WORSE")
    print(f"{worse} figures worse" if worse else "nothing worse")
    return worse > 0


if __name__ == "__main__":
    sys.exit(main())
