"""An exhaustive search on plain integers, to hold the planner's search against.

Nothing here imports `shardwise.solver`. The rules on rows are written anew from their reasons, every
layout of the stages is tried, and every value is added up with Python integers. Only `prices` reads the
ledger, and of it only the coefficients of rows: what a layer costs is the ledger's business, what can be
done with layers is this package's.

| module | holds |
|---|---|
| `rows` | global choices: nested loops and the rules that refuse |
| `wishes` | what a request allows: lists, rules, tiers, limits |
| `stack` | the layers to share out, modules that predict further tokens last |
| `stages` | splits of the layers with recompute and offload |
| `prices` | coefficients of rows as plain integers (the one reader of the ledger) |
| `placement` | which cards of which stage stand in which node |
| `evaluate` | memory at each moment, host memory of each node, step time |
| `brute` | the least step of everything |
| `transformers`, `machines`, `themes`, `requests` | random small requests, by seed |
| `coverage` | what the optima of many requests have shown |
"""
