# SPDX-License-Identifier: Apache-2.0
# The table of hack/bench fs, and its JSON. Input: the goals; results: ROW THREADS VARIANT ROUND SECONDS BYTES OPS CPU RSS, one figure a line;
# slow: the variant of which less was measured, and note: how much.

function median(list, n,    i, j, t) {
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j - 1] > list[j]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
    return n == 0 ? -1 : n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}

# The median over rounds of what `kind` says of a variant: its rate, or its rate to the baseline's of the same round.
function figure(cell, base, kind,    i, n, list, r) {
    n = 0
    for (i = 1; i <= rounds; i++) {
        if (!((cell, i) in rate)) continue
        if (kind == "ratio" && !((base, i) in rate)) continue
        r = kind == "ratio" ? rate[cell, i] / rate[base, i] : kind == "cpu" ? cpu[cell, i] : kind == "rss" ? rss[cell, i] : rate[cell, i]
        list[++n] = r
    }
    return median(list, n)
}

function number(x, digits) { return x < 0 ? "null" : sprintf("%." digits "f", x) }

function emit(row, threads, variant, ratio, mb, c, m) {
    printf "%s  {\"workload\": \"%s\", \"threads\": %d, \"variant\": \"%s\", \"ratio_to_native\": %s, \"mb_per_s\": %s, \"cpu_s_per_gb\": %s, \"rss_mib\": %s%s}", \
        comma, row, threads, variant, number(ratio, 3), number(mb, 1), number(c, 3), number(m, 1), variant == slow ? ", \"note\": \"" note "\"" : "" > json
    comma = ",\n"
}

function verdict(goal, value, most) {
    if (goal == "-" || value < 0) return ""
    return (most ? value <= goal : value >= goal) ? "met" : "NOT MET"
}

function theirs(name, rate, ratio) { return sprintf("%s%s %s (%.1fx)  ", name, name == slow ? "*" : "", number(rate, rate < 10), ratio) }

function line(row, threads, ours, native, others, ratio, goal, met) {
    printf "%-22s %3s  %12s %12s  %7s %6s  %-8s %s\n", row, threads, ours, native, ratio, goal, met, others
}

BEGIN {
    while ((getline text < results) > 0) {
        split(text, f, " ")
        cell = f[1] SUBSEP f[2] SUBSEP f[3]
        seen[cell] = 1
        has_bytes[f[1]] += f[6]
        rate[cell, f[4]] = (f[6] > 0 ? f[6] / 1e6 : f[7] / 1e3) / f[5]
        cpu[cell, f[4]] = f[6] > 0 ? f[8] / (f[6] / 1e9) : -1
        rss[cell, f[4]] = f[9]
        value[cell] = f[7]
        if (f[4] > rounds) rounds = f[4]
        if (!(f[3] in known)) { known[f[3]] = 1; names[++nnames] = f[3] }
    }
    printf "[\n" > json
    line("workload", "t", "millrace", "baseline", "others: rate (our ratio to theirs)", "ratio", "goal", "")
}

{
    row = $1; t = $2; goal = $3; base_name = $4; state = $5
    ours = row SUBSEP t SUBSEP "millrace"
    base = row SUBSEP t SUBSEP base_name
    if (state == "cpu") {
        a = figure($6 SUBSEP t SUBSEP "millrace", "", "cpu"); b = figure($6 SUBSEP t SUBSEP "native", "", "cpu")
        if (a < 0 || b <= 0) next
        line(row, "t" t, sprintf("%.2f s/GB", a), sprintf("%.2f s/GB", b), "", sprintf("%.2f", a / b), "<" goal, verdict(goal, a / b, 1))
        next
    }
    if (!(ours in seen)) next
    if (state == "memory") {
        line(row, "", value[ours], "", "", "", "<" goal, value[ours] == "nan" ? "unknown" : verdict(goal, value[ours] + 0, 1))
        next
    }
    unit = has_bytes[row] ? "MB/s" : "k/s"
    others = ""
    for (i = 1; i <= nnames; i++) {
        cell = row SUBSEP t SUBSEP names[i]
        if (!(cell in seen)) continue
        r = figure(cell, base, "ratio")
        emit(row, t, cell == base ? "native" : names[i], r, has_bytes[row] ? figure(cell, "", "rate") : -1, figure(cell, "", "cpu"), cell == base ? -1 : figure(cell, "", "rss"))
        if (cell != ours && cell != base)
            others = others theirs(names[i], figure(cell, "", "rate"), figure(ours, cell, "ratio"))
    }
    r = figure(ours, base, "ratio")
    line(row, "t" t, sprintf("%.0f %s", figure(ours, "", "rate"), unit), sprintf("%.0f %s", figure(base, "", "rate"), unit), others, sprintf("%.2f", r), goal, verdict(goal, r, 0))
}

END {
    if (slow in known) printf "* %s: %s\n", slow, note
    printf "\n]\n" > json
}
